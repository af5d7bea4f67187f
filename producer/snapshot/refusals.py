"""What the errors of a server mean for the snapshot of a table."""

from __future__ import annotations

from typing import Final

import pymysql

from cdcbus.producer.server.errors import code_of
from cdcbus.producer.snapshot.progress import TableState

GONE: Final = "the table no longer exists"
NO_COLUMN: Final = 1054  # a message that names no cells
NOT_THERE: Final = {1146, 1049}
_NOT_GRANTED: Final = {1142, 1143, 1044}
_NO_ROUTINE: Final = 1370  # that the condition of a start calls


def final_state(error: pymysql.Error) -> tuple[TableState, str] | None:
    """The state, and its reason, of a table that is gone or that the user may not read."""
    code = code_of(error)
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


def refusal(error: pymysql.Error, where: str) -> str:
    """Why a table cannot be read; `where`: the condition of its start."""
    code = code_of(error)
    said = str(code)
    if code == NO_COLUMN:
        said = f"{code}: {error.args[1]}"
    if not where:
        return f"the server refuses to read it ({said})"
    return (
        f"the server refuses to read it with the condition of its start ({said}): start its "
        "snapshot again, with a condition that holds for its columns"
    )
