"""When nothing that other partitions have still to read can come before a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time
from typing import Any

import pytest

from cdcbus.consumer.apply import watermark
from cdcbus.consumer.apply.row_order import NEAR_MS
from cdcbus.consumer.apply.watermark import low_watermarks_of, read_before_ms, read_beside
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import topic_logs
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.records.arrival_clock import IN_FLIGHT_SECONDS, ArrivalClock
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.kafka.record_key import key_text, split_key_change
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
USERS = Table(TableId("shop", "users"), (Column("email", "varchar(40)"),), ("email",))


def low_watermark_of(
    task: LoadTask,
    partition: TopicPartition,
    begin: Mapping[TopicPartition, int],
    arrivals: ArrivalClock,
) -> int:
    return low_watermarks_of(task, [partition], begin, arrivals)[partition]


def test_records_that_came_in_one_millisecond_are_told_apart_by_their_places(
    kafka: str, name: str, make_topic: Callable[..., str]
) -> None:
    """A key that changed is a delete in one partition and an insert in another: neither partition may
    believe that the other has nothing for it. What was made first waits for nobody."""
    topic, now_ms = make_topic(name, 3), int((time() - 2 * IN_FLIGHT_SECONDS) * 1000)
    producer = kafka_producer(kafka)
    origin = Origin("mysql-bin.000003", 100, "", 1, now_ms * 1000)
    moved = RowChange(USERS, Op.UPDATE, {"email": "user1"}, {"email": "User1"}, origin)
    gone, come = split_key_change(moved, ("email",))
    for partition, change in enumerate((come, gone)):
        producer.produce(
            topic,
            CanalRow().to_bytes(change),
            key_text(change, ("email",)),
            partition,
            timestamp=now_ms,
        )
    assert producer.flush(60) == 0
    task = LoadTask("7", TopicConfig(kafka, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    begin = {first: 0, second: 0, third: 0}
    arrivals = ArrivalClock()
    arrivals.saw(int(time() * 1000))
    assert low_watermark_of(task, first, begin, arrivals) == 0
    assert low_watermark_of(task, second, begin, arrivals) == 1
    assert low_watermark_of(task, first, {**begin, second: 1}, arrivals) == 1


def test_a_record_that_has_just_come_is_not_old_though_another_clock_stamped_it(
    kafka: str, name: str, make_topic: Callable[..., str]
) -> None:
    """The clock of the fetch task's machine is ten minutes behind."""
    topic, stamp_ms = make_topic(name, 2), int((time() - 600) * 1000)
    producer = kafka_producer(kafka)
    producer.produce(topic, None, partition=0, timestamp=stamp_ms)
    assert producer.flush(60) == 0
    task = LoadTask("7", TopicConfig(kafka, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    arrivals = ArrivalClock()
    assert low_watermark_of(task, first, {first: 0, second: 0}, arrivals) == 0
    # A record that comes into the other partition now may be of the same moment.
    assert read_before_ms(task, {first: 1, second: 0}, arrivals) < stamp_ms


def test_what_an_open_transaction_holds_back_has_not_been_read(
    kafka: str, name: str, make_topic: Callable[..., str]
) -> None:
    """Readers of committed records see the end of a partition where an open transaction begins, as
    that of a task that was killed; records that others have committed follow it."""
    topic, now_ms = make_topic(name, 2), int(time() * 1000)
    old_ms = now_ms - int(3 * IN_FLIGHT_SECONDS * 1000)
    open_ = kafka_producer(kafka, {"transactional.id": name})
    open_.init_transactions(60)
    open_.begin_transaction()
    open_.produce(topic, None, partition=1, timestamp=old_ms + 1)
    assert open_.flush(60) == 0
    producer = kafka_producer(kafka)
    producer.produce(topic, None, partition=1, timestamp=old_ms + 2)
    producer.produce(topic, None, partition=0, timestamp=old_ms + 3)
    assert producer.flush(60) == 0
    task = LoadTask("7", TopicConfig(kafka, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    arrivals = ArrivalClock()
    arrivals.saw(now_ms)
    begin = {first: 0, second: 0}
    assert low_watermark_of(task, first, begin, arrivals) == 0
    assert read_before_ms(task, {first: 1, second: 0}, arrivals) < old_ms
    open_.abort_transaction(60)
    # the record that was behind it
    assert low_watermark_of(task, first, begin, arrivals) == 0
    read = {first: 0, second: 2}
    assert low_watermark_of(task, first, read, arrivals) == 1
    assert read_before_ms(task, {**read, first: 1}, arrivals) > old_ms + 3


def test_the_next_records_of_all_partitions_are_read_side_by_side_and_once(
    kafka: str, name: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hundreds of partitions each one alone would take seconds, while nothing is applied."""
    topic, now_ms = make_topic(name, 6), int(time() * 1000)
    old_ms = now_ms - int(3 * IN_FLIGHT_SECONDS * 1000)
    producer = kafka_producer(kafka)
    for number in range(4):
        for later in range(3):
            stamp_ms = old_ms + 10 * number + later
            producer.produce(topic, None, partition=number, timestamp=stamp_ms)
    assert producer.flush(60) == 0
    open_ = kafka_producer(kafka, {"transactional.id": name})
    open_.init_transactions(60)
    open_.begin_transaction()
    open_.produce(topic, None, partition=4, timestamp=old_ms + 25)
    assert open_.flush(60) == 0
    task = LoadTask("7", TopicConfig(kafka, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    begin = {TopicPartition(topic, number): 0 for number in range(6)}
    waiting = [*begin][:4]
    arrivals = ArrivalClock()
    arrivals.saw(now_ms)
    reads: list[tuple[TopicPartition, ...]] = []
    first_of = TopicLogs._first_of

    def noted(logs: TopicLogs, client: Any, offsets: Mapping[TopicPartition, int]) -> Any:
        reads.append(tuple(offsets))
        return first_of(logs, client, offsets)

    monkeypatch.setattr(TopicLogs, "_first_of", noted)
    found = low_watermarks_of(task, waiting, begin, arrivals)
    # Nothing is older than what the first one has; the others wait for it.
    assert found == dict(zip(waiting, (3, 0, 0, 0), strict=True))
    held_back = TopicPartition(topic, 4)
    assert reads == [tuple(begin), (held_back,)]
    read = begin | dict(zip(waiting, (3, 3, 1, 0), strict=True))
    assert low_watermarks_of(task, waiting[2:], read, arrivals) == {waiting[2]: 3, waiting[3]: 0}
    before_ms = read_before_ms(task, read, arrivals)
    assert before_ms == old_ms + 21 - int(IN_FLIGHT_SECONDS * 1000)
    assert reads[2:] == [tuple(begin), (held_back,)] * 2
    open_.abort_transaction(60)
    with TopicLogs(task) as logs:  # the marker is written behind the answer
        wait_until(lambda: logs.bounds(held_back)[1] == 2, "the end of the transaction")
    monkeypatch.setattr(watermark, "HEADS_SECONDS", -1.0)
    assert low_watermarks_of(task, waiting[2:], read, arrivals) == {waiting[2]: 3, waiting[3]: 0}
    assert reads[6:] == [tuple(begin)] * 2


def test_no_megabyte_of_each_partition_is_fetched_for_its_next_record(
    kafka: str, name: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def noted(client: Any, options: dict[str, Any]) -> Any:
        made.append(options.get("fetch.message.max.bytes"))
        return make_client(client, options)

    monkeypatch.setattr(topic_logs, "make_client", noted)
    topic, value = make_topic(name, 2), b"x" * 200_000
    producer = kafka_producer(kafka)
    for partition in (0, 0, 1, 1):
        producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0
    task = LoadTask("7", TopicConfig(kafka, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    first, added = TopicPartition(topic, 0), TopicPartition(topic, 1)
    arrivals = ArrivalClock()
    # Records that are larger come all the same.
    assert low_watermarks_of(task, [first], {first: 0, added: 0}, arrivals) == {first: 2}
    assert read_before_ms(task, {first: 0, added: 0}, arrivals) > 0
    assert made == [65536, 65536]
    assert sum(len(part) for _, part in read_beside(task, [added], {first: 2})) == 2
    # What is read whole is fetched as usual.
    assert made[2:] == [65536, None]


def test_what_came_since_an_added_partition_has_records_is_read_up_to_where_it_was_applied(
    kafka: str, name: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watermark, "PART_RECORDS", 2)
    topic, now_ms = make_topic(name, 2), int(time() * 1000)
    first, added = TopicPartition(topic, 0), TopicPartition(topic, 1)
    task = LoadTask("7", TopicConfig(kafka, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    producer = kafka_producer(kafka)
    stamps = [now_ms - 2 * NEAR_MS, *range(now_ms, now_ms + 6)]
    for number, stamp in enumerate(stamps):
        producer.produce(topic, str(number), partition=0, timestamp=stamp)
    assert producer.flush(60) == 0
    assert [*read_beside(task, [added], {first: 6})] == []
    producer.produce(topic, "x", partition=1, timestamp=now_ms + 2)
    assert producer.flush(60) == 0
    found = [*read_beside(task, [added], {first: 6})]
    assert [[value for _, value in part] for _, part in found] == [
        [b"1", b"2"],
        [b"3", b"4"],
        [b"5"],
    ]
    _, part = found[0]
    assert part.times.to_pylist() == stamps[1:3]
    assert {partition for partition, _ in found} == {first}
