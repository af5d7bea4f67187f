"""PostgreSQL's errors: their classes, and which of their texts may be passed on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any, Final

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders.dialect import Cells, Diagnosis, by_column
from cdcbus.plugins.loaders.dialects.error_codes import NOT_OF_ROW

READ_ONLY: Final = "25006"
# Classes of errors by the prefix of their SQLSTATE: only errors of one row can become a dead
# letter; an unlisted error stops the task. docs/targets.md has the same table.
UNAVAILABLE: Final = ("08", "40", "53", "55P03", "57", "58", READ_ONLY, "25P03", "25P04")
MISCONFIGURED: Final = ("28", "3D000", "3F000", "42501")
# no such column, table or key; a view that takes no rows
UNFIT: Final = ("0A", "42", "428C9", "55000", "55006", "2BP01")
# cells that do not fit their column, constraints, too large for an index
OF_ROW: Final = ("21000", "22", "23", "44", "54000")
CONFLICTS: Final = ("23505", "23503", "23001", "23P01")  # unique and foreign keys, exclusion
OWN_REFUSAL: Final = "P0"
RAISE: Final = "exec_stmt_raise"
"""The server's function that raises the error of a RAISE in PL/pgSQL."""
SYNTAX: Final = "42601"
"""An error in a statement of ours."""
# Classes whose primary message names objects only. Those of others, and of triggers, may quote
# cells.
QUOTABLE: Final = (*UNAVAILABLE, *MISCONFIGURED, "23", "25", "42", "54", "22001", "0A")
PARAMETER: Final = re.compile(r"parameter \$(\d+)")
NUMBER: Final = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
# A server that refuses the connection sends no SQLSTATE through the driver.
LOGIN_REFUSED: Final = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry"
    r"|(database|role) \"[^\"]*\" does not exist|is not permitted to log in"
    r"|permission denied for database|certificate verify failed|server certificate for"
    r"|server does not support SSL|(root )?certificate file \"[^\"]*\" does not exist"
    r"|weak sslmode"
)


def diagnose(error: BaseException, columns: Sequence[str]) -> Diagnosis:
    """Classifies an error. `columns`: the statement's, in the order of its parameters."""
    cause: Any = getattr(error, "orig", None) or error
    state: str | None = getattr(cause, "sqlstate", None)
    if state is None:
        return _without_state(error, cause)
    text = _text_of(state, cause)
    if parameter := PARAMETER.search(cause.diag.context or ""):
        number = int(parameter[1])
        if number <= len(columns):
            text += f", column {columns[number - 1]}"
    return Diagnosis(class_of(state), f"SQLSTATE {state}: {text}")


def is_read_only(error: BaseException) -> bool:
    """Whether the server, or the session, takes no writes."""
    cause: Any = getattr(error, "orig", None) or error
    return getattr(cause, "sqlstate", None) == READ_ONLY


def _text_of(state: str, cause: Any) -> str:
    """The server's message if it names objects only; the message of a RAISE may quote cells."""
    if state.startswith(OWN_REFUSAL) or cause.diag.source_function == RAISE:
        return "a trigger or a function of the target's own refuses the statement (RAISE)"
    if state.startswith(QUOTABLE):
        return str(cause.diag.message_primary)
    if state.startswith(OF_ROW):
        return "a cell does not fit"
    return NOT_OF_ROW


@contextmanager
def naming(table: TargetTable, columns: Sequence[str], rows: Sequence[Cells]) -> Iterator[None]:
    """Raises an error for which the server names no column as TargetRejected, with the column, or
    the columns, that it may concern."""
    try:
        yield
    except DBAPIError as error:
        cause: Any = error.orig
        is_about = UNNAMED.get(cause.sqlstate)
        if is_about is None or PARAMETER.search(cause.diag.context or ""):
            raise
        named = []
        for name, cells in by_column(columns, rows):
            column = table.columns[name]
            known = [cell for cell in cells if cell is not None]
            if any(map(partial(is_about, column), known)):
                named.append(name)
        if not named:
            raise
        which = f"one of the columns {', '.join(named)}"
        if len(named) == 1:
            which = f"column {named[0]}"
        raise TargetRejected(
            f"target table {table.id}, {which}: {diagnose(error, ()).text}"
        ) from None


def _is_too_long(column: TargetColumn, cell: str) -> bool:
    """Whether a cell is too long: trailing blanks do not count, digits after the point are
    rounded."""
    if column.length is None:
        return False
    match column.type:
        case "character varying" | "bpchar":
            return len(cell.rstrip(" ")) > column.length
        case '"bit"' | "bit varying":
            return int(cell).bit_length() > column.length
        case "numeric":
            if NUMBER.fullmatch(cell) is None:
                return False
            scale = column.scale or 0
            rounded = round(Fraction(cell), scale)
            limit: int = 10 ** (column.length - scale)
            return abs(rounded) >= limit
    return False


UNNAMED: Final[Mapping[str, Callable[[TargetColumn, str], bool]]] = {
    **dict.fromkeys(("22001", "22003", "22026"), _is_too_long),
    "22P02": lambda column, _: column.type.endswith("[]"),  # array columns are parsed last
}
"""Errors that name no column, and the cells that they may concern."""


def class_of(state: str) -> type[TargetError]:
    if state.startswith(UNAVAILABLE):
        return TargetUnavailable
    if state.startswith(MISCONFIGURED):
        return TargetMisconfigured
    if state.startswith(UNFIT) and state != SYNTAX:
        return TargetTableUnfit
    # before OF_ROW, which includes their class
    if state in CONFLICTS:
        return RowConflict
    if state.startswith(OF_ROW):
        return TargetRejected
    return TargetError


def _without_state(error: BaseException, cause: BaseException) -> Diagnosis:
    """Classifies an error of the driver itself: the connection failed, or the driver could not send
    the cells."""
    if not isinstance(error, OperationalError | InterfaceError):
        return Diagnosis(TargetRejected, f"the driver refuses the cells ({type(cause).__name__})")
    text = str(cause).partition("\n")[0]
    if LOGIN_REFUSED.search(text):
        return Diagnosis(TargetMisconfigured, text)
    return Diagnosis(TargetUnavailable, text)
