"""When a position is stored, and what is noted with it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.plugins.contracts import SentLog, Written
from cdcbus.plugins.errors import BusUnavailable, PositionUnavailable, RecordsLost
from cdcbus.plugins.kafka.config import PublishConfig, TopicRule
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.checkpoint import Checkpoint, mark_of, noted_logs, noting_losses
from cdcbus.producer.config import FetchTask, FilterConfig, RowTransform, SourceConfig
from cdcbus.producer.progress import Progress
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions

PLACE = BinlogPosition("bin.000003", 400, batch_id=7)
TASK = FetchTask(
    "1",
    "s",
    SourceConfig((("h", 1),), "u"),
    FilterConfig(),
    PublishConfig("k:1", "shop", "canalRow"),
    position_interval_seconds=0.0,
)


class World:
    """A task at a source that is quiet: each edge is the stored one. `given`: what its topic was
    given."""

    def __init__(self, given: int = 0) -> None:
        self.node = MemoryNode()
        self.node.write(Written(PLACE.to_json()))
        self.given = given
        logs = SimpleNamespace(noted=self.noted, look=lambda: None)
        self.publisher: Any = SimpleNamespace(cluster_id="c", logs=logs)
        self.progress = Progress()
        self.newer: BinlogPosition | BusUnavailable | None = None

    def noted(self) -> dict[str, SentLog]:
        return {"shop": SentLog("id", self.given)} if self.given else {}

    def checkpoint(self) -> Checkpoint:
        """That of the next attempt."""
        positions = MemoryPositions(self.node)
        start = BinlogPosition.from_json(positions.load() or "")
        deliver: Any = SimpleNamespace(
            **dict.fromkeys(("reached", "settle", "acknowledged", "confirmed")),
            published=lambda: start,
            storing=lambda _: None,
        )
        return Checkpoint(
            TASK, positions, deliver, self.publisher, start, self.progress, lambda _: None
        )

    def committed(self, own: str) -> BinlogPosition | None:
        assert own == self.node.node.data.decode()
        if isinstance(self.newer, BusUnavailable):
            raise self.newer
        return self.newer

    def lose(self, positions: MemoryPositions) -> None:
        """Its topic lacks records."""
        deliver: Any = SimpleNamespace(committed=self.committed)
        with (
            pytest.raises(RecordsLost, match="gone"),
            noting_losses(TASK, positions, self.publisher, deliver),
        ):
            raise RecordsLost("gone", "shop")

    def found(self) -> dict[str, SentLog]:
        """What the next process finds."""
        return dict(noted_logs(TASK, MemoryPositions(self.node), self.publisher))


@pytest.mark.parametrize("is_last", [True, False])
def test_what_a_snapshot_has_sent_is_noted_though_no_position_moves(is_last: bool) -> None:
    world = World()
    with world.checkpoint() as checkpoint:
        world.given = 10
        if is_last:
            checkpoint.store()
        else:
            checkpoint.store_if_due()
    assert world.found() == world.noted()


def test_a_place_that_is_stored_again_is_no_headway() -> None:
    world = World()
    with world.checkpoint() as checkpoint:
        world.given = 10
        checkpoint.store()
        assert checkpoint.stored.batch_id == 8
    assert world.progress.headway == 0


def test_nothing_is_stored_where_nothing_has_changed() -> None:
    world = World(10)
    for _ in range(3):
        with world.checkpoint() as checkpoint:
            for _ in range(3):
                checkpoint.store_if_due(is_due=True)
                checkpoint.store()
    assert checkpoint.stored.batch_id == 8


def test_a_place_that_somebody_has_set_is_stored_with_what_the_topics_have_then() -> None:
    world = World(10)
    with world.checkpoint() as checkpoint:
        checkpoint.store()
    world.node.set(checkpoint.stored.to_json().encode())
    assert not world.found()
    with world.checkpoint() as checkpoint:
        checkpoint.store()
    assert world.found() == world.noted()


def test_a_loss_is_noted_with_the_stored_place_until_somebody_sets_it() -> None:
    world = World()
    rest = SentLog("id", 3)
    mark = mark_of(TASK, world.publisher)
    world.node.write(Written(PLACE.to_json(), replace(mark, sent={"rest": rest})))
    for _ in range(2):
        world.lose(MemoryPositions(world.node))
        assert world.found() == {"shop": SentLog.lost(), "rest": rest}
    assert world.node.node.data.decode() == PLACE.to_json()
    world.node.set(PLACE.to_json().encode())
    assert not world.found()
    # What this place has to do with the loss is not known.
    world.lose(MemoryPositions(world.node))
    assert not world.found()


def test_the_stored_place_is_the_one_that_kafka_has_once_a_loss_is_noted() -> None:
    world = World()
    world.newer = replace(PLACE, pos=500, batch_id=8)
    world.lose(MemoryPositions(world.node))
    assert world.node.node.data.decode() == world.newer.to_json()
    assert world.found() == {"shop": SentLog.lost()}


def test_a_loss_is_noted_though_kafka_does_not_say_what_it_has() -> None:
    world = World()
    world.newer = BusUnavailable("no Kafka")
    world.lose(MemoryPositions(world.node))
    assert world.node.node.data.decode() == PLACE.to_json()
    assert world.found() == {"shop": SentLog.lost()}


def test_a_loss_in_another_cluster_than_before_is_noted_too() -> None:
    world = World()
    world.publisher.cluster_id = "former"
    world.node.write(Written(PLACE.to_json(), mark_of(TASK, world.publisher)))
    world.publisher.cluster_id = "c"
    world.lose(MemoryPositions(world.node))
    assert world.found() == {"shop": SentLog.lost()}


def test_a_loss_that_cannot_be_noted_is_still_the_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PositionUnavailable("no ZooKeeper")

    world = World()
    monkeypatch.setattr(MemoryPositions, "save", refuse)
    world.lose(MemoryPositions(world.node))
    assert "may not notice that topic shop lacks records" in caplog.text


RULE = TopicRule("orders", names_tables=False)


@pytest.mark.parametrize(
    "other",
    [
        replace(TASK, publish=replace(TASK.publish, topic_rules=(RULE,))),
        replace(TASK, tables=FilterConfig((r"shop\..*",))),
        replace(TASK, tables=FilterConfig(black_regexes=(r"shop\.orders",))),
        replace(TASK, tables=FilterConfig(includes=frozenset({"SHOP.ORDERS"}))),
        replace(TASK, tables=FilterConfig(excludes=frozenset({"SHOP.ORDERS"}))),
        replace(TASK, transform=RowTransform((MapperRule(table=("orders", "sales")),))),
        replace(TASK, transform=RowTransform(processor="m:f")),
    ],
)
def test_topics_of_a_task_that_may_now_have_others_do_not_count_unless_it_names_them(
    other: FetchTask,
) -> None:
    world = World()
    sent = {"shop": SentLog("id", 3), "former": SentLog("id", 4), "gone": SentLog.lost()}
    world.node.write(Written(PLACE.to_json(), replace(mark_of(TASK, world.publisher), sent=sent)))
    assert world.found() == sent
    found = noted_logs(other, MemoryPositions(world.node), world.publisher)
    assert found.keys() == {"shop", "gone"}
    others = replace(TASK, position_interval_seconds=9.0)
    assert noted_logs(others, MemoryPositions(world.node), world.publisher) == sent
