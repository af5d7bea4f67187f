"""Records sent on to other topics: what arrives, where, and what is committed, without Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from threading import Event
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcbus.consumer.batch import executor_batch
from cdcbus.consumer.batch.executor_batch import Span, TaskRun
from cdcbus.consumer.batch.outcome import Outcome
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.forward.forwarder import Forwarder
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import NO_RECORDS, Records
from cdcbus.plugins.contracts import AppliedOffset, Details, Landmark
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import (
    BusRejected,
    BusUnavailable,
    ConfigError,
    DataError,
    OffsetConflict,
)
from cdcbus.plugins.kafka.config import NewTopics, PublishConfig
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from tests.support.topics.committed import committed
from tests.support.topics.new_topics import create_topics
from tests.support.topics.records import records_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

ORDERS = Table(
    TableId("shop", "orders"), (Column("id", "int(11)", 4), Column("region", "text")), ("id",)
)
Put = Callable[[list[DeadLetter]], None]


def insert(number: int, region: str = "eu") -> bytes:
    row = {"id": str(number), "region": region}
    return CanalRow().to_bytes(
        RowChange(
            ORDERS,
            Op.INSERT,
            None,
            row,
            Origin("mysql-bin.000001", number, commit_us=number * 1000),
        )
    )


def truncate() -> bytes:
    return CanalRow().to_bytes(RowChange(ORDERS, Op.TRUNCATE, None, None))


@pytest.fixture
def task(name: str, kafka: str, make_topic: Callable[..., str]) -> LoadTask:
    """Reads a topic of two partitions and writes to one of three."""
    source, config = (
        TopicConfig(kafka, (make_topic(name, 2),)),
        PublishConfig(kafka, make_topic(f"{name}-out", 3), "canalRow"),
    )
    return LoadTask(name, source, "canalRow", "KAFKA_SYNC", config)


def publishing(task: LoadTask, **config: Any) -> LoadTask:
    assert isinstance(task.target, PublishConfig)
    return replace(task, target=replace(task.target, **config))


@pytest.fixture
def transactional(task: LoadTask) -> LoadTask:
    return publishing(task, transactional_id=f"cdcbus-{task.task_id}")


@pytest.fixture
def forwarding() -> Iterator[Callable[..., Forwarder]]:
    """forwarding(task, put_dead_letters=None): closed at the end."""
    opened: list[Forwarder] = []

    def forward(task: LoadTask, put: Put | None = None) -> Forwarder:
        assert isinstance(task.target, PublishConfig)
        opened.append(Forwarder(task, task.target, CanalRow(), None, put, Event()))  # type: ignore[arg-type]
        return opened[-1]

    yield forward
    for each in opened:
        each.close()


def batch(*values: bytes | None, first: int = 0) -> Records:
    return records_of([*enumerate(values, first)])


def ids(task: LoadTask) -> list[int]:
    """Of the rows that a reader of committed records sees."""
    return sorted(
        int(json.loads(message.value() or b"")["data"][0]["id"]) for message in sent(task)
    )


def sent(task: LoadTask) -> list[Any]:
    assert isinstance(task.target, PublishConfig)
    return committed(task.source.servers, task.target.topic)


def seen(task: LoadTask, wanted: list[int]) -> None:
    """A commit is visible a moment after it is acknowledged."""
    wait_until(lambda: ids(task) == wanted, f"a reader to see {wanted}")


def test_all_is_acknowledged_when_it_returns_and_each_key_stays_in_order(
    task: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    task = publishing(task, partition_keys={"SHOP.ORDERS": ("REGION",)})
    values = [insert(number, f"r{number % 20}") for number in range(200)]
    forwarder = forwarding(task)
    report = forwarder.apply(TopicPartition(task.task_id, 1), batch(*values[:150], None), 151, 5)
    forwarder.apply(TopicPartition(task.task_id, 1), batch(*values[150:], first=151), 201, 6)
    found = [
        (message.partition(), message.key(), json.loads(message.value())["pos"])
        for message in sent(task)
    ]
    assert sorted(number for _, _, number in found) == list(range(200))
    partitions = {key: {number for number, of, _ in found if of == key} for _, key, _ in found}
    assert partitions.keys() == {f"r{number}_".encode() for number in range(20)}
    assert all(len(of) == 1 for of in partitions.values())
    assert set().union(*partitions.values()) == {0, 1, 2}
    for key in partitions:
        order = [number for _, of, number in found if of == key]
        assert order == sorted(order)
    assert (report.records, report.table(ORDERS.id).inserted, report.last_commit_ms) == (
        151,
        150,
        149,
    )
    assert forwarder.applied_offsets() == []


def test_headers_are_carried_on_but_for_our_own_which_are_made_anew(
    task: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    before, after = {"id": "1", "region": "eu"}, {"id": "2", "region": "eu"}
    moved = CanalRow().to_bytes(RowChange(ORDERS, Op.UPDATE, before, after))
    carried = [("trace", b"a"), ("trace", b"b"), ("empty", None), ("cdcbus-old-key", b"9_")]
    headers = [[{"key": name, "value": value} for name, value in carried], None]
    both = batch(moved, insert(3))
    forwarding(task).apply(
        TopicPartition(task.task_id, 0), Records(both.offsets, both.values, pa.array(headers)), 2, 5
    )
    assert {message.key(): message.headers() for message in sent(task)} == {
        b"1_": [*carried[:3], ("cdcbus-new-key", b"2_")],
        b"2_": [*carried[:3], ("cdcbus-old-key", b"1_")],
        b"3_": None,
    }


def test_what_was_committed_is_the_offset_beside_the_change_number(
    transactional: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    topic = transactional.task_id
    first = forwarding(transactional)
    assert first.applied_offsets() == []
    first.apply(TopicPartition(topic, 0), batch(insert(1), insert(2)), 7, 55)
    first.apply(TopicPartition(topic, 1), batch(insert(3)), 4, 56)
    assert sorted(first.committed_offsets(), key=str) == [
        AppliedOffset(topic, 0, 7, 55),
        AppliedOffset(topic, 1, 4, 56),
    ]
    seen(transactional, [1, 2, 3])
    group = Consumer(
        {"bootstrap.servers": transactional.source.servers, "group.id": f"cdcbus-{topic}"}
    )
    partitions = [confluent_kafka.TopicPartition(topic, number) for number in range(2)]
    with closing(group):
        committed = group.committed(partitions, timeout=30)
    assert [each.offset for each in committed] == [7, 4]
    assert forwarding(transactional).applied_offsets() == [
        AppliedOffset(topic, 0, 7, 55, epoch=1),
        AppliedOffset(topic, 1, 4, 56, epoch=1),
    ]


def test_records_without_rows_and_transaction_markers_alone_are_committed(
    transactional: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    """Otherwise the next start would find less than the position says, as after lost commits."""
    partition = TopicPartition(transactional.task_id, 0)
    excluding = replace(transactional, excludes=frozenset({"SHOP.ORDERS"}))
    first = forwarding(excluding)
    assert first.applied_offsets() == []
    first.apply(partition, batch(insert(1), insert(2)), 2, 55)
    last = first.seen[partition].details.last
    first.apply(partition, NO_RECORDS, 3, 55)
    assert (first.seen[partition].next_offset, first.seen[partition].details.last) == (3, last)
    assert [each.next_offset for each in first.committed_offsets()] == [3]
    assert ids(transactional) == []


def test_where_partitions_were_told_to_go_on_is_committed_before_anything_is_sent(
    transactional: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    """Else an edit that was taken over would be gone after a kill."""
    topic = transactional.task_id
    first = forwarding(transactional)
    first.apply(TopicPartition(topic, 0), batch(insert(1), insert(2)), 7, 55)
    first.applied_offsets()
    first.take_over([AppliedOffset(topic, 0, 3, 56), AppliedOffset(topic, 1, 4, 56)])
    first.close()
    second = forwarding(transactional)
    assert second.applied_offsets() == [
        AppliedOffset(topic, 0, 3, 56, epoch=2),
        AppliedOffset(topic, 1, 4, 56, epoch=1),
    ]
    second.take_over([AppliedOffset(topic, 0, 3, 57), AppliedOffset(topic, 1, 4, 57)])
    second.apply(TopicPartition(topic, 0), batch(insert(3)), 4, 57)
    seen(transactional, [1, 2, 3])


def test_what_was_sent_and_not_committed_is_never_seen(
    transactional: LoadTask, forwarding: Callable[..., Forwarder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the process dies between the two."""
    topic = transactional.task_id
    died = forwarding(transactional)
    with monkeypatch.context() as patched:
        patched.setattr("cdcbus.plugins.kafka.transactions.Transaction.commit", lambda *_: None)
        died.apply(TopicPartition(topic, 0), batch(insert(1)), 1, 5)
    second = forwarding(transactional)
    assert second.applied_offsets() == []
    second.apply(TopicPartition(topic, 0), batch(insert(2)), 1, 5)
    seen(transactional, [2])


