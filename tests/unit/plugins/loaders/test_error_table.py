"""The table of error codes in docs/targets.md says what the code does, and all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders.dialects.mysql import errors as mysql_errors
from cdcbus.plugins.loaders.dialects.oracle import errors as oracle_errors
from cdcbus.plugins.loaders.dialects.postgresql import errors as postgresql_errors

DOCS: Final = Path(__file__).parents[4] / "docs" / "targets.md"
KINDS: Final[dict[str, tuple[str, type[TargetError]]]] = {
    "the row": ("OF_ROW", TargetRejected),
    "another row": ("CONFLICTS", RowConflict),
    "the table": ("UNFIT", TargetTableUnfit),
    "the server": ("UNAVAILABLE", TargetUnavailable),
    "login, rights": ("MISCONFIGURED", TargetMisconfigured),
}


def documented(kind: str, column: int) -> str:
    """A cell of the table."""
    _, _, rest = DOCS.read_text("utf-8").partition("| about | PostgreSQL |")
    [row] = [
        line
        for line in rest.partition("\n\n")[0].splitlines()
        if line.startswith(f"| {kind}") and line[2 + len(kind)] in ": "
    ]
    return row.split("|")[column].strip()


def numbers(text: str) -> set[int]:
    """`7 9-11` as 7, 9, 10, 11."""
    ends = [
        (int(first), int(last or first))
        for first, last in re.findall(r"([0-9]+)(?:-([0-9]+))?", text)
    ]
    return {number for first, last in ends for number in range(first, last + 1)}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_mysql_and_oracle_are_those_of_the_code(kind: str) -> None:
    name, error = KINDS[kind]
    assert numbers(documented(kind, 3)) == set(getattr(mysql_errors, name))
    assert numbers(documented(kind, 4)) == set(getattr(oracle_errors, name))
    for number in numbers(documented(kind, 3)):
        assert mysql_errors.CODES.class_of(number) is error


@pytest.mark.parametrize("kind", KINDS)
def test_states_of_postgresql_are_those_of_the_code(kind: str) -> None:
    """A beginning stands for all that begin so and are not named elsewhere."""
    name, error = KINDS[kind]
    here, _, excepted = documented(kind, 2).partition(" but ")
    last, _, more = excepted.partition(" and ")
    own = set(re.findall(r"[0-9A-Z]{2,5}(?=…| |$)", f"{here} {more.partition(' ')[2]}"))
    assert own == set(getattr(postgresql_errors, name))
    for state in own:
        assert postgresql_errors.class_of(state.ljust(5, "9")) is error
    if last:
        assert all(
            postgresql_errors.class_of(state) is not error
            for state in (last, more.partition(" ")[0])
        )


def test_what_is_not_in_the_table_stops_the_task() -> None:
    assert mysql_errors.CODES.class_of(mysql_errors.SIGNAL) is TargetError
    assert postgresql_errors.class_of("P0001") is TargetError
    assert postgresql_errors.class_of("XX000") is TargetError
