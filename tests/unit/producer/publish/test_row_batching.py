"""Rows of one event in records of many: each in the partition of its key, in order, none twice
and none left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.plugins.kafka.partitioner import murmur2, partition_of
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.producer.publish.row_batching import many_rows

# Kafka's own test values.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), MURMUR2.items())
def test_murmur2_is_kafka_s(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF
    assert partition_of(key, 7) == (expected & 0x7FFFFFFF) % 7


def test_of_one_partition_all_keys_are() -> None:
    assert partition_of(b"21", 1) == 0


def record(number: int, key: int, *, is_pair: bool = False) -> Record:
    return {
        "key": b"%d_" % key,
        "value": b"%d" % number,
        **({"headers": {"cdcbus-new-key": b""}} if is_pair else {}),
    }


def join(values: object) -> bytes:
    assert isinstance(values, list)
    return b",".join(values)


events = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30).map(
    lambda rows: [
        record(number, key, is_pair=is_pair) for number, (key, is_pair) in enumerate(rows)
    ]
)


@settings(max_examples=200)
@given(events, st.integers(1, 4), st.integers(2, 5), st.integers(1, 12))
def test_each_row_is_once_in_the_partition_of_its_key_in_order(
    records: list[Record], partitions: int, most_rows: int, most_bytes: int
) -> None:
    made = many_rows(records, partitions, most_rows, most_bytes, join)
    for partition in range(partitions):
        wanted = [
            each["value"] for each in records if partition_of(each["key"], partitions) == partition
        ]
        mine = [each for each in made if each["partition"] == partition]
        assert [value for each in mine for value in each["value"].split(b",")] == wanted
    for each in made:
        rows = each["value"].split(b",")
        assert len(rows) <= most_rows
        assert len(rows) == 1 or (each["key"] is None and sum(map(len, rows)) <= most_bytes)
    assert [each["value"] for each in made if "headers" in each] == [
        each["value"] for each in records if "headers" in each
    ]


def test_a_record_of_one_row_keeps_its_key_and_one_of_several_has_none() -> None:
    first, second, pair, last = record(0, 1), record(1, 2), record(2, 3, is_pair=True), record(3, 4)
    assert many_rows([first, second, pair, last], 1, 100, 1000, join) == [
        {"key": None, "value": b"0,1", "partition": 0},
        {**pair, "partition": 0},
        {**last, "partition": 0},
    ]