@pytest.mark.parametrize("is_reading", [True, False], ids=["as it reads on", "as it sends"])
def test_of_two_processes_the_older_one_can_commit_no_more(
    transactional: LoadTask, forwarding: Callable[..., Forwarder], is_reading: bool
) -> None:
    topic = transactional.task_id
    old, new = forwarding(transactional), forwarding(transactional)
    old.apply(TopicPartition(topic, 0), batch(insert(1)), 1, 5)
    assert new.applied_offsets() == [AppliedOffset(topic, 0, 1, 5, epoch=1)]
    with pytest.raises(
        BusUnavailable,
        match=f"another process has taken over the Kafka transactions cdcbus-{topic}-{topic}-0",
    ):
        if is_reading:
            old.applied_offsets()
        else:
            old.apply(TopicPartition(topic, 0), batch(insert(2)), 2, 5)
    new.apply(TopicPartition(topic, 0), batch(insert(3)), 2, 5)
    seen(transactional, [1, 3])


def test_after_a_failure_the_same_process_goes_on_from_what_was_committed(
    transactional: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    topic = transactional.task_id
    forwarder = forwarding(transactional)
    forwarder.apply(TopicPartition(topic, 0), batch(insert(1)), 1, 5)
    with pytest.raises(DataError, match=rf"record {topic}\[0\]@1: not a canalRow record"):
        forwarder.apply(TopicPartition(topic, 0), batch(b"?", first=1), 2, 5)
    assert forwarder.applied_offsets() == [AppliedOffset(topic, 0, 1, 5, epoch=1)]
    forwarder.apply(TopicPartition(topic, 0), batch(insert(2), first=1), 2, 5)
    seen(transactional, [1, 2])


def test_another_cluster_keeps_the_offset_at_the_topic_that_it_has(
    transactional: LoadTask, forwarding: Callable[..., Forwarder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdcbus.consumer.forward.outlet.Outlet.cluster", lambda _: "another one")
    topic = transactional.task_id
    forwarder = forwarding(transactional)
    for partition in (0, 1):
        forwarder.apply(
            TopicPartition(topic, partition), batch(insert(partition)), partition + 1, 5
        )
    assert forwarding(transactional).applied_offsets() == [
        AppliedOffset(topic, 0, 1, 5, epoch=1),
        AppliedOffset(topic, 1, 2, 5, epoch=1),
    ]
    seen(transactional, [0, 1])


# Partitions that executors send


def test_a_partition_goes_to_executors_and_back_without_a_record_lost_or_doubled(
    transactional: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    partition = TopicPartition(transactional.task_id, 0)
    driver, executor = forwarding(transactional), forwarding(transactional)
    driver.applied_offsets()
    for number in (0, 2):
        driver.apply(partition, batch(insert(number), first=number), number + 1, 5)
        driver.let_go()
        executor.begin(partition, driver.seen)
        executor.apply(partition, batch(insert(number + 1), first=number + 1), number + 2, 5)
        driver.seen |= executor.seen
        executor.let_go()
    assert driver.applied_offsets() == [AppliedOffset(*partition, 4, 5, epoch=1)]
    seen(transactional, [0, 1, 2, 3])


def test_an_executor_sends_nothing_where_something_else_was_committed_than_the_driver_has_seen(
    transactional: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    partition = TopicPartition(transactional.task_id, 0)
    driver, executor = forwarding(transactional), forwarding(transactional)
    driver.apply(partition, batch(insert(0)), 1, 5)
    before = dict(driver.seen)
    driver.apply(partition, batch(insert(1), first=1), 2, 5)
    driver.let_go()
    executor.begin(partition, before)
    executor.seen = before
    with pytest.raises(
        OffsetConflict, match=rf"somebody else has sent records of {partition.topic}\[0\] meanwhile"
    ):
        executor.apply(partition, batch(insert(1), first=1), 2, 5)
    seen(transactional, [0, 1])


def test_an_executor_that_begins_when_it_was_given_up_sends_nothing_and_holds_up_the_driver_once_only(
    transactional: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    partition = TopicPartition(transactional.task_id, 0)
    driver, executor = forwarding(transactional), forwarding(transactional)
    driver.apply(partition, batch(insert(0)), 1, 5)
    driver.let_go()
    given_up = dict(driver.seen)
    driver.applied_offsets()
    with pytest.raises(OffsetConflict):
        executor.begin(partition, given_up)
    with pytest.raises(BusUnavailable, match="another process has taken over"):
        driver.apply(partition, batch(insert(1), first=1), 2, 5)
    assert driver.applied_offsets() == [AppliedOffset(*partition, 1, 5, epoch=2)]
    driver.apply(partition, batch(insert(1), first=1), 2, 5)
    seen(transactional, [0, 1])


def test_a_spark_task_that_runs_twice_goes_on_behind_what_was_committed_and_the_lost_one_can_commit_no_more(
    transactional: LoadTask,
    on_executor: Callable[[LoadTask, Iterable[pa.RecordBatch]], Outcome],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one runs while the first, which was only thought to be lost, waits for its
    third slice."""
    topic = transactional.task_id
    monkeypatch.setattr(executor_batch, "SLICE_BYTES", 1)
    monkeypatch.setattr(executor_batch, "TURN_SECONDS", 600)
    parts = [columns(topic, range(start, start + 5)) for start in range(0, 25, 5)]

    def halting() -> Iterator[pa.RecordBatch]:
        yield from parts[:2]
        wait_until(lambda: ids(transactional) != [], "the first slice to be committed")
        second.append(on_executor(transactional, parts))
        yield from parts[2:]

    second: list[Outcome] = []
    first = on_executor(transactional, halting())
    assert isinstance(first.error, BusUnavailable)
    assert (second[0].error, second[0].end) == (None, 26)
    assert second[0].seen == AppliedOffset(topic, 1, 26, 7, details=Details(last=Landmark(24, 0)))
    assert 0 < second[0].report.records < 25
    seen(transactional, [*range(25)])


def test_without_transactions_executors_send_all_that_comes(
    task: LoadTask, on_executor: Callable[[LoadTask, Iterable[pa.RecordBatch]], Outcome]
) -> None:
    outcome = on_executor(
        task, [columns(task.task_id, range(5)), columns(task.task_id, range(5, 25))]
    )
    assert (outcome.error, outcome.end, outcome.report.records, outcome.seen) == (
        None,
        26,
        25,
        None,
    )
    assert ids(task) == [*range(25)]


@pytest.fixture
def on_executor(
    forwarding: Callable[..., Forwarder], monkeypatch: pytest.MonkeyPatch
) -> Callable[[LoadTask, Iterable[pa.RecordBatch]], Outcome]:
    """Applies a partition's offsets 0 to 25, with a forwarder that nobody else has."""

    def run(task: LoadTask, read: Iterable[pa.RecordBatch]) -> Outcome:
        monkeypatch.setattr(executor_batch, "_applier", lambda *_: forwarding(task))
        [found] = executor_batch.apply_partition(
            TaskRun("first", pickle.dumps(task), {}, {}),
            {TopicPartition(task.task_id, 1): Span(0, 26, 7)},
            {},
            read,
        )
        outcome: Outcome = pickle.loads(found.column("outcome")[0].as_py())
        return outcome

    return run


def columns(topic: str, numbers: range) -> pa.RecordBatch:
    """As an executor reads them."""
    values = [insert(number) for number in numbers]
    cells = [[topic] * len(numbers), [1] * len(numbers), [*numbers], values, [0] * len(numbers)]
    return pa.record_batch(cells, ["topic", "partition", "offset", "value", "kafka_ms"])


# What cannot be sent


@pytest.fixture
def narrow(task: LoadTask) -> LoadTask:
    """Writes to a topic that takes 20,000 bytes at most, in smaller batches, uncompressed."""
    topic = f"{task.task_id}-narrow"
    admin = AdminClient({"bootstrap.servers": task.source.servers})
    create_topics(admin, NewTopic(topic, 1, 1, config={"max.message.bytes": "20000"}))
    wait_until(
        lambda: topic in admin.list_topics(timeout=30).topics, "the broker to know the topic"
    )
    return publishing(
        task, topic=topic, kafka_options={"compression.type": "none", "batch.size": "10000"}
    )


LARGE = insert(2, "x" * 30_000)


def test_a_record_that_is_too_large_stops_with_its_place(
    narrow: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    sentence = (
        r"-narrow at .* does not take a record of 3\d+ bytes, more than its limit of 20000 "
        r"bytes .*: table shop\.orders, made of record"
    )
    with pytest.raises(BusRejected, match=sentence) as raised:
        forwarding(narrow).apply(TopicPartition(narrow.task_id, 0), batch(insert(1), LARGE), 2, 5)
    assert f"{narrow.task_id}[0]@1" in str(raised.value)
    assert "xxx" not in str(raised.value)


def test_a_record_that_is_too_large_becomes_a_letter_and_the_others_go_on(
    narrow: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    dead_letters: list[DeadLetter] = []
    forwarding(narrow, dead_letters.extend).apply(
        TopicPartition(narrow.task_id, 0), batch(insert(1), LARGE, b"?", insert(3)), 4, 5
    )
    assert sorted(dead_letter.offset for dead_letter in dead_letters) == [1, 2]
    assert ids(narrow) == [1, 3]


def test_in_transactions_the_batch_is_begun_anew_without_it(
    narrow: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    dead_letters: list[DeadLetter] = []
    task = publishing(narrow, transactional_id=f"cdcbus-{narrow.task_id}")
    forwarder = forwarding(task, dead_letters.extend)
    report = forwarder.apply(
        TopicPartition(task.task_id, 0), batch(insert(1), LARGE, insert(3)), 3, 5
    )
    assert (
        [dead_letter.offset for dead_letter in dead_letters],
        report.table(ORDERS.id).inserted,
    ) == ([1], 2)
    assert forwarder.committed_offsets() == [AppliedOffset(task.task_id, 0, 3, 5)]
    seen(task, [1, 3])
    forwarder.apply(TopicPartition(task.task_id, 0), batch(insert(4), first=3), 4, 5)
    seen(task, [1, 3, 4])


def test_a_truncate_needs_a_topic_with_one_partition(
    narrow: LoadTask, task: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    with pytest.raises(
        DataError,
        match=r"record .*\[0\]@0: TRUNCATE of shop\.orders: rows are spread over the partitions "
        r"of topic",
    ):
        forwarding(task).apply(TopicPartition(task.task_id, 0), batch(truncate()), 1, 5)
    forwarding(narrow).apply(TopicPartition(task.task_id, 0), batch(truncate()), 1, 5)
    assert [json.loads(message.value())["type"] for message in sent(narrow)] == ["TRUNCATE"]


def test_a_task_that_would_read_what_it_writes_is_refused(
    task: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    task = publishing(task, topic=task.task_id)
    forwarder = forwarding(task)
    with pytest.raises(ConfigError, match="is both read and written"):
        forwarder.check_targets()
    with pytest.raises(ConfigError, match="is both read and written"):
        forwarder.apply(TopicPartition(task.task_id, 0), batch(insert(1)), 1, 5)


def test_a_missing_topic_is_named_or_made(
    task: LoadTask, forwarding: Callable[..., Forwarder]
) -> None:
    lost = publishing(task, topic=f"{task.task_id}-lost")
    with pytest.raises(BusRejected, match=f"kafka-topics --create --topic {task.task_id}-lost"):
        forwarding(lost).check_targets()
    made = publishing(lost, new_topics=NewTopics(2, 1))
    forwarding(made).check_targets()
    forwarding(made).apply(TopicPartition(task.task_id, 0), batch(insert(1)), 1, 5)
    assert ids(made) == [1]
