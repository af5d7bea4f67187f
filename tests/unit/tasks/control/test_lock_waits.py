"""What the list of sessions says about waits."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.tasks.control.lock_waits import UNKNOWN, waited_for

LOCKED = "Waiting for table metadata lock"


def row(seconds: object, state: str | None, text: str | None, user: str = "cdc") -> tuple[Any, ...]:
    """As of MariaDB, which has one column more."""
    return ("7", user, "h:1", None, "Query", seconds, state, text, 0.0)


@pytest.mark.parametrize(
    ("session", "tables"),
    [
        (row(12, LOCKED, "SELECT `id` FROM `dl`.`u` FORCE INDEX (`PRIMARY`)"), ["dl.u"]),
        (row("12", "Waiting for table flush", "SELECT 1 FROM `a``b`.`c d`")[:8], ["a`b.c d"]),
        (row(60, LOCKED, "SHOW CREATE TABLE x"), [UNKNOWN]),
        (row(60, LOCKED, None), [UNKNOWN]),
        (row(9, LOCKED, "SELECT 1 FROM `dl`.`u`"), []),
        (row(99, LOCKED, "SELECT 1 FROM `dl`.`u`", "other"), []),
        (row(99, "Sending data", "SELECT 1 FROM `dl`.`u`"), []),
        (row(None, None, None), []),
    ],
)
def test_long_waits_for_tables_are_known_by_the_list_of_sessions(
    session: tuple[Any, ...], tables: list[str]
) -> None:
    assert (
        waited_for([session, session], lambda number, user: (number, user) == (7, "cdc")) == tables
    )
