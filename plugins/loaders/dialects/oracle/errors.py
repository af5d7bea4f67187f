"""Oracle's errors: their classes, and which of their texts may be passed on."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from cdcbus.plugins.errors import TargetMisconfigured, TargetRejected, TargetUnavailable
from cdcbus.plugins.loaders.dialect import Diagnosis
from cdcbus.plugins.loaders.dialects.error_codes import NOT_OF_ROW, ErrorCodes, codes, known_names

UNAVAILABLE: Final = codes(
    # sessions, locks, deadlock, shutdown, lost connections, changed packages
    "18 20 28 54 60 1012 1013 1033 1034 1089 1090 1092 2391 2396 3113 3114 3135 3136 4020 4021",
    "4061 4068 8177",
    # the listener, the network
    "12170 12505 12514 12516 12518-12521 12526 12528 12537 12541 12543 12545 12547 12560 12571",
    # space, failover, read-only
    "1652-1654 1688 1691 1692 25408 25409 25425 30006 30036 257 16000 16456",
)
READ_ONLY: Final = 16000
MISCONFIGURED: Final = codes(
    # login, rights, quotas, TLS
    "1004 1005 1017 1031 1035 1045 1536 1950 28000 28001 28040 28759 28860 29024"
)
UNFIT: Final = codes(
    # columns, types, views, triggers; a column that another process has just added
    "904 913 932 942 947 1430 1732 1733 1747 1776 1779 4063 4098 32795 54013 54017"
)
OF_ROW: Final = codes(
    # NULL, checks, lengths, partitions
    "1400 1407 2290 12899 12900 1401 14400 14402 30926",
    # numbers, texts, JSON
    "1426 1438 1461 1476 1480 1481 1489 1722 1790 6502 22835 22922 22923 40441 40478 40479",
    # moments
    "1801 1810 1821 1830 1839-1867 1870 1873 1877 1878 1881 1882 1891",
)
CONFLICTS: Final = codes("1 2291 2292")  # unique and foreign keys
CODES: Final = ErrorCodes(UNAVAILABLE, MISCONFIGURED, UNFIT, CONFLICTS, OF_ROW)
# Messages whose first line names objects and sizes only. Those of conversions quote the cell, from
# version 23 on.
QUOTABLE: Final = (
    UNAVAILABLE
    | MISCONFIGURED
    | codes("1 904 942 1400 1407 2290 2291 2292 12899 30926 32795 54013")
    | codes("1430 1439-1441 22858 22859")  # what ALTER TABLE cannot change
)
ROLLED_BACK: Final = 2091  # by the commit; the second line says why
LOST: Final = re.compile(r"DPY-(1001|4011|4024|6000|6001|6003|6005|6010)|DPI-(1010|1067|1080)")
LOGIN: Final = re.compile(
    r"DPY-(3001|3010|3015|4000|4001|4022|4026|4027|6002|6006)|certificate", re.IGNORECASE
)


def diagnose(error: BaseException, columns: Collection[str]) -> Diagnosis:
    """Classifies an error. At most one line of a driver's text is passed on, and only if its code
    says that it does not quote the row."""
    cause: BaseException = getattr(error, "orig", None) or error
    [detail] = cause.args[:1] or [cause]
    message, _, more = str(detail).partition("\n")
    code = getattr(detail, "code", 0)
    if code == ROLLED_BACK and (inner := re.match(r"ORA-(\d+).*", more)):
        code = int(inner[1])
        message = inner[0]
    if LOST.search(message):
        # a connection that was refused is lost, too; the lines that follow say why
        if LOGIN.search(str(detail)):
            return Diagnosis(TargetMisconfigured, message)
        return Diagnosis(TargetUnavailable, message)
    if LOGIN.search(message):
        return Diagnosis(TargetMisconfigured, message)
    if not code:
        name = type(cause).__name__
        if message.startswith("DPY-"):
            name = message[:8]
        return Diagnosis(TargetRejected, f"the driver refuses the cells ({name})")
    if code not in QUOTABLE:
        message = f"ORA-{code:05}: {_safe_text(code, message, columns)}"
    return Diagnosis(CODES.class_of(code), message)


def is_read_only(error: BaseException) -> bool:
    """Whether the database takes no writes."""
    cause: BaseException = getattr(error, "orig", None) or error
    [detail] = cause.args[:1] or [cause]
    return getattr(detail, "code", 0) == READ_ONLY


def _safe_text(code: int, message: str, columns: Collection[str]) -> str:
    if 20000 <= code < 21000:  # the range of RAISE_APPLICATION_ERROR
        return "a trigger or a procedure of the target's own refuses the statement"
    if code not in OF_ROW:
        return NOT_OF_ROW
    named = known_names(r"[^\s\"'.,()]+", message.rpartition("column")[2], columns)
    if not named:
        return "a cell does not fit"
    return f"a cell does not fit column {named[-1]}"
