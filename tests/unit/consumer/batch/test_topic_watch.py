"""When a task asks Kafka whether its topics are still the same, and what it makes of the answers."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from cdcbus.consumer.batch import topic_watch
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.topic_watch import (
    LOG_LOOK_SECONDS,
    STALL_SECONDS,
    UNDER_WAY,
    LogWatch,
    TopicWatch,
)
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import topic_identity
from cdcbus.consumer.offsets.landmarks import Refilled
from cdcbus.plugins.contracts import JdbcTarget, Landmark
from cdcbus.plugins.errors import BusUnavailable, CdcError, LogRefilled, TopicRemade
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Replay
from cdcbus.plugins.task_status import State, TaskStatus

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def load_task(partitions: tuple[int, ...] = (), start: Replay | None = None) -> LoadTask:
    source = TopicConfig("kafka:9092", ("orders",), partitions)
    return LoadTask("7", source, "canalRow", "JdbcBatch", JdbcTarget(""), start=start)


class Kafka:
    """What it answers: where partitions end, None where it says nothing; which leader each has; the
    topic's id and partitions. And the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.ends: dict[TopicPartition, int] | None = {ONE: 10}
        self.epoch: int | None = 1
        self.topic_id, self.count = "first", 1
        self.asked_ends = 0
        for module in (topic_watch, topic_identity):
            monkeypatch.setattr(module, "monotonic", lambda: self.now)
        monkeypatch.setattr(topic_watch, "ends_of", self._ends_of)
        monkeypatch.setattr(topic_identity, "admin_of", lambda _: self)

    def _ends_of(
        self, _: TopicConfig, partitions: Collection[TopicPartition], _seconds: float
    ) -> dict[TopicPartition, Any]:
        self.asked_ends += 1
        if self.ends is None:
            raise KafkaException("it does not answer")
        return {
            partition: SimpleNamespace(offset=self.ends[partition], leader_epoch=self.epoch)
            for partition in partitions
            if partition in self.ends
        }

    def describe_topics(self, _: object, request_timeout: float) -> dict[str, Any]:
        partitions = [SimpleNamespace(id=number) for number in range(self.count)]
        found = SimpleNamespace(topic_id=self.topic_id, partitions=partitions)
        return {"orders": SimpleNamespace(result=lambda: found)}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    return Kafka(monkeypatch)


def looks(watch: TopicWatch, kafka: Kafka, seconds: float) -> list[CdcError]:
    """What is found by looking each second for so long."""
    found = []
    for _ in range(int(seconds)):
        kafka.now += 1
        if error := watch.look():
            found.append(error)
    return found


def watching(
    kafka: Kafka, offset: int, task: LoadTask | None = None, status: TaskStatus | None = None
) -> tuple[TopicWatch, Progress]:
    progress = Progress(next_offsets={ONE: offset})
    ids = {"orders": kafka.topic_id}
    status = status or TaskStatus("7")
    return TopicWatch(task or load_task(), ids, progress, status, Event()), progress


@pytest.mark.parametrize("ends", [{ONE: 10}, {}, None], ids=["more", "untold", "no answer"])
def test_a_reader_that_gets_nothing_is_told_after_two_looks(
    kafka: Kafka, ends: dict[TopicPartition, int] | None
) -> None:
    watch, _ = watching(kafka, 9)
    kafka.ends = ends
    assert looks(watch, kafka, 2 * STALL_SECONDS - 1) == []
    (error,) = looks(watch, kafka, 2)
    assert isinstance(error, BusUnavailable)
    assert "gives no records of orders[0] at offset 9" in str(error)


def test_a_task_that_has_all_asks_seldom_and_is_not_stalled(kafka: Kafka) -> None:
    watch, _ = watching(kafka, 10)
    assert looks(watch, kafka, 10 * STALL_SECONDS + 1) == []
    assert kafka.asked_ends == 10


def test_a_partition_that_stalls_is_told_while_others_go_on(kafka: Kafka) -> None:
    watch, progress = watching(kafka, 0)
    progress.next_offsets = {ONE: 0, TWO: 3}
    kafka.ends = {ONE: 1000, TWO: 9}
    found = []
    for _ in range(int(3 * STALL_SECONDS)):
        progress.move([(ONE, progress.next_offsets[ONE] + 1, None)])
        found += looks(watch, kafka, 1)
    assert "gives no records of orders[1] at offset 3" in str(found[0])


