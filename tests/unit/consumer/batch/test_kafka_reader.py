"""How much a reading takes of what a client has, and of which partitions; the client itself, on a
real Kafka, is for the test of this name among those with servers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cdcbus.consumer.batch import kafka_reader
from cdcbus.consumer.batch.kafka_reader import READ_BYTES, KafkaReader
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.positions import TopicPartition

ONE, TWO, THREE = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("orders", 2),
)
TASK = LoadTask(
    "7", TopicConfig("kafka:9092", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget("")
)


@dataclass
class Message:
    of: TopicPartition
    at: int
    content: bytes | None = b"x"
    trouble: Any = None

    def topic(self) -> str:
        return self.of.topic

    def partition(self) -> int:
        return self.of.partition

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes:
        return b"%d" % self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self.at

    def error(self) -> Any:
        return self.trouble


class Client:
    """What is `there` comes with one call; what is `to_come` with those that wait. `ends`: as Kafka
    has told; a partition of which it has told nothing has none."""

    def __init__(self) -> None:
        self.there, self.to_come = deque[Message](), deque[Message]()
        self.ends: Mapping[TopicPartition, int] = {}
        self.options: dict[str, Any] = {}
        self.sought: list[tuple[int, int]] = []
        self.waits = 0

    def assign(self, _: object) -> None:
        pass

    def close(self) -> None:
        pass

    def poll(self, _: float) -> None:
        """For the errors that a client has not told yet."""

    def consume(self, count: int, seconds: float) -> list[Message]:
        if not self.there and self.to_come and seconds:
            assert count == 1, "waits until there are more"
            self.waits += 1
            return [self.to_come.popleft()]
        return [self.there.popleft() for _ in range(min(count, len(self.there)))]

    def seek(self, place: Any) -> None:
        self.sought.append((place.partition, place.offset))

    def get_watermark_offsets(self, place: Any, *, cached: bool) -> tuple[int, int]:
        assert cached, "no question to Kafka"
        end = self.ends.get(TopicPartition(place.topic, place.partition))
        return (-1001, -1001) if end is None else (0, end)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    found = Client()

    def make(options: dict[str, Any]) -> Client:
        found.options = options
        return found

    monkeypatch.setattr(kafka_reader, "Consumer", make)
    monkeypatch.setattr(kafka_reader, "OTHERS_SECONDS", 0.05)
    return found


def records(partition: TopicPartition, begin: int, end: int, size: int = 1) -> list[Message]:
    return [Message(partition, offset, b"x" * size) for offset in range(begin, end)]


def counts(found: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
    return {partition: len(each) for partition, each in found.items()}


def test_a_reading_has_what_is_there_up_to_its_most(client: Client) -> None:
    client.there.extend([*records(ONE, 5, 9), *records(TWO, 0, 4)])
    with KafkaReader(TASK, {ONE: 5, TWO: 0}, 6) as reader:
        partitions, ends = reader.read(1)
        assert (counts(partitions), ends) == ({ONE: 4, TWO: 2}, {ONE: 9, TWO: 2})
        keys: Any = partitions[ONE].keys
        assert keys.to_pylist() == [b"5", b"6", b"7", b"8"]
        assert partitions[TWO].kafka_times() == (1000, 1001)
        assert counts(reader.read(1)[0]) == {TWO: 2}
        assert reader.read(0) == ({}, {})


def test_large_records_are_left_to_the_client_once_there_are_enough_bytes(client: Client) -> None:
    size = READ_BYTES // 4
    client.there.extend(records(ONE, 0, 20, size))
    with KafkaReader(TASK, {ONE: 0}, 10_000) as reader:
        taken = []
        while client.there:
            taken.append(len(reader.read(1)[0][ONE]))
    assert sum(taken) == 20
    assert max(taken) * size <= READ_BYTES + size


def test_the_end_of_a_partition_counts_with_the_markers_before_it(client: Client) -> None:
    end = Message(ONE, 12, b"", KafkaError(KafkaError._PARTITION_EOF))
    client.there.extend([*records(ONE, 5, 7), end])
    with KafkaReader(TASK, {ONE: 5}, 10) as reader:
        partitions, ends = reader.read(1)
        assert (counts(partitions), ends) == ({ONE: 2}, {ONE: 12})
        client.there.append(end)
        assert reader.read(1) == ({}, {ONE: 12})


def test_a_reading_from_all_waits_for_partitions_that_have_more_and_for_no_others(
    client: Client,
) -> None:
    client.there.extend(records(ONE, 0, 3))
    client.to_come.extend(records(TWO, 0, 1))
    client.ends = {ONE: 3, TWO: 1, THREE: 7}
    with KafkaReader(TASK, {ONE: 0, TWO: 0, THREE: 7}, 10) as reader:
        partitions, _ = reader.read(1, from_all=True)
        assert counts(partitions) == {ONE: 3, TWO: 1}
        assert client.waits == 1
        client.there.extend(records(ONE, 3, 4))
        assert counts(reader.read(1, from_all=True)[0]) == {ONE: 1}
        assert client.waits == 1


def test_a_partition_of_which_kafka_has_told_nothing_is_waited_for_a_moment(client: Client) -> None:
    client.there.extend(records(ONE, 0, 1))
    client.ends = {ONE: 1}
    with KafkaReader(TASK, {ONE: 0, TWO: 0}, 10) as reader:
        assert counts(reader.read(1, from_all=True)[0]) == {ONE: 1}
        assert reader.ahead() == 0
        client.ends = {ONE: 4, TWO: 5}
        assert reader.ahead() == 8


def test_only_partitions_that_were_read_further_go_back_and_without_a_seek(client: Client) -> None:
    end = Message(ONE, 6, b"", KafkaError(KafkaError._PARTITION_EOF))
    client.there.extend([*records(ONE, 0, 4), end, *records(TWO, 0, 2)])
    with KafkaReader(TASK, {ONE: 0, TWO: 0}, 10) as reader:
        assert reader.read(1)[1] == {ONE: 6, TWO: 2}
        reader.go_back({ONE: 1, TWO: 2})
        client.there.extend(records(TWO, 2, 3))
        partitions, ends = reader.read(0)
        assert (counts(partitions), ends) == ({ONE: 3, TWO: 1}, {ONE: 6, TWO: 3})
        assert partitions[ONE].offsets.to_pylist() == [1, 2, 3]
        reader.go_back({ONE: 2, TWO: 3})
        assert counts(reader.read(0)[0]) == {ONE: 2}
        reader.go_back({ONE: 6, TWO: 3})
        assert reader.read(0) == ({}, {})
        assert client.sought == []


def test_what_comes_again_comes_before_what_is_new_of_its_partition(client: Client) -> None:
    client.there.extend(records(ONE, 0, 4))
    with KafkaReader(TASK, {ONE: 0}, 10) as reader:
        reader.read(1)
        reader.go_back({ONE: 2})
        client.there.extend(records(ONE, 4, 7))
        assert reader.read(1)[0][ONE].offsets.to_pylist() == [2, 3, 4, 5, 6]


def test_what_was_read_earlier_is_sought(client: Client) -> None:
    client.there.extend(records(ONE, 0, 4))
    with KafkaReader(TASK, {ONE: 0}, 2) as reader:
        reader.read(1)
        reader.read(1)
        reader.go_back({ONE: 1})
        assert client.sought == [(0, 1)]


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])
def test_an_offset_that_is_not_held_is_told_with_its_number(client: Client, code: int) -> None:
    client.there.append(Message(ONE, -1, b"", KafkaError(code)))
    with (
        KafkaReader(TASK, {ONE: 5}, 10) as reader,
        pytest.raises(BusUnavailable, match=r"holds no record of orders\[0\] at offset 5"),
    ):
        reader.read(1)


def test_brokers_that_are_all_away_are_told_until_something_comes(client: Client) -> None:
    with KafkaReader(TASK, {ONE: 0}, 10) as reader:
        client.options["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
        for _ in range(2):
            with pytest.raises(BusUnavailable, match="no Kafka broker answers at kafka:9092"):
                reader.read(0)
        client.there.extend(records(ONE, 0, 1))
        assert counts(reader.read(1)[0]) == {ONE: 1}
        assert reader.read(0) == ({}, {})
