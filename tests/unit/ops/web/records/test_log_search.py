"""The log of a task, searched."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cdcbus.ops.web.records import log_search
from cdcbus.ops.web.records.log_search import FOUND_LINES, search
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.tasks import Run

LINES = (
    "2026-11-26 03:00:00 INFO task 7: reads Shop",
    "2026-11-26 03:00:01 WARNING task 7: shop is slow",
    "2026-11-26 03:00:02 ERROR task 7: failed",
    "  at the shop",
    "2026-11-26 03:00:03 INFO task 7: goes on",
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "7.log"
    file.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return file


@pytest.fixture
def status(log: Path) -> Status:
    return _of(socket.gethostname(), log)


def _of(host: str, log: Path) -> Status:
    return Status("7", State.WORKING, run=Run(State.WORKING, host=host, log=str(log)))


@pytest.mark.parametrize(
    ("word", "level", "numbers"),
    [
        ("", "", [0, 1, 2, 3, 4]),
        ("SHOP", "", [0, 1, 3]),
        ("", "ERROR", [2, 3]),
        ("shop", "WARNING", [1, 3]),
        ("nothing", "", []),
    ],
)
def test_lines_are_found_by_text_and_level(
    status: Status, log: Path, word: str, level: str, numbers: list[int]
) -> None:
    found = search(status, log, word, level)
    assert [line.text for line in found.lines] == [LINES[number] for number in numbers]
    assert found.count == len(numbers)


def test_only_the_newest_lines_are_shown_and_only_the_end_is_searched(
    status: Status, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("".join(f"line {number} \xff\n" for number in range(2 * FOUND_LINES)))
    found = search(status, log, "line", "")
    assert (len(found.lines), found.count, found.is_cut) == (FOUND_LINES, 2 * FOUND_LINES, False)
    assert found.lines[-1].text.startswith(f"line {2 * FOUND_LINES - 1} ")
    monkeypatch.setattr(log_search, "SEARCHED_BYTES", 100)
    assert search(status, log, "line", "").is_cut


def test_a_log_that_is_not_here_says_where_it_is(status: Status, log: Path) -> None:
    assert search(Status("7", State.NEW), log, "", "").missing == "No node has run it yet."
    assert "It is on other.example" in search(_of("other.example", log), log, "", "").missing
    assert "It is" in search(status, log.with_name("other.log"), "", "").missing
    log.unlink()
    assert "cannot be read" in search(status, log, "", "").missing
