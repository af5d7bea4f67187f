"""Letters whose replay would take a row back in time: a log of this partition is read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import Consumer, Message

from cdcbus.consumer.records.dead_letters import (
    REPLAYED_OFFSET,
    DeadLetter,
    OpenDeadLetter,
    origin_of,
)
from cdcbus.consumer.records.outdated import find_outdated
from cdcbus.consumer.records.record_reader import RecordReader
from cdcbus.plugins.positions import TopicPartition


class Record(NamedTuple):
    """A record as the Kafka client returns it. `origin`: where a replayed one first came."""

    at: int
    its_key: bytes | None
    its_value: bytes = b"new"
    origin: int | None = None

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.its_key

    def value(self) -> bytes:
        return self.its_value

    def headers(self) -> list[tuple[str, bytes]]:
        if self.origin is None:
            return []
        return [(REPLAYED_OFFSET, b"%d" % self.origin)]


class Log:
    """Stands in for a RecordReader, and for its client: one partition, from offset 0."""

    def __init__(self, records: Sequence[Record], end: int) -> None:
        self.records = records
        self.end = end
        self.start = 0

    @contextmanager
    def consumer(self) -> Iterator[Log]:
        yield self

    def bounds(self, _consumer: Consumer, _partition: TopicPartition) -> tuple[int, int]:
        return 0, self.end

    def assign(self, partitions: Sequence[Any]) -> None:
        # Beyond the end the client begins anew.
        self.start = partitions[0].offset if partitions[0].offset <= self.end else 0

    def read(self, _consumer: Consumer, _topic: str) -> Iterator[Record]:
        in_order = sorted(self.records, key=Record.offset)
        return (each for each in in_order if each.at >= self.start)


def letter(
    offset: int, key: bytes | None = b"5_", value: bytes = b"old", origin: int | None = None
) -> OpenDeadLetter:
    """A letter of shop/0. `origin`: where its record, a replayed one, first came."""
    dead_letter = DeadLetter("shop", 0, offset, "x")
    if origin is None:
        origin = offset
    return OpenDeadLetter(dead_letter, "", key, value, [], origin)


def outdated(records: Sequence[Record], *letters: OpenDeadLetter, end: int = 100) -> dict[str, str]:
    return find_outdated(cast(RecordReader, Log(records, end)), letters, print)


def others(count: int, *but: int) -> list[Record]:
    """Records of a key each, except at these offsets."""
    return [Record(each, b"%d_" % (1000 + each)) for each in range(count) if each not in but]


OTHER_LOG = (
    "shop[0] has another record at 17, so it is another log than the one that had the record"
)


def test_a_letter_of_another_log_is_outdated_though_its_key_came_earlier_in_this_one() -> None:
    assert outdated([*others(100, 3), Record(3, b"5_")], letter(17)) == {"shop/0/17": OTHER_LOG}


@pytest.mark.parametrize("record", [Record(17, b"5_"), Record(17, b"6_", b"old")])
def test_a_record_with_another_value_or_key_is_of_another_log(record: Record) -> None:
    assert outdated([*others(100, 17), record], letter(17)) == {"shop/0/17": OTHER_LOG}


def test_a_letter_whose_record_the_log_holds_is_not_outdated() -> None:
    log = [*others(100, 3, 17), Record(3, b"5_"), Record(17, b"5_", b"old")]
    assert outdated(log, letter(17)) == {}


def test_a_letter_without_a_record_in_the_log_is_outdated() -> None:
    """A marker of a transaction is there, or the newer record was compacted away."""
    assert outdated(others(100, 17), letter(17)) == {
        "shop/0/17": "shop[0] has no record at 17 any more, so it is another log than the one that "
        "had the record, or newer records are gone"
    }


def test_a_record_compacted_away_for_one_that_is_replayed_after_it_is_none_of_another_log() -> None:
    log = [*others(100, 17, 20), Record(20, b"5_", b"later")]
    assert outdated(log, letter(17), letter(20, value=b"later")) == {}


def test_a_record_that_was_replayed_already_is_not_replayed_again() -> None:
    """Its letter was left open by a crash. In a table without a key it would become two rows."""
    replayed = Record(100, b"5_", b"old", origin=17)
    assert outdated([*others(100, 17), replayed], letter(17), end=101) == {
        "shop/0/17": "was replayed already, as record shop/0/100"
    }
    # the replay failed as well
    again = letter(100, origin=17)
    assert outdated([*others(100, 17), replayed], again, end=101) == {}


def test_an_offset_of_another_log_in_a_replayed_record_does_not_hide_newer_ones() -> None:
    message = Record(40, b"5_", b"old", origin=9000)
    assert origin_of(cast(Message, message)) == 40


def test_a_replayed_record_is_compared_at_its_own_offset() -> None:
    log = [*others(100, 40), Record(40, b"5_", b"old", origin=17)]
    assert outdated(log, letter(40, origin=17)) == {}
    [reason] = outdated(others(100), letter(40, origin=17)).values()
    assert reason.startswith("shop[0] has another record at 40")
