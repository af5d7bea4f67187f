"""The variables of a Query event, as MariaDB wrote them."""

from __future__ import annotations

import pytest

from cdcbus.producer.ddl.session_variables import SQL_MODE, XID, has_happened, session_variables

FIRST = "00 00000000 01 0100002054000000 06 03737464 04 2d002d002d00"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", True),
        ("8202", False),
        ("8208 2b00000000000000", False),
        ("81 8804000000000000 8204 2d00000000000000", True),
    ],
    ids=["no phases", "starts", "has failed", "has ended"],
)
def test_an_alter_in_two_phases_happens_at_its_end(rest: str, *, expected: bool) -> None:
    assert has_happened(session_variables(bytes.fromhex(FIRST + rest))) is expected


def test_variables_behind_the_phase_are_read() -> None:
    found = session_variables(bytes.fromhex(FIRST + "8204 2d00000000000000 81 8804000000000000"))
    assert found[XID] == bytes.fromhex("8804000000000000")
    assert found[SQL_MODE] == bytes.fromhex("0100002054000000")
