"""Saves beside the rows: one at a time, and what they meet is not lost."""

from collections.abc import Iterator
from threading import Event

import pytest

from cdcbus.plugins import saved_aside
from cdcbus.plugins.errors import PositionConflict, PositionUnavailable
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.saved_aside import SavedAside
from tests.support.processes.no_threads import without_threads
from tests.support.waiting import wait_until


@pytest.fixture
def aside() -> Iterator[SavedAside]:
    aside = SavedAside("/position")
    yield aside
    aside.rest()


def away() -> None:
    raise PositionUnavailable("away")


def edited() -> None:
    raise PositionConflict("edited")


def test_a_save_is_not_waited_for_and_no_other_begins_meanwhile(aside: SavedAside) -> None:
    go_on, saved = Event(), Event()

    def write() -> None:
        assert go_on.wait(30)
        saved.set()

    aside.save(write)
    assert not aside.is_free()
    assert not saved.is_set()
    go_on.set()
    aside.settle()
    assert saved.is_set()
    assert aside.is_free()


def test_what_a_save_meets_is_raised_once_by_the_next_call(aside: SavedAside) -> None:
    aside.save(edited)
    with pytest.raises(PositionConflict):
        wait_until(aside.is_free, "the save")
    assert aside.is_free()
    aside.save(edited)
    with pytest.raises(PositionConflict):
        aside.settle()
    aside.settle()


def test_at_an_end_it_no_longer_matters(aside: SavedAside) -> None:
    aside.save(edited)
    aside.rest()
    aside.settle()


def test_a_silence_is_logged_and_raised_when_it_lasts(
    aside: SavedAside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    aside.save(away)
    aside.settle()
    assert "/position is stored later: away" in caplog.text
    monkeypatch.setattr(saved_aside, "LONGEST_SECONDS", -1.0)
    aside.save(away)
    with pytest.raises(PositionUnavailable):
        aside.settle()


def test_a_thread_that_cannot_be_started_is_logged_and_its_save_is_made_later(
    aside: SavedAside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as full:
        without_threads(full, "saved-aside")
        aside.save(lambda: None)
        assert aside.is_free()
    assert "/position is stored later: /position is not stored: can't start" in caplog.text
    saved = Event()
    aside.save(saved.set)
    aside.settle()
    assert saved.is_set()


def test_a_silence_begins_anew_behind_a_save(
    aside: SavedAside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_aside, "LONGEST_SECONDS", 3600.0)
    aside.save(away)
    aside.settle()
    aside._failing_since -= 7200.0  # as if that were long ago
    aside.save(lambda: None)
    aside.settle()
    aside.save(away)
    aside.settle()


def test_what_is_logged_meanwhile_is_the_tasks(aside: SavedAside) -> None:
    names: list[str] = []
    token = TASK_AT_WORK.set("1084")
    try:
        aside.save(lambda: names.append(TASK_AT_WORK.get()))
        aside.settle()
    finally:
        TASK_AT_WORK.reset(token)
    assert names == ["1084"]
