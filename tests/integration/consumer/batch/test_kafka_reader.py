"""Records as they come from a real Kafka: all that is committed, once, in order, however the reader
is sent back; and what it says where Kafka has something else, or nothing."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from cdcbus.consumer.batch import kafka_reader
from cdcbus.consumer.batch.kafka_reader import KafkaReader
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition
from tests.support.servers.private_broker import private_broker
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
VALUES = (b"{}", None, b"", b"\xff\x00", "\N{PILE OF POO}".encode(), b"x" * 10_000)
Found = dict[TopicPartition, list[tuple[int, bytes | None]]]


def reading(topic: str, servers: str) -> LoadTask:
    return LoadTask("7", TopicConfig(servers, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))


def from_the_beginning(topic: str, partitions: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): 0 for partition in range(partitions)}


@contextmanager
def transactions(servers: str, topic: str) -> Iterator[Producer]:
    producer = kafka_producer(servers, {"transactional.id": topic})
    producer.init_transactions(60)
    yield producer


def put(servers: str, topic: str, partitions: int, count: int) -> Found:
    """So many records into each partition, then a transaction that is committed, and one that is not.
    What a reader is to get."""
    plain = kafka_producer(servers)
    found: Found = {TopicPartition(topic, partition): [] for partition in range(partitions)}
    for number in range(count * partitions):
        value, partition = VALUES[number % len(VALUES)], number % partitions
        headers: list[tuple[str, str | bytes | None]] = [("h", b"%d" % number), ("n", None)]
        plain.produce(topic, value, b"%d" % number, partition=partition, headers=headers)
        found[TopicPartition(topic, partition)].append(
            (len(found[TopicPartition(topic, partition)]), value)
        )
    assert plain.flush(60) == 0
    with transactions(servers, topic) as producer:
        for value in (b"committed", b"aborted"):
            producer.begin_transaction()
            producer.produce(topic, value, partition=0)
            assert producer.flush(60) == 0
            if value == b"committed":
                producer.commit_transaction(60)
                found[TopicPartition(topic, 0)].append((count, value))
            else:
                producer.abort_transaction(60)
    return found


def read_all(
    reader: KafkaReader,
    goals: dict[TopicPartition, int],
    most: int,
    go_back: Callable[[Found], None],
) -> Found:
    """Until each partition is at its goal; `go_back` sees what was read, after each reading."""
    found: Found = {partition: [] for partition in goals}
    ends = dict.fromkeys(goals, 0)

    def is_there() -> bool:
        records, read = reader.read(0.5)
        assert sum(map(len, records.values())) <= most
        for partition, each in records.items():
            found[partition] += each
        ends.update(read)
        go_back(found)
        return all(ends[partition] >= goal for partition, goal in goals.items())

    wait_until(is_there, "all records")
    return found


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("most", [1, 7, 10_000])
def test_all_that_is_committed_comes_once_and_in_order_with_the_markers_behind_it(
    name: str, kafka: str, make_topic: Callable[..., str], partitions: int, most: int
) -> None:
    expected = put(kafka, make_topic(name, partitions), partitions, 100)
    goals = dict.fromkeys(expected, 100)
    goals[TopicPartition(name, 0)] += 4  # two records, two markers
    with KafkaReader(reading(name, kafka), from_the_beginning(name, partitions), most) as reader:
        assert read_all(reader, goals, most, lambda _: None) == expected
        wait_until(lambda: not reader.read(0.1)[1] and reader.ahead() == 0, "the end")


def test_partitions_that_are_read_again_come_from_there_on_and_others_go_on(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    expected = put(kafka, make_topic(name, 3), 3, 200)
    goals = {partition: len(records) for partition, records in expected.items()}
    with KafkaReader(
        reading(name, kafka), from_the_beginning(name, 3), choose.choice((3, 50, 1000))
    ) as reader:
        left = [40]

        def go_back(found: Found) -> None:
            if left[0] and choose.random() < 0.5:
                left[0] -= 1
                partition = choose.choice([*found])
                if found[partition]:
                    place = choose.randrange(len(found[partition]))
                    reader.go_back({partition: found[partition][place][0]})
                    del found[partition][place:]
                    ends[partition] = 0

        ends = dict.fromkeys(goals, 0)
        found: Found = {partition: [] for partition in goals}

        def is_there() -> bool:
            records, read = reader.read(0.5)
            for partition, each in records.items():
                found[partition] += each
            ends.update(read)
            go_back(found)
            return all(ends[partition] >= goal for partition, goal in goals.items())

        wait_until(is_there, "all records")
    assert found == expected


def test_a_partition_is_read_again_after_a_reading_that_found_nothing(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    expected = put(kafka, make_topic(name, 1), 1, 10)
    partition = TopicPartition(name, 0)
    with KafkaReader(reading(name, kafka), {partition: 0}, 1000) as reader:
        read_all(reader, {partition: 14}, 1000, lambda _: None)
        wait_until(lambda: not reader.read(0.1)[1] and reader.ahead() == 0, "the end")
        reader.go_back({partition: 4})
        again = read_all(reader, {partition: 14}, 1000, lambda _: None)
    assert again == {partition: expected[partition][4:]}


def test_keys_come_where_there_are_several_partitions_and_headers_where_they_are_sent_on(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    put(kafka, make_topic(name, 2), 2, 3)
    task, start = reading(name, kafka), from_the_beginning(name, 2)

    def of(task: LoadTask, start: dict[TopicPartition, int]) -> Any:
        with KafkaReader(task, start, 1) as reader:
            found: list[Any] = []

            def is_there() -> bool:
                found.extend(reader.read(0.5)[0].values())
                return bool(found)

            wait_until(is_there, "a record")
            return found[0]

    both = of(task, start)
    assert both.keys.to_pylist() in ([b"0"], [b"1"])
    assert both.times[0].as_py() > 1_700_000_000_000
    assert list(both.header_lists()) == [[]]
    alone = of(
        replace(task, target=PublishConfig(kafka, "", "canalRow")), {TopicPartition(name, 0): 0}
    )
    assert alone.keys is None
    assert list(alone.header_lists()) == [[("h", b"0"), ("n", None)]]


def test_large_records_come_a_few_at_a_time(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    size, count = 900_000, 100
    producer = kafka_producer(kafka, {"compression.type": "lz4"})
    make_topic(name)
    for _ in range(count):
        producer.produce(name, b"x" * size, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    with KafkaReader(reading(name, kafka), {TopicPartition(name, 0): 0}, 10_000) as reader:
        taken: list[int] = []

        def is_there() -> bool:
            records, _ = reader.read(0.5)
            taken.extend(len(each) for each in records.values())
            return sum(taken) == count

        wait_until(is_there, "all records")
    assert max(taken) * size <= kafka_reader.READ_BYTES + size


def test_a_partition_that_is_added_is_read_from_its_beginning(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    expected = put(kafka, make_topic(name, 1), 1, 5)
    admin = AdminClient({"bootstrap.servers": kafka})
    with KafkaReader(reading(name, kafka), from_the_beginning(name, 1), 100) as reader:
        read_all(reader, {TopicPartition(name, 0): 9}, 100, lambda _: None)
        admin.create_partitions([NewPartitions(name, 2)])[name].result(60)
        producer = kafka_producer(kafka)

        def is_put() -> bool:
            producer.produce(name, b"new", partition=1)
            return producer.flush(60) == 0

        wait_until(lambda: len(admin.list_topics(name, 30).topics[name].partitions) == 2, "it")
        assert is_put()
        reader.add({TopicPartition(name, 1): 0})
        found = read_all(reader, {TopicPartition(name, 1): 1}, 100, lambda _: None)
        assert found[TopicPartition(name, 1)] == [(0, b"new")]
        assert len(expected[TopicPartition(name, 0)]) == 6


def failure(reader: KafkaReader) -> str:
    found: list[str] = []

    def fails() -> bool:
        try:
            reader.read(0.5)
        except BusUnavailable as error:
            found.append(str(error))
        return bool(found)

    wait_until(fails, "the reader to fail")
    return found[0]


@pytest.mark.parametrize("offset", [2, 1000])
def test_an_offset_that_kafka_does_not_hold_is_said(
    name: str, kafka: str, make_topic: Callable[..., str], offset: int
) -> None:
    put(kafka, make_topic(name), 1, 20)
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_records([confluent_kafka.TopicPartition(name, 0, 9)])[
        confluent_kafka.TopicPartition(name, 0)
    ].result(60)
    with KafkaReader(reading(name, kafka), {TopicPartition(name, 0): offset}, 10) as reader:
        assert failure(reader).endswith(f"holds no record of {name}[0] at offset {offset}")


def test_a_broker_that_is_killed_is_said_and_its_records_come_once_it_is_back() -> None:
    with private_broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        create_topics(admin, NewTopic("t", 1, 1))
        put(broker.address, "t", 1, 3)
        with KafkaReader(reading("t", broker.address), {TopicPartition("t", 0): 0}, 10) as reader:
            read_all(reader, {TopicPartition("t", 0): 7}, 10, lambda _: None)
            broker.kill()
            assert broker.address in failure(reader)
        broker.start()
        with KafkaReader(reading("t", broker.address), {TopicPartition("t", 0): 5}, 10) as reader:
            assert read_all(reader, {TopicPartition("t", 0): 7}, 10, lambda _: None) == {
                TopicPartition("t", 0): []
            }


def test_a_task_can_end_while_kafka_does_not_answer() -> None:
    with private_broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        create_topics(admin, NewTopic("t", 1, 1))
        with KafkaReader(reading("t", broker.address), {TopicPartition("t", 0): 0}, 10) as reader:
            reader.read(0.5)
            broker.signal(signal.SIGSTOP)
            try:
                assert reader.read(0.5) == ({}, {})
            finally:
                broker.signal(signal.SIGCONT)
