"""MySQL's and MariaDB's errors: their classes, and which of their texts may be passed on."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import TargetError, TargetMisconfigured, TargetUnavailable
from cdcbus.plugins.loaders.dialect import Diagnosis
from cdcbus.plugins.loaders.dialects.error_codes import NOT_OF_ROW, ErrorCodes, codes, known_names
from cdcbus.plugins.mysql.tls import TLS_ERRORS, is_tls_refusal

UNAVAILABLE: Final = codes(
    # locks, deadlock, changed row, no wait, commit
    "1205 1213 1206 1020 3572 3101 1180 1099 1100 1223",
    # a table was altered meanwhile, for the transaction or the statement
    "1412 1615",
    # no connection, lost, idle, killed, network
    "2002 2003 2006 2013 2014 2055 4031 1927 1152 1158-1161",
    # connections, memory, per-user limits
    "1040 1041 1037 1038 1135 1203 1226",
    # disk or table full, errors of files and of the storage engine; the first are those of the
    # server's file layer, as of a disk that is full, or too many open files
    "1-7 9-15 20 21 23 24 27 1021 1114 1024 1026 1030 1016 1023 1878",
    # shutdown, offline mode, read-only (failover), cluster not ready, group replication that has
    # lost its majority, interrupted, timeouts
    "1053 1079 3032 1290 1792 1836 1047 3100 1317 1969 3024 3168 3169",
    # ProxySQL: it reaches no server
    "9001 9002 9004",
)
MISCONFIGURED: Final = TLS_ERRORS | codes(
    # rights, unknown database, host, login method, account, binlog format
    "1044 1045 1046 1049 1129 1130 1142 1143 1227 1251 1370 1524 1665 1698 1820 1862 2059 3118"
)
READ_ONLY: Final = codes("1290 1792 1836")
NO_RIGHT: Final = codes("1044 1142")
"""For example to create a temporary table."""
TOO_WIDE: Final = codes("1117 1118")
"""Too many columns, too long rows."""
GTID_REFUSES: Final = codes("1786 1787")
"""A table made from a query, or a temporary one within a transaction, before MySQL 8.0.21 and
8.0.13."""
CLUSTER_REFUSES: Final = "CREATE TABLE AS SELECT"
"""In Percona XtraDB Cluster's text of error 1105, which stands for any error."""
TOO_MANY_COLUMNS: Final = "errno: 185 "
"""In MariaDB's text of error 1005, which stands for any reason that a storage engine has."""
UNFIT: Final = codes(
    # no such column, table or key
    "1054 1136 1146 1051 1072 1091 1176",
    # a view that takes no rows, or that is broken
    "1288 1471 1347 1356 1394",
    # generated columns; a primary key is required
    "3105 1906 1907 3750 1173",
    # what ALTER TABLE refuses
    "1060 1061 1067 1068 1075 1101 1118 1166 1170 1171 3780 1832 1833 1845 1846",
)
OF_ROW: Final = codes(
    # NULL, or no value, where one is required
    "1048 1364 1263",
    # cells that do not fit their column
    "1264 1265 1292 1366 1367 1406 1411 1416 1441 1690 1365 1300",
    # a key that its column's character set lacks, where it is compared with the column
    "1267 1270 1271 3854",
    # JSON, geometries
    "3140 3141 3144 3156 3158 3037 3055 3516 3643 3616 3617 4038",
    # checks, partitions
    "3819 4025 1369 1526 1748 1591 1514",
    # too large
    "1153 1301 139 1713",
)
DUPLICATE: Final = 1062
CONFLICTS: Final = codes("1062 1216 1217 1451 1452 1761 1762")  # unique and foreign keys
CODES: Final = ErrorCodes(UNAVAILABLE, MISCONFIGURED, UNFIT, CONFLICTS, OF_ROW)
# Messages that name objects, not cells.
QUOTABLE: Final = (
    UNAVAILABLE
    | MISCONFIGURED
    | codes("1048 1054 1060 1118 1146 1264 1265 1364 1406 1451 1452 1792 1832 1833 3780 3819 4025")
    # of CREATE TABLE and CREATE INDEX
    | codes("1050 1061 1067 1069 1070 1071 1074 1101 1115 1117 1163 1167 1170 1173 1273 3750 4161")
)
MIXED: Final = codes("1267 1270 1271 3854")
"""A text of one character set meets another one that lacks its characters."""
LITERAL: Final = "COERCIBLE"
"""What MariaDB calls a text of the statement itself, which is a cell of a row."""
SIGNAL: Final = 1644
GROUP_REFUSES: Final = 3100
TRUNCATED: Final = 1265
OUT_OF_RANGE: Final = 1690
OTHER_ROW: Final = re.compile(r"'(~0 \+ 1|\(~\(0\) \+ 1\))'$")
"""The expression by which `upsert_sql` fails if it hits a row with another key, as servers print
it."""
NO_LABEL: Final = (
    "none of its labels; an empty one is MySQL's mark of an invalid value, which cannot be "
    "written in columns of keys, nor in tables "
    "without a key or with one that is rounded: correct it at the source, or give the target's "
    "column the label ''"
)
NO_COMMIT: Final = (
    "group replication refuses the commit: the group has lost its majority, which may pass, or the "
    "transaction is larger than group_replication_transaction_size_limit, which it stays: the "
    "server's error log says which; raise the limit (0: none) on all members then"
)


