"""What is published already, by places and by GTIDs."""

from __future__ import annotations

import pytest

from cdcbus.plugins.positions import Published
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.gtid import parse_gtids
from cdcbus.producer.binlog.published_ahead import PublishedAhead

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
END = Published("bin.000002", 500, f"{UUID}:1-9")


def at(pos: int) -> BinlogCoordinates:
    return BinlogCoordinates("bin.000002", pos)


@pytest.mark.parametrize(("pos", "is_published"), [(499, True), (500, False)])
def test_on_its_own_server_the_place_counts(pos: int, is_published: bool) -> None:
    ahead = PublishedAhead(END, by_gtids=False, is_mariadb=False)
    assert ahead.has(f"{UUID}:99", at(pos)) is is_published
    assert ahead.is_passed(at(pos), None) is not is_published


@pytest.mark.parametrize(
    ("gtid", "is_published"), [(f"{UUID}:9", True), (f"{UUID}:10", False), ("", False)]
)
def test_on_another_server_the_gtid_counts(gtid: str, is_published: bool) -> None:
    ahead = PublishedAhead(END, by_gtids=True, is_mariadb=False)
    assert ahead.has(gtid, at(4)) is is_published


@pytest.mark.parametrize(
    ("executed", "is_passed"), [(None, False), (f"{UUID}:1-8", False), (f"{UUID}:1-9", True)]
)
def test_on_another_server_it_is_passed_once_all_of_it_is_executed(
    executed: str | None, is_passed: bool
) -> None:
    ahead = PublishedAhead(END, by_gtids=True, is_mariadb=False)
    found = parse_gtids(executed, is_mariadb=False) if executed else None
    assert ahead.is_passed(at(4), found) is is_passed
