"""When progress is stored, and wishes are removed."""

from __future__ import annotations

import pytest

from cdcbus.plugins.errors import (
    PositionUnavailable,
)
from cdcbus.plugins.saved_aside import SavedAside
from cdcbus.producer.config import (
    SnapshotMode,
)
from cdcbus.producer.snapshot import progress_saver
from cdcbus.producer.snapshot.courses import Courses
from cdcbus.producer.snapshot.progress import (
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.progress_saver import ProgressSaver
from tests.unit.producer.snapshot.world import KeptWishes, World, task_of


def test_a_wish_is_kept_until_what_it_means_is_stored(world: World) -> None:
    world.begin(SnapshotMode.NEVER)
    world.wish(WishKind.START)()
    before = world.store.heeds
    world.acknowledge()
    assert world.store.heeds == before
    world.run()
    assert world.store.heeds > before
    assert world.ids() == [1, 2, 3, 4, 5]


def test_progress_that_cannot_be_stored_is_stored_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def gone() -> None:
        world.store.error = PositionUnavailable("away")
        world.acknowledge()
        stored.extend(world.store.states)
        world.store.error = None

    stored: list[TableState] = []
    world.run(gone)
    assert TableState.DONE not in stored
    assert "the progress of snapshots is stored later: away" in caplog.text
    assert world.progress().state is TableState.DONE


def test_a_silent_store_holds_up_neither_the_stream_nor_the_reading(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_saver, "SavedAside", SavedAside)

    def answers() -> None:
        seen.append((world.ids(), list(world.store.states)))
        world.store.answers.set()
        world.snapshots._saver.settle()

    seen: list[tuple[list[int], list[TableState]]] = []
    world.store.answers.clear()
    world.run(world.acknowledge, world.reaches(150), world.acknowledge, answers)
    assert seen == [([1, 2, 3, 4, 5], [])]
    world.snapshots.acknowledged(world.sent, world.stored, is_last=True)
    assert world.progress().state is TableState.DONE


class SlowWishes(KeptWishes):
    """They are found once `answers` is set."""

    def wishes(self) -> list[Wish]:
        assert self.answers.wait(60)
        return super().wishes()


def test_a_wish_that_is_found_just_before_a_save_is_not_removed_by_it() -> None:
    store, stop = SlowWishes(), Wish(WishKind.STOP)
    store.answers.clear()
    saver = ProgressSaver(store, Courses(task_of(SnapshotMode.NEVER), {}))
    store.wished.append(stop)
    assert saver.save()
    assert saver.take_up() == []
    store.answers.set()
    saver.settle()
    assert not saver.save()
    assert store.wished == [stop]
    assert saver.take_up() == [stop]
    # It is heeded now, so the next save removes it.
    assert saver.save()
    saver.settle()
    assert store.wished == []