def diagnose(error: BaseException, columns: Collection[str]) -> Diagnosis:
    """Classifies an error. Server messages are passed on only if they name objects, not cells."""
    cause: BaseException = getattr(error, "orig", None) or error
    number, message = _number_and_message(cause)
    if is_tls_refusal(cause):
        return Diagnosis(TargetMisconfigured, f"no TLS connection: {message}")
    if number == OUT_OF_RANGE and OTHER_ROW.search(message):
        return Diagnosis(
            TargetUnavailable, "it has got a unique key meanwhile, and is looked at again"
        )
    # from the driver: the connection is closed already
    if not isinstance(number, int) or number == 0:
        return Diagnosis(TargetUnavailable, f"the connection is lost ({type(cause).__name__})")
    if number in (1267, 1270) and LITERAL not in message:
        # Columns of a view or a trigger, whatever the row holds.
        return Diagnosis(TargetError, f"errno {number}: {NOT_OF_ROW}")
    text = _safe_text(number, message, columns)
    return Diagnosis(CODES.class_of(number), f"errno {number}: {text}")


def lacks_right(error: BaseException) -> bool:
    """Whether the user lacks a right for the statement."""
    number, _ = _number_and_message(getattr(error, "orig", None) or error)
    return number in NO_RIGHT


def is_read_only(error: BaseException) -> bool:
    """Whether the server, or the session, takes no writes."""
    number, _ = _number_and_message(getattr(error, "orig", None) or error)
    return number in READ_ONLY


def is_too_wide(error: BaseException) -> bool:
    """Whether the server cannot create a table with these columns."""
    number, message = _number_and_message(getattr(error, "orig", None) or error)
    return number in TOO_WIDE or (number == 1005 and TOO_MANY_COLUMNS in message)


def is_form_refused(error: BaseException) -> bool:
    """Whether the server refuses this way to create a table, though another would do."""
    number, message = _number_and_message(getattr(error, "orig", None) or error)
    return number in GTID_REFUSES or (number == 1105 and CLUSTER_REFUSES in message)


def enum_without_label(error: BaseException, table: TargetTable) -> TargetColumn | None:
    """The ENUM column that a cell does not fit, according to the server."""
    number, message = _number_and_message(getattr(error, "orig", None) or error)
    named = re.search("'(.+)'", message)
    if number != TRUNCATED or named is None:
        return None
    column = table.columns.get(named[1])
    if column is None or column.type != "enum":
        return None
    return column


def _number_and_message(cause: BaseException) -> tuple[object, str]:
    number, message, *_ = (*cause.args, "", "")
    return number, str(message)


def _safe_text(number: int, message: str, columns: Collection[str]) -> str:
    if number == GROUP_REFUSES:
        return f"{message.rstrip('.')}: {NO_COMMIT}"
    if number in QUOTABLE:
        return message
    if number == SIGNAL:
        return "a trigger or a check of the target's own refuses the statement (SIGNAL)"
    if number == DUPLICATE:
        text = "a value that must be unique is there already"
        if key := re.search(r"for key '([^']*)'$", message):
            text += f", key {key[1]}"
        return text
    if number in MIXED:
        return "a key has characters that its column cannot hold: check the column's character set"
    # the column's name comes last, after the cell
    named = known_names(r"[^`'. ]+", message.rpartition("olumn ")[2], columns)
    if not named and number in OF_ROW:
        return "the server refuses the rows"
    if not named:
        return NOT_OF_ROW
    if message.startswith("Incorrect string value"):
        return f"text has characters that column {named[0]} cannot hold: check its character set"
    return f"a cell does not fit column {named[0]}"
