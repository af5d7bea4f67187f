"""What a word stands for, and what the task would repeat or leave out, without Kafka and source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError, PositionLost, SourceUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import (
    BinlogPosition,
    KafkaPosition,
    TopicPartition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.plugins.start import BinlogStart
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.control import reset
from cdcbus.tasks.control.reset import find_targets
from cdcbus.tasks.control.target_offsets import TargetOffsets

LOAD = LoadTask(
    "7", TopicConfig("kafka:9092", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget("")
)
FETCH = FetchTask(
    "8",
    "lane",
    SourceConfig((("db", 3306),), "u"),
    FilterConfig(),
    PublishConfig("kafka:9092", "orders", "canalRow"),
)
GTIDS = "00000000-0000-0000-0000-00000000000b"
BEGUN = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


class Kafka:
    """Topics whose partitions hold the offsets 100 to 200, a record a second; and its clients."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *partitions: TopicPartition) -> None:
        self.held = dict.fromkeys(partitions, (100, 200))
        self.at_target = TargetOffsets(dict.fromkeys(partitions, 150))
        self.is_away = False
        self.place: Any = None
        self.closed = 0
        monkeypatch.setattr(reset, "TopicLogs", lambda *_: self)
        monkeypatch.setattr(reset, "target_offsets", self.asked_of_target)
        monkeypatch.setattr(reset, "Consumer", lambda _: self)

    def asked_of_target(self, _: LoadTask, lacks: str) -> TargetOffsets:
        return TargetOffsets(unknown=lacks) if lacks else self.at_target

    # As TopicLogs

    def __enter__(self) -> Kafka:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, topic: str) -> list[int]:
        return [each.partition for each in self.held if each.topic == topic]

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        return self.held[partition]

    def at_time(self, partition: TopicPartition, epoch_ms: int) -> int | None:
        low, high = self.held[partition]
        offset = max(low, (epoch_ms - BEGUN) // 1000)
        return offset if offset < high else None

    # As a Consumer, whose messages are itself

    def assign(self, places: list[Any]) -> None:
        [self.place] = places

    def poll(self, _: float) -> Kafka | None:
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        low, high = self.held[TopicPartition(self.place.topic, self.place.partition)]
        return self if low <= self.place.offset < high else None

    def timestamp(self) -> tuple[int, int]:
        return 1, BEGUN + self.place.offset * 1000

    def close(self) -> None:
        self.closed += 1

    def error(self) -> None:
        pass


ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    return Kafka(monkeypatch, ONE)


def stored(**offsets: int) -> dict[str, str | None]:
    """Next offsets, by `pN`."""
    return {
        "orders": kafka_positions_to_json(
            KafkaPosition("orders", int(name[1:]), offset - 1) for name, offset in offsets.items()
        )
    }


def offsets(text: str) -> dict[int, int]:
    return {each.partition: each.next_offset for each in kafka_positions_from_json(text)}


@pytest.mark.parametrize(
    ("word", "offset"),
    [
        ("earliest", 100),
        ("latest", 200),
        ("149", 150),
        ("99", 100),
        ("199", 200),
        ("-30", 150),
        ("2023-11-14T22:15:20", 120),
        ("2024-01-01", 200),
    ],
)
def test_a_word_is_the_first_offset_to_read(kafka: Kafka, word: str, offset: int) -> None:
    found = find_targets(LOAD, word, stored(p0=180))
    assert offsets(found["orders"].text) == {0: offset}


def test_a_target_without_its_secrets_is_named_and_the_position_found(kafka: Kafka) -> None:
    found = find_targets(LOAD, "latest", stored(p0=180), target_lacks="'X' is not set")
    assert offsets(found["orders"].text) == {0: 200}
    assert found["orders"].means[-1] == "'X' is not set"
    assert "the target is at offset" not in str(found["orders"].means)


@pytest.mark.parametrize("word", ["98", "200", "-81"])
def test_an_offset_that_kafka_does_not_hold_is_refused(kafka: Kafka, word: str) -> None:
    with pytest.raises(PositionLost, match="Kafka holds 100 to 200"):
        find_targets(LOAD, word, stored(p0=180))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("yesterday", "'yesterday' is not a position in a topic; .* or -N for N records back"),
        ("120-130", "120-130 is a replay, not a place"),
        ("-5", "counts back from the stored position, and .* has none"),
    ],
)
def test_a_word_that_is_no_place_is_refused(kafka: Kafka, word: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_targets(LOAD, word, {"orders": None})


def test_going_back_tells_how_many_records_come_again_and_of_when(kafka: Kafka) -> None:
    [sentence] = find_targets(LOAD, "-30", stored(p0=180))["orders"].means
    assert sentence == (
        f"{ONE}: from offset 180 to 150: repeats 30 records of 2023-11-14 22:15:50 UTC to "
        "2023-11-14 22:16:19 UTC; the target is at offset 150"
    )


def test_going_on_tells_what_is_left_out(kafka: Kafka) -> None:
    [sentence] = find_targets(LOAD, "180", stored(p0=180))["orders"].means
    assert "from offset 180 to 181: leaves out 1 record of" in sentence


def test_the_same_place_is_said_to_stay(kafka: Kafka) -> None:
    [sentence] = find_targets(LOAD, "latest", stored(p0=200))["orders"].means
    assert f"{ONE}: stays at offset 200;" in sentence


def test_without_a_stored_position_none_is_compared(kafka: Kafka) -> None:
    [sentence] = find_targets(LOAD, "earliest", {})["orders"].means
    assert f"{ONE}: continues at offset 100; nothing was stored;" in sentence


def test_records_that_kafka_deleted_are_counted_without_their_times(kafka: Kafka) -> None:
    [sentence] = find_targets(LOAD, "earliest", stored(p0=50))["orders"].means
    assert "from offset 50 to 100: leaves out 50 records; the target" in sentence


def test_a_kafka_that_tells_no_times_is_no_error_and_its_clients_are_closed(kafka: Kafka) -> None:
    kafka.is_away = True
    [sentence] = find_targets(LOAD, "earliest", stored(p0=110))["orders"].means
    assert "repeats 10 records; the target" in sentence
    assert kafka.closed == 2


def test_why_the_target_tells_no_offsets_is_said_once_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Kafka(monkeypatch, ONE, TWO)
    kafka.at_target = TargetOffsets(unknown="the target is away")
    means = find_targets(LOAD, "earliest", {})["orders"].means
    assert means[2:] == ("the target is away",)
    assert all("target" not in sentence for sentence in means[:2])


def test_a_partition_that_is_not_chosen_keeps_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    Kafka(monkeypatch, ONE, TWO)
    found = find_targets(LOAD, "119", stored(p0=180, p1=170), "orders", 0)["orders"]
    assert offsets(found.text) == {0: 120, 1: 170}
    assert len(found.means) == 1


def test_a_partition_that_is_not_chosen_and_was_never_stored_gets_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Kafka(monkeypatch, ONE, TWO)
    found = find_targets(LOAD, "119", stored(p0=180), "orders", 0)["orders"]
    assert offsets(found.text) == {0: 120}


@pytest.mark.parametrize(
    ("unusable", "why"),
    [
        ("orders 180", "cannot be read"),
        ('{"offset":"179","partition":0,"topic":"orders"}', "cannot be read"),
        ('{"offset":179,"partition":0,"topic":"order"}', "is of another topic"),
    ],
)
def test_an_unusable_position_is_replaced_by_the_command_that_its_error_names(
    monkeypatch: pytest.MonkeyPatch, unusable: str, why: str
) -> None:
    Kafka(monkeypatch, ONE, TWO)
    found = find_targets(LOAD, "earliest", {"orders": unusable})["orders"]
    assert offsets(found.text) == {0: 100, 1: 100}
    assert f"{ONE}: continues at offset 100; the stored position {why};" in found.means[0]
    # Nothing says where the others are, but the target.
    found = find_targets(LOAD, "119", {"orders": unusable}, "orders", 1)["orders"]
    assert offsets(found.text) == {1: 120}


def test_a_stored_partition_that_the_task_does_not_read_keeps_its_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Kafka(monkeypatch, ONE, TWO)
    one_of_two = replace(LOAD, source=replace(LOAD.source, partitions=(0,)))
    found = find_targets(one_of_two, "latest", stored(p0=180, p1=33))["orders"]
    assert (offsets(found.text), found.numbers) == ({0: 200, 1: 33}, frozenset({0}))


def test_a_stored_partition_that_the_topic_has_no_more_is_left_out(kafka: Kafka) -> None:
    found = find_targets(LOAD, "latest", stored(p0=180, p5=33))["orders"]
    assert (offsets(found.text), found.numbers) == ({0: 200}, frozenset({0}))
    assert "orders[5]: is gone, and so is its stored offset" in found.means


def test_a_topic_without_the_partition_that_is_named_is_not_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Kafka(monkeypatch, ONE, TWO, TopicPartition("parts", 0))
    both = LoadTask("7", TopicConfig("k", ("orders", "parts")), "c", "JdbcBatch", JdbcTarget(""))
    found = find_targets(both, "119", {**stored(p0=180), "parts": None}, number=1)
    assert {topic: target.numbers for topic, target in found.items()} == {"orders": {1}}


def test_one_offset_is_not_taken_for_several_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    Kafka(monkeypatch, ONE, TWO)
    with pytest.raises(ConfigError, match="one offset cannot apply to 2 partitions"):
        find_targets(LOAD, "119", {})
    assert offsets(find_targets(LOAD, "earliest", {})["orders"].text) == {0: 100, 1: 100}


def test_only_the_topic_that_is_named_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    other = TopicPartition("parts", 0)
    Kafka(monkeypatch, ONE, other)
    both = LoadTask("7", TopicConfig("k", ("orders", "parts")), "c", "JdbcBatch", JdbcTarget(""))
    assert set(find_targets(both, "earliest", {})) == {"orders", "parts"}
    assert set(find_targets(both, "119", {}, "parts")) == {"parts"}


def test_a_topic_or_a_partition_that_the_task_does_not_read_is_refused(kafka: Kafka) -> None:
    with pytest.raises(ConfigError, match="does not read topic parts; it reads orders"):
        find_targets(LOAD, "latest", {}, "parts")
    with pytest.raises(ConfigError, match="reads no partition 3"):
        find_targets(LOAD, "latest", {}, "orders", 3)


class Source:
    """A binlog of three files of 1,000 bytes. `wanted`: where it was asked to begin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wanted: list[BinlogStart] = []
        self.files = [(f"bin.{number:06}", 1_000) for number in (1, 2, 3)]
        self.found = BinlogPosition("bin.000003", 400, timestamp_ms=BEGUN)
        # Of the files; empty: unknown.
        self.created_ms: dict[str, int] = {}
        self.timeouts: list[float] = []
        monkeypatch.setattr(reset, "BinlogSource", self.opened)
        # By host, of the servers that answer; the fetch task has only the first.
        self.identities = {"db": "a"}
        self.host = "db"
        self.server = servers.Server("8.4.0", "a", 1, True, True, {})
        monkeypatch.setattr(servers, "connect", self.connected)
        monkeypatch.setattr(servers, "identity", lambda _: self.identities[self.host])
        monkeypatch.setattr(servers, "binlog_files", lambda _: self.files)

    @contextmanager
    def opened(self, task: FetchTask) -> Iterator[Source]:
        self.timeouts.append(task.source.connect_timeout_seconds)
        self.connected(task.source)
        self.server = replace(self.server, server_uuid=self.identities[self.host])
        yield self

    def connected(self, source: SourceConfig, *_: object) -> Source:
        self.host = source.addresses[0][0]
        if self.host not in self.identities:
            raise SourceUnavailable(f"source {self.host} cannot be reached")
        return self

    @property
    def where(self) -> str:
        return f"{self.host}:3306"

    def locate(self, start: BinlogStart) -> BinlogPosition:
        self.wanted.append(start)
        if not isinstance(start, BinlogPosition):
            return self.found
        if self.created_ms and start.file not in self.created_ms:
            raise PositionLost(f"no {start.file}")
        return replace(start, file_created_ms=self.created_ms.get(start.file, 0))

    def close(self) -> None:
        pass

    def means(
        self, word: str, before: BinlogPosition | str, task: FetchTask = FETCH
    ) -> tuple[BinlogPosition, str]:
        text = before if isinstance(before, str) else before.to_json()
        target = find_targets(task, word, {"lane": text})["lane"]
        [sentence] = target.means
        return BinlogPosition.from_json(target.text), sentence


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(monkeypatch)


@pytest.mark.parametrize(
    ("word", "before", "said"),
    [
        ("bin.000001:900", ("bin.000003", 400), "repeats 1,500 bytes of binlog"),
        ("bin.000003:400", ("bin.000001", 900), "leaves out 1,500 bytes of binlog"),
        ("bin.000002:500", ("bin.000002", 600), "repeats 100 bytes of binlog"),
        ("bin.000002:500", ("bin.000000", 600), "leaves out what lies between"),
        ("bin.000002:500", ("bin.000009", 600), "repeats what lies between"),
    ],
)
def test_bytes_of_the_binlog_are_counted_over_its_files(
    source: Source, word: str, before: tuple[str, int], said: str
) -> None:
    _, sentence = source.means(word, BinlogPosition(*before))
    assert sentence == f"lane: from {before[0]}:{before[1]} to {word}: {said}"


PAIR = replace(FETCH, source=SourceConfig((("db", 3306), ("db2", 3306)), "u"))


def test_the_server_of_the_stored_position_is_asked_among_several(source: Source) -> None:
    source.identities = {"db": "a", "db2": "b"}
    before = BinlogPosition("bin.000003", 300, gtid=f"{GTIDS}:1-9", server_uuid="b")
    _, sentence = source.means("latest", before, PAIR)
    assert (source.host, sentence.endswith("leaves out 100 bytes of binlog")) == ("db2", True)


@pytest.mark.parametrize("gtid", ["", f"{GTIDS}:1-9"])
def test_places_of_two_servers_are_not_compared(source: Source, gtid: str) -> None:
    source.identities = {"db2": "b"}
    before = BinlogPosition("bin.000001", 300, gtid=gtid, server_uuid="a")
    _, sentence = source.means("latest", before, PAIR)
    assert sentence == (
        "lane: continues at bin.000003:400 (committed 2023-11-14 22:13:20 UTC) of db2:3306; what it "
        "repeats or leaves out is unknown, as bin.000001:300 is a place in the binlog of another "
        "server"
    )


@pytest.mark.parametrize(
    ("before", "created_ms", "is_reset"),
    [
        ("bin.000001", BEGUN, False),
        ("bin.000001", BEGUN - 5000, True),
        ("bin.000009", BEGUN - 5000, True),
        ("bin.000009", BEGUN + 5000, False),  # the server has lost its last files
        ("bin.000000", BEGUN - 5000, False),  # purged
    ],
)
def test_places_before_and_after_a_reset_of_the_binlog_are_not_compared(
    source: Source, before: str, created_ms: int, *, is_reset: bool
) -> None:
    source.created_ms = {f"bin.{number:06}": BEGUN + number - 1 for number in (1, 2, 3)}
    position = BinlogPosition(before, 300, file_created_ms=created_ms)
    _, sentence = source.means("bin.000003:400", position)
    assert ("in a binlog that was reset since" in sentence) is is_reset
    assert ("leaves out" in sentence and "repeats" in sentence) is is_reset


def test_of_several_servers_that_are_away_the_first_is_named(source: Source) -> None:
    source.identities = {}
    with pytest.raises(SourceUnavailable, match="source db cannot"):
        source.means("latest", "", PAIR)


def test_the_same_place_in_the_binlog_is_said_to_stay(source: Source) -> None:
    _, sentence = source.means("bin.000002:500", BinlogPosition("bin.000002", 500))
    assert sentence == "lane: stays at bin.000002:500"


def test_stored_positions_are_counted_on(source: Source) -> None:
    after, _ = source.means("latest", BinlogPosition("bin.000001", 4, batch_id=41))
    assert (after.file, after.pos, after.batch_id) == ("bin.000003", 400, 41)


def test_a_place_is_shown_with_the_time_that_is_known_of_it(source: Source) -> None:
    _, sentence = source.means("latest", "")
    assert sentence == (
        "continues at bin.000003:400 (committed 2023-11-14 22:13:20 UTC); nothing was stored"
    )
    source.found = BinlogPosition("bin.000003", 4, file_created_ms=BEGUN)
    _, sentence = source.means("latest", "")
    assert "(the file begins 2023-11-14 22:13:20 UTC)" in sentence


def test_a_stored_position_that_cannot_be_read_is_replaced_and_said(source: Source) -> None:
    after, sentence = source.means("bin.000002", "{}")
    assert (after.file, after.pos) == ("bin.000002", 4)
    assert sentence == "continues at bin.000002:4; the stored position cannot be read"


def test_an_operator_waits_no_longer_than_some_seconds_for_the_source(source: Source) -> None:
    source.means("latest", "")
    assert source.timeouts == [reset.ASK_SECONDS]


def test_a_word_that_is_no_place_in_a_binlog_is_refused_before_the_source_is_asked(
    source: Source,
) -> None:
    with pytest.raises(ConfigError, match="'yesterday' is not a position in a binlog"):
        source.means("yesterday", "")
    assert source.timeouts == []


@pytest.mark.parametrize(("topic", "number"), [("orders", None), (None, 0)])
def test_a_binlog_has_no_topics_and_partitions(
    source: Source, topic: str | None, number: int | None
) -> None:
    with pytest.raises(ConfigError, match="no topics and partitions"):
        find_targets(FETCH, "latest", {}, topic, number)
