"""How long the records are waited for by which a log is compared with what was read."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.apply.lookahead import NotYet
from cdcbus.consumer.apply.watermark import read_on
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import topic_logs
from cdcbus.consumer.offsets.topic_logs import ASK_SECONDS, FIRST_SECONDS, TopicLogs
from cdcbus.consumer.records.late import KnownEpochs, begun_before
from cdcbus.plugins.contracts import JdbcTarget, Landmark
from cdcbus.plugins.epoch import epoch_text
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from tests.support.topics.records import records_of
from tests.unit.consumer.apply.applying import ALONE, PARENTS, filled, parent, row, update

TASK = LoadTask("7", TopicConfig("k:1", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget(""))
ONE = TopicPartition("orders", 0)
TWO = TopicPartition("orders", 1)


class Kafka:
    """Gives records of partitions at their times, in seconds; and the clock. Sets `stop` at its
    time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.coming: list[tuple[float, int]] = []
        self.coming_of_two: list[tuple[float, int]] = []
        self.given = 0
        self.value = b"x"
        # Those of offsets that have another one.
        self.values: dict[int, bytes] = {}
        self.read = {0, 1}
        self.stop, self.stops_at = Event(), float("inf")
        monkeypatch.setattr(topic_logs, "Consumer", lambda _: self)
        monkeypatch.setattr(topic_logs, "monotonic", lambda: self.now)

    def poll(self, seconds: float) -> Any:
        _, number, coming = min(
            (found[0][0], number, found)
            for number, found in enumerate((self.coming, self.coming_of_two, [(float("inf"), 0)]))
            if found and number in self.read | {2}
        )
        if coming[0][0] > self.now + seconds:
            self.now += seconds
            if self.now >= self.stops_at:
                self.stop.set()
            return None
        at, offset = coming.pop(0)
        self.now = max(self.now, at)
        self.given += 1
        told = {"topic": ONE.topic, "partition": number, "error": None, "offset": offset}
        value = self.values.get(offset, self.value)
        told |= {"timestamp": (1, 5), "value": value, "key": None}
        return SimpleNamespace(**{name: lambda it=it: it for name, it in told.items()})

    def assign(self, partitions: list[Any]) -> None:
        self.read = {0, 1}
        for each in partitions:
            coming = self.coming_of_two if each.partition else self.coming
            coming[:] = [(at, offset) for at, offset in coming if offset >= each.offset]

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return 0, 100

    def incremental_unassign(self, partitions: list[Any]) -> None:
        self.read -= {each.partition for each in partitions}

    def unassign(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    return Kafka(monkeypatch)


def test_one_large_record_over_a_slow_line_is_waited_for(kafka: Kafka) -> None:
    kafka.coming = [(ASK_SECONDS + 2, 4)]
    with TopicLogs(TASK) as logs:
        assert logs.landmarks({ONE: 4}, {ONE: 5}) == [(ONE, Landmark(4, 5))]


def test_what_lies_behind_it_is_waited_for_as_long_as_an_answer(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.coming = [(1.0, 4), (ASK_SECONDS + 2, 90)]
    with TopicLogs(TASK) as logs:
        assert logs.landmarks({ONE: 4}, {ONE: 100}) == [(ONE, Landmark(4, 5))]
    assert kafka.now == ASK_SECONDS + 1
    assert "what orders[0] holds up to offset 100" in caplog.text


def test_without_any_record_the_log_is_not_taken_for_the_same(kafka: Kafka) -> None:
    kafka.coming = [(FIRST_SECONDS + 1, 4)]
    with TopicLogs(TASK) as logs, pytest.raises(BusUnavailable):
        logs.landmarks({ONE: 4}, {ONE: 5})


def test_what_follows_a_record_that_came_late_is_looked_at(kafka: Kafka) -> None:
    kafka.coming = [(ASK_SECONDS + 2, 4), (ASK_SECONDS + 2.2, 5)]
    with TopicLogs(TASK) as logs:
        assert [landmark.offset for _, landmark in logs.landmarks({ONE: 4}, {ONE: 6})] == [4, 5]


def test_each_large_record_has_its_time_where_all_come_over_one_line(kafka: Kafka) -> None:
    kafka.coming, kafka.coming_of_two = [(FIRST_SECONDS - 5, 4)], [(FIRST_SECONDS + 5, 8)]
    with TopicLogs(TASK) as logs:
        found = logs.landmarks({ONE: 4, TWO: 8}, {ONE: 5, TWO: 9})
    assert found == [(ONE, Landmark(4, 5)), (TWO, Landmark(8, 5))]


@pytest.mark.parametrize("end", [5, 10**9])
def test_a_backlog_is_not_read_while_another_partition_is_waited_for(
    kafka: Kafka, end: int
) -> None:
    kafka.coming = [(second, 4 + second) for second in range(1, 1_000)]
    kafka.coming_of_two = [(FIRST_SECONDS - 5, 8)]
    with TopicLogs(TASK) as logs:
        found = logs.landmarks({ONE: 5, TWO: 8}, {ONE: end + 1, TWO: 9})
    assert found[0] == (ONE, Landmark(5, 5)) and found[-1] == (TWO, Landmark(8, 5))
    assert kafka.given <= ASK_SECONDS + 2


@pytest.mark.parametrize("look", ["landmarks", "ahead"])
def test_a_task_that_is_to_stop_waits_for_no_record(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    kafka.stops_at = 5.0
    with TopicLogs(TASK, stop=kafka.stop) as logs:
        monkeypatch.setattr(logs, "bounds", lambda _: (0, 1_000))
        with pytest.raises(BusUnavailable, match="stopped before"):
            if look == "landmarks":
                logs.landmarks({ONE: 4}, {ONE: 5})
            logs.ahead({ONE: 0})
    assert kafka.now <= 6.0


def test_a_record_of_a_partition_that_was_read_before_is_not_the_next_one_s(kafka: Kafka) -> None:
    kafka.coming, kafka.coming_of_two = [(2.0, 4)], [(1.0, 8)]
    with TopicLogs(TASK) as logs:
        assert next(logs.records(ONE, 4)) == (4, 5, b"x")


def record_of(epoch: int) -> bytes:
    table = Table(TableId("shop", "t"), (Column("id", "int", 4),), ("id",))
    origin = Origin("b.1", 4, epoch=epoch_text(epoch, "1", "shop"))
    return make_converter("canalRow").to_bytes(
        RowChange(table, Op.INSERT, None, {"id": "7"}, origin)
    )


@pytest.mark.parametrize("older", [[], [(9.0, 0), (18.0, 1), (27.0, 2)]])
def test_the_newest_large_record_before_a_start_shows_what_has_begun(
    kafka: Kafka, older: list[tuple[float, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """Those between may hold another fetch task's beginning, which the log tells."""
    kafka.value = record_of(2)
    kafka.coming = [*older, (ASK_SECONDS + 12, 98), (ASK_SECONDS + 24, 99)]
    with TopicLogs(TASK) as logs:
        begun, _ = begun_before(logs, {ONE: 100}, "canalRow", is_start=True)
    (of_task,) = begun[ONE].values()
    assert list(of_task.values()) == [0 if older else 98]
    assert kafka.coming == []
    assert "all that orders[0] holds before offset 100" in caplog.text


def test_large_records_that_have_all_come_need_no_warning(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.value = record_of(2)
    kafka.coming = [(1.0, 97), (ASK_SECONDS + 12, 98), (ASK_SECONDS + 24, 99)]
    with TopicLogs(TASK) as logs:
        begun, _ = begun_before(logs, {ONE: 100}, "canalRow", is_start=True)
    (of_task,) = begun[ONE].values()
    assert list(of_task.values()) == [97]
    assert caplog.text == ""


def test_epochs_that_are_not_known_are_told(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    with TopicLogs(TASK) as logs:
        assert begun_before(logs, {ONE: 100}, "canalRow", is_start=True) == ({}, [ONE])
    assert "all that orders[0] holds before offset 100" in caplog.text


def test_a_look_ahead_waits_for_them_no_longer_than_for_an_answer(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    with TopicLogs(TASK) as logs:
        assert begun_before(logs, {ONE: 100}, "canalRow", is_start=False) == ({}, [ONE])
    assert (kafka.now, caplog.text) == (ASK_SECONDS, "")


@pytest.mark.parametrize("is_in_time", [True, False])
def test_a_look_ahead_without_known_epochs_shows_no_later_changes(
    kafka: Kafka, *, is_in_time: bool
) -> None:
    """One of them may have come too late, and the change that waits would count as obsolete."""
    kafka.value = record_of(1)
    came = 1.0 if is_in_time else ASK_SECONDS + 1
    kafka.coming = [(came, 99), (came + 1, 100)]
    with nullcontext() if is_in_time else pytest.raises(NotYet):
        assert next(read_on(TASK, kafka.stop, KnownEpochs(), ONE, 100), None) == (100, kafka.value)


def test_a_look_ahead_asks_for_no_epochs_of_a_format_without(kafka: Kafka) -> None:
    kafka.value = record_of(1)
    kafka.coming = [(1.0, 100)]
    task = replace(TASK, converter="debeziumJson")
    assert next(read_on(task, kafka.stop, KnownEpochs(), ONE, 100), None) == (100, kafka.value)


def test_a_look_ahead_ends_with_its_task(kafka: Kafka) -> None:
    kafka.stops_at = 5.0
    with pytest.raises(BusUnavailable, match="stopped before"):
        next(read_on(TASK, kafka.stop, KnownEpochs(), ONE, 100))
    assert kafka.now <= 6.0


def followed(*kinds: int) -> KnownEpochs:
    """What a task knows that has read records of these epochs, the last one at offset 99."""
    epochs = KnownEpochs()
    for offset, kind in enumerate(kinds, 100 - len(kinds)):
        epochs.learn(ONE, offset, record_of(kind), "canalRow")
    epochs.follow(ONE, {}, 100)
    return epochs


def test_a_look_ahead_takes_the_epochs_that_its_task_has_seen(kafka: Kafka) -> None:
    """The records before its offset may never come in time."""
    kafka.values = {100: record_of(1), 101: record_of(2)}
    kafka.coming = [(ASK_SECONDS + 1, 99), (1.0, 100), (2.0, 101)]
    epochs = followed(1, 2)
    offset, _ = next(read_on(TASK, kafka.stop, epochs, ONE, 100))
    assert offset == 101


def test_a_look_ahead_knows_what_the_ones_before_it_have_seen(kafka: Kafka) -> None:
    kafka.values = {100: record_of(2), 101: record_of(1), 102: record_of(2)}
    kafka.coming = [(1.0, 100), (2.0, 101), (3.0, 102)]
    epochs = followed(1)
    for begin, found in ((100, 100), (101, 102)):
        offset, _ = next(read_on(TASK, kafka.stop, epochs, ONE, begin))
        assert offset == found


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_blocked_change_is_left_out_though_the_records_before_it_never_come_in_time(
    kafka: Kafka, *, is_followed: bool
) -> None:
    """Where nothing is known of the partition, the reason why it waits says that, too."""
    loader, epochs = filled(_9="x"), followed(1) if is_followed else KnownEpochs()
    converter = make_converter("canalRow")
    kafka.value = converter.to_bytes(update("1", "y", "x"))
    records = records_of([(99, converter.to_bytes(parent(Op.INSERT, row("1", "x"))))])
    look = partial(read_on, TASK, kafka.stop, epochs)
    applier = PartitionApplier(TASK, converter, loader, read_on=look)
    waits = ""
    for _ in range(2):
        kafka.now, kafka.coming = 0.0, [(ASK_SECONDS + 1, 0), (1.0, 100)]
        try:
            applier.apply(ONE, records, 100, 5, ALONE)
        except PartitionWaits as waiting:
            waits = str(waiting)
            continue
        break
    held = {key: each["v"] for (key,), each in loader.rows[PARENTS].items()}
    if is_followed:
        assert (held, waits) == ({"1": "y", "9": "x"}, "")
    else:
        assert held == {"9": "x"}
        assert waits.startswith("record orders[0]@99: ") and waits.endswith(
            "and Kafka does not show in time which records before offset 100 of orders[0] came too "
            "late"
        )
