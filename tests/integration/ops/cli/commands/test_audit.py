"""Which commands the audit tells of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.bus import Bus, open_bus, resting_text

pytestmark = pytest.mark.integration

POSITION = '{"offset":7,"partition":0,"positionKey":"t_0","topic":"t"}'


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def test_every_command_that_changes_something_is_noted_and_no_other(bus: Bus) -> None:
    assert bus("audit").stderr == f"nobody has done anything yet at {bus.address}\n"
    bus.load(resting_text("242", "127.0.0.1:1", "t"))
    bus("task", "list")
    bus("task", "start", "242", "--timeout", "0.1", code=1)
    bus("task", "restart", "242", "--timeout", "0.1", code=1)
    bus("task", "stop", "242")
    bus("offset", "set", "242", POSITION, "--yes")
    bus("offset", "undo", "242", "--yes")
    bus("offset", "history", "242")
    bus("offset", "undo", "242", "--yes")
    bus("task", "clone", "242", "243")
    bus("offset", "copy", "242", "243", "--yes")
    bus("task", "rm", "243", "--yes")
    bus("offset", "set", "242", "{}", code=1)
    bus("source", "add", "SHOP", "url=jdbc:postgresql://h/db")
    bus("source", "list")
    noted = bus.json("audit")
    assert [(each["what"], each["on"]) for each in noted] == [
        ("task import", "task 242"),
        ("task start", "task 242"),
        ("task restart", "task 242"),
        ("task stop", "task 242"),
        ("offset set", "task 242"),
        ("offset undo", "task 242"),
        ("offset undo", "task 242"),
        ("task clone 242", "task 243"),
        ("offset copy 242", "task 243"),
        ("task rm", "task 243"),
        ("source add", "source SHOP"),
    ]
    assert {each["failed"] for each in noted} == {""}
    table = bus("audit", "--lines", "2").stdout.splitlines()
    assert table[0].split()[:2] == ["time", "(UTC)"]
    assert [line.split("  ")[2].strip() for line in table[1:]] == ["task rm", "source add"]