def test_a_partition_about_which_kafka_says_nothing_stops_no_other_one(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    """As without a leader: a new attempt could not begin."""
    status = TaskStatus("7")
    watch, progress = watching(kafka, 0, status=status)
    progress.next_offsets = {ONE: 0, TWO: 3}
    kafka.ends = {ONE: 1000}

    def read_on(seconds: float) -> State:
        for _ in range(int(seconds)):
            progress.move([(ONE, progress.next_offsets[ONE] + 1, None)])
            assert looks(watch, kafka, 1) == []
        return status.now[0]

    status.reading("orders")
    assert read_on(2 * STALL_SECONDS - 1) is State.WORKING
    assert read_on(5 * STALL_SECONDS) is State.RETRYING
    assert "gives no records of orders[1] at offset 3" in status.now[1]
    assert "other partitions are read" in status.now[1]
    assert caplog.text.count("gives no records") == 1
    kafka.ends[TWO] = 3
    with caplog.at_level(logging.INFO):
        read_on(STALL_SECONDS + 1)
    status.observe(is_behind=False)
    assert (status.now[0], "answers again" in caplog.text) == (State.WORKING, True)


def test_a_partition_without_answer_stops_no_other_one_that_has_no_new_records(
    kafka: Kafka,
) -> None:
    status = TaskStatus("7")
    watch, progress = watching(kafka, 0, status=status)
    progress.next_offsets = {ONE: 4, TWO: 3}
    kafka.ends = {ONE: 4}
    assert looks(watch, kafka, 5 * STALL_SECONDS) == []
    assert status.now[0] is State.RETRYING
    assert "other partitions are read" in status.now[1]
    kafka.ends = None
    assert isinstance(looks(watch, kafka, STALL_SECONDS + 1)[0], BusUnavailable)


def test_a_target_that_takes_long_for_each_batch_is_no_stall_of_kafka(kafka: Kafka) -> None:
    watch, progress = watching(kafka, 0)
    progress.next_offsets = {ONE: 0, TWO: 3}
    kafka.ends = {ONE: 1000, TWO: 9}
    for _ in range(9):
        kafka.now += STALL_SECONDS + 10
        progress.move([(ONE, progress.next_offsets[ONE] + 1, None)])
        # As BatchApplier does after a long batch.
        progress.received.update(progress.next_offsets)
        assert watch.look() is None


def test_a_kafka_that_takes_long_not_to_answer_is_told_as_well(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        kafka.now += topic_watch.ANSWER_SECONDS
        raise KafkaException("it does not answer")

    monkeypatch.setattr(topic_watch, "ends_of", silent)
    watch, _ = watching(kafka, 9)
    assert [type(each) for each in looks(watch, kafka, 2 * STALL_SECONDS)] == [BusUnavailable]


def test_a_partition_whose_records_wait_for_another_one_is_not_stalled(kafka: Kafka) -> None:
    watch, progress = watching(kafka, 0)
    progress.next_offsets = {ONE: 0, TWO: 3}
    kafka.ends = {ONE: 1000, TWO: 9}
    for _ in range(int(5 * STALL_SECONDS)):
        progress.received.update((ONE, TWO))
        assert looks(watch, kafka, 1) == []


def test_records_in_between_a_batch_at_work_and_the_end_of_a_replay_are_no_stall(
    kafka: Kafka,
) -> None:
    watch, progress = watching(kafka, 1)
    for offset in range(2, 9):
        assert looks(watch, kafka, STALL_SECONDS + 5) == []
        progress.move([(ONE, offset, None)])
    progress.batch_since = 1.0
    assert looks(watch, kafka, 5 * STALL_SECONDS) == []
    beyond, _ = watching(kafka, 5, load_task(start=Replay(0, 4)))
    assert looks(beyond, kafka, 5 * STALL_SECONDS) == []


def test_a_topic_that_was_made_anew_is_told(kafka: Kafka) -> None:
    watch, _ = watching(kafka, 10)
    kafka.topic_id = "second"
    found = looks(watch, kafka, topic_identity.LOOK_SECONDS + 1)
    assert [type(error) for error in found] == [TopicRemade]


def test_added_partitions_are_told_to_a_task_that_reads_all(kafka: Kafka) -> None:
    watch, progress = watching(kafka, 10)
    chosen, _ = watching(kafka, 10, load_task(partitions=(0,)))
    kafka.count = 2
    for each in (watch, chosen):
        assert looks(each, kafka, topic_identity.LOOK_SECONDS + 1) == []
    assert (watch.new_partitions(), chosen.new_partitions()) == ([TWO], [])
    progress.next_offsets = {ONE: 10, TWO: 0}
    assert watch.new_partitions() == []


class Logs:
    """What is compared of the logs, and that they are others from some moment on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compared: list[int] = []
        self.is_other = False
        monkeypatch.setattr(topic_watch, "TopicLogs", lambda _, **__: self)
        monkeypatch.setattr(topic_watch, "refilled", self._refilled)

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _refilled(
        self, _: Logs, last: Mapping[TopicPartition, Landmark], ends: Mapping[TopicPartition, int]
    ) -> Refilled | None:
        self.compared.append(ends[ONE])
        return Refilled(ONE, last[ONE], ends[ONE], Landmark(1, 2)) if self.is_other else None


def test_logs_are_compared_only_behind_a_change_of_leader_and_for_what_was_under_way(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, progress = Logs(monkeypatch), Progress(next_offsets={ONE: 0})
    watch = LogWatch(load_task(), progress, Event())

    def pass_batch(end: int) -> Refilled | None:
        progress.move([(ONE, end, Landmark(end - 1, 5))])
        kafka.now += LOG_LOOK_SECONDS
        return watch.look()

    for end in range(1, 12):
        assert pass_batch(end) is None
    first = logs.compared[:]
    assert first and max(first) <= UNDER_WAY + 2, "the first leader is new, too"
    kafka.epoch = 2
    for end in range(12, 30):
        assert pass_batch(end) is None
    behind = logs.compared[len(first) :]
    assert 12 in behind and max(behind) <= 12 + UNDER_WAY + 1
    kafka.epoch, logs.is_other = 3, True
    found = pass_batch(30)
    assert found is not None and isinstance(found.error(load_task()), LogRefilled)


def test_what_was_read_under_the_leader_of_the_start_is_not_compared(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, progress = Logs(monkeypatch), Progress(next_offsets={ONE: 0}, leader_epochs={ONE: 1})
    watch = LogWatch(load_task(), progress, Event())
    for end in range(1, 1000):
        progress.move([(ONE, end, Landmark(end - 1, 5))])
    kafka.now += LOG_LOOK_SECONDS
    assert watch.look() is None
    assert logs.compared == []
    kafka.epoch, logs.is_other = 2, True
    progress.move([(ONE, 1000, Landmark(999, 5))])
    kafka.now += LOG_LOOK_SECONDS
    assert watch.look() is not None


def test_what_kafka_does_not_tell_is_compared_once_it_does(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, progress = Logs(monkeypatch), Progress(next_offsets={ONE: 0})
    watch = LogWatch(load_task(), progress, Event())
    ends, kafka.ends = kafka.ends, None
    progress.move([(ONE, 1, Landmark(0, 5))])
    kafka.now += LOG_LOOK_SECONDS
    assert watch.look() is None
    assert logs.compared == []
    kafka.ends = ends
    kafka.now += LOG_LOOK_SECONDS
    watch.look()
    assert logs.compared == [1]


@pytest.mark.parametrize("answer", ["no epoch", "none"])
def test_few_ends_are_kept_where_kafka_tells_no_leader(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """As before Kafka 2.1, or where one broker answers too slowly."""
    logs, progress = Logs(monkeypatch), Progress(next_offsets={ONE: 0})
    watch = LogWatch(load_task(), progress, Event())
    monkeypatch.setattr(topic_watch, "MOST_ENDS", 20)
    kafka.epoch = None
    if answer == "none":
        kafka.ends = None
    for end in range(1, 200):
        progress.move([(ONE, end, Landmark(end - 1, 5))])
        if end % 7 == 0:
            kafka.now += LOG_LOOK_SECONDS
            assert watch.look() is None
    kept = [passed.end for passed in watch._passed[ONE]]
    assert len(kept) <= 20
    assert kept[-1] == 196
    if answer == "none":
        assert kept[0] == 1
    else:
        assert max(logs.compared) <= 7 * (UNDER_WAY + 1), "later ones are of no new leader"
