"""What the errors of a server mean for the snapshot of a table."""

from __future__ import annotations

from typing import Final

import pymysql

from cdcbus.producer.server.connection import OF_CLIENT
from cdcbus.producer.snapshot.progress import TableState

AWAY: Final = (pymysql.OperationalError, pymysql.InterfaceError, pymysql.InternalError)
_PASSING: Final = {
    *(1205, 1213, 1020, 1180, 1412, 1615),  # locks, a changed row, a table altered meanwhile
    *(1927, 4031, 1152, 1158, 1159, 1160, 1161),  # killed, idle, network
    *(1040, 1041, 1037, 1038, 1135, 1203, 1226),  # connections, memory, limits of a user
    *(1021, 1114, 1024, 1026, 1030, 1016, 1023, 1878),  # disk, files, the storage engine
    *(1053, 1079, 1047, 1317, 1969, 3024),  # shutdown, cluster not ready, interrupted, time limits
    *(3168, 3169, 9001, 9002, 9004),  # not ready, killed; ProxySQL reaches no server
    *(1045, 1129, 1130, 1251, 1698, 1862),  # logins
}
GONE: Final = "the table no longer exists"
NO_COLUMN: Final = 1054  # a message that names no cells
NOT_THERE: Final = {1146, 1049}
_NOT_GRANTED: Final = {1142, 1143, 1044}
_NO_ROUTINE: Final = 1370  # that the condition of a start calls


def final_state(error: pymysql.Error) -> tuple[TableState, str] | None:
    """The state, and its reason, of a table that is gone or that the user may not read."""
    code = _code(error)
    if code in NOT_THERE:
        return TableState.DROPPED, GONE
    if code in _NOT_GRANTED:
        return (
            TableState.FAILED,
            f"the user may not read it ({code}): GRANT SELECT on it, then start its snapshot again",
        )
    if code == _NO_ROUTINE:
        return TableState.FAILED, f"the user may not read it ({code})"
    return None


def passes(error: pymysql.Error) -> bool:
    """Whether the same statement may be answered later. The driver's classes do not tell: an
    unknown column is an OperationalError, too."""
    code = _code(error)
    # Numbers below are those of the server's file layer, as of a disk that is full.
    is_of_server = code >= 1000 and code not in OF_CLIENT
    return isinstance(error, AWAY) and (not is_of_server or code in _PASSING)


def refusal(error: pymysql.Error, where: str) -> str:
    """Why a table cannot be read; `where`: the condition of its start."""
    code = _code(error)
    said = str(code)
    if code == NO_COLUMN:
        said = f"{code}: {error.args[1]}"
    if not where:
        return f"the server refuses to read it ({said})"
    return (
        f"the server refuses to read it with the condition of its start ({said}): start its "
        "snapshot again, with a condition that holds for its columns"
    )


def _code(error: pymysql.Error) -> int:
    """The error's number; 0 for one of the driver's own that has none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0
