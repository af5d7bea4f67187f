"""Positions in a binlog that somebody has set by hand, without a source."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from cdcbus.plugins.contracts import Written
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.producer.set_by_hand import as_set
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
# After a failover, until the server begins a file after all of the GTIDs.
WITHOUT_SERVER = BinlogPosition("bin.000003", 400, 7, f"{UUID}:1-90", 1_700_000_000_000)
OF_SERVER = replace(
    WITHOUT_SERVER,
    server_uuid=UUID,
    file_created_ms=1_699_000_000_000,
    published=Published("bin.000003", 500, f"{UUID}:1-91"),
)


def started(was: BinlogPosition, stored: str) -> BinlogPosition:
    """The position at which a task starts that wrote one, and has another one now."""
    node = MemoryNode()
    node.write(Written(was.to_json()))
    node.set(stored.encode())
    positions = MemoryPositions(node)
    return BinlogPosition.from_json(as_set(positions.load() or "", positions))


@pytest.mark.parametrize(
    ("was", "file", "pos", "found"),
    [
        (WITHOUT_SERVER, "bin.000003", 200, BinlogPosition("bin.000003", 200, 7)),
        (WITHOUT_SERVER, "bin.000001", 4, BinlogPosition("bin.000001", 4, 7)),
        (
            OF_SERVER,
            "bin.000003",
            200,
            BinlogPosition(
                "bin.000003", 200, 7, server_uuid=UUID, file_created_ms=1_699_000_000_000
            ),
        ),
        # The time of the former file would say that the binlog was reset.
        (OF_SERVER, "bin.000001", 4, BinlogPosition("bin.000001", 4, 7, server_uuid=UUID)),
        # Without GTIDs a failover would go on by the time of the former place.
        (
            replace(WITHOUT_SERVER, gtid="", server_uuid=UUID),
            "bin.000003",
            200,
            BinlogPosition("bin.000003", 200, 7, server_uuid=UUID),
        ),
        # As a first start stores it, and `cdcbus offset reset`.
        (
            replace(OF_SERVER, timestamp_ms=0, published=None),
            "bin.000003",
            200,
            BinlogPosition(
                "bin.000003", 200, 7, server_uuid=UUID, file_created_ms=1_699_000_000_000
            ),
        ),
    ],
)
def test_a_place_that_was_edited_alone_holds_without_what_was_of_the_former_one(
    was: BinlogPosition,
    file: str,
    pos: int,
    found: BinlogPosition,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert started(was, replace(was, file=file, pos=pos).to_json()) == found
    assert "reading goes by the file and offset" in caplog.text


@pytest.mark.parametrize("left", [{"timestamp_ms": 0, "server_uuid": ""}, {"gtid": ""}])
def test_what_an_edit_has_left_of_the_former_place_does_not_count(left: dict[str, Any]) -> None:
    edited = replace(OF_SERVER, pos=200, **left)
    found = started(OF_SERVER, edited.to_json())
    assert (found.pos, found.gtid, found.timestamp_ms) == (200, "", 0)
    assert found.server_uuid == edited.server_uuid


@pytest.mark.parametrize(
    "stored",
    [
        OF_SERVER,
        replace(OF_SERVER, batch_id=9),
        BinlogPosition("bin.000003", 200),
        # Of another time, and whole.
        replace(OF_SERVER, pos=200, gtid=f"{UUID}:1-50", timestamp_ms=1_600_000_000_000),
        # As `cdcbus offset reset` sets it where nothing was committed in between.
        replace(OF_SERVER, pos=200, timestamp_ms=0),
    ],
)
def test_any_other_position_is_taken_as_it_is(
    stored: BinlogPosition, caplog: pytest.LogCaptureFixture
) -> None:
    assert started(OF_SERVER, stored.to_json()) == stored
    assert caplog.text == ""


def test_a_reset_to_another_server_without_new_commits_is_no_edit() -> None:
    first = replace(OF_SERVER, timestamp_ms=0, published=None)
    stored = replace(first, pos=200, server_uuid="5a1b0c77-71ca-11e1-9e33-c80aa9429562")
    assert started(first, stored.to_json()) == stored


def test_without_a_written_position_nothing_is_known_of_the_stored_one() -> None:
    text = WITHOUT_SERVER.to_json()
    assert as_set(text, MemoryPositions()) == text


def test_what_is_no_position_is_left_to_be_refused() -> None:
    node = MemoryNode()
    node.write(Written(WITHOUT_SERVER.to_json()))
    positions = MemoryPositions(node)
    positions.load()
    assert as_set("junk", positions) == "junk"
