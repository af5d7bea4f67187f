"""Which commits of an earlier process count at a take-over, and which it can no longer make."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import pytest

from cdcbus.plugins.errors import (
    OffsetConflict,
    TargetUnavailable,
)
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.positions import TopicPartition
from tests.integration.consumer.offsets.world import (
    Process,
    World,
    once,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    "are_known", [False, True], ids=["it waits", "it ends the other's session"]
)
def test_a_take_over_meets_a_commit_under_way_and_keyless_rows_come_once(
    world: World, monkeypatch: pytest.MonkeyPatch, are_known: bool
) -> None:
    """Sessions of another process cannot be told behind a pooler: there the commit is waited
    for."""
    if not are_known:
        monkeypatch.setattr(JdbcBatch, "end_other_sessions", lambda _: None)
    old = world.start()
    partition = TopicPartition(world.task.task_id, 0)
    written, go_on, failed = Event(), Event(), list[Exception]()
    store = old.loader.transaction

    def slow_transaction() -> Any:
        manager = store()

        class Slow:
            def __enter__(self) -> Any:
                return manager.__enter__()

            def __exit__(self, *error: Any) -> Any:
                written.set()
                go_on.wait(30)
                return manager.__exit__(*error)

        return Slow()

    old.loader.transaction = slow_transaction  # type: ignore[method-assign]

    def commit() -> None:
        try:
            old.apply(10, saves=False)
        except Exception as error:
            failed.append(error)

    committing = Thread(target=commit)
    committing.start()
    assert written.wait(30)
    found = list[Process]()
    taking = Thread(target=lambda: found.append(world.start()))
    taking.start()
    wait_until(lambda: len(world.processes) == 2, "the other one to begin")
    if are_known:
        taking.join(30)
    else:
        taking.join(0.5)
        assert taking.is_alive(), "it has not waited"
    go_on.set()
    committing.join(30)
    taking.join(30)
    if are_known:
        assert [type(error) for error in failed] == [TargetUnavailable]
        assert found[0].offsets[partition] == 0
    else:
        assert (failed, found[0].offsets[partition]) == ([], 10)
    found[0].apply(20)
    assert {row: times for row, times in world.rows().items() if row[0] == 0} == once(20)


def test_one_that_commits_again_and_again_is_fenced_at_once(world: World) -> None:
    """Ten rounds, as in each it may be lucky."""
    partition, records = TopicPartition(world.task.task_id, 0), 20_000
    world.produce(1, records)
    for _ in range(10):
        zombie, over = world.start(), Event()

        def commit(zombie: Process = zombie, over: Event = over) -> None:
            with suppress(OffsetConflict, TargetUnavailable):
                while not over.is_set():
                    zombie.apply(min(zombie.offsets[partition] + 1, records), saves=False)
            over.set()

        committing = Thread(target=commit)
        committing.start()
        begun = zombie.offsets[partition]
        wait_until(
            lambda begun=begun, zombie=zombie: zombie.offsets[partition] > begun,  # type: ignore[misc]
            "it to commit",
        )
        world.start()
        assert over.wait(10), "it still commits"
        committing.join(10)
    assert max(world.rows().values()) == 1


def test_an_executor_of_an_earlier_epoch_commits_nothing(world: World) -> None:
    late = world.start()
    world.start()
    with pytest.raises(OffsetConflict):
        late.apply(5, saves=False)
    assert world.rows() == Counter()
