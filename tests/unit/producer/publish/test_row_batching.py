"""Rows of one event in records of many: each in the partition of its key, in order, none twice
and none left out."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.kafka.partitioner import murmur2, partition_of
from cdcbus.plugins.kafka.record_key import ByTable, Record
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.publish.native import MakePlan
from cdcbus.producer.publish.row_batching import RecordLimits, many_rows
from cdcbus.producer.source.row_events import Rows
from tests.unit.producer.publish.row_images import (
    COMPILED,
    DELETE,
    UPDATE,
    WRITE,
    cases,
    numbered,
    plain,
)

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
    made = many_rows(records, RecordLimits(partitions, most_rows, most_bytes), join)
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
    assert many_rows([first, second, pair, last], RecordLimits(1, 100, 1000), join) == [
        {"key": None, "value": b"0,1", "partition": 0},
        {**pair, "partition": 0},
        {**last, "partition": 0},
    ]


def writer_of(rows: Rows, key: tuple[str, ...], make_plan: MakePlan | None) -> TableWriter:
    plainly = plain(CanalRow(), key)
    return TableWriter(
        rows.table, CanalRow(), key, plainly, takes_partial=True, make_plan=make_plan
    )


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("make_plan", [COMPILED])
@settings(max_examples=400)
@given(
    case=cases(),
    first_row=st.integers(0, 12),
    limits=st.builds(
        RecordLimits, st.integers(1, 4), st.integers(1, 5), st.sampled_from([700, 1500, 1_000_000])
    ),
    is_by_table=st.booleans(),
)
def test_compiled_records_of_many_rows_are_the_plain_ones(
    make_plan: MakePlan,
    case: tuple[Rows, tuple[str, ...]],
    first_row: int,
    limits: RecordLimits,
    is_by_table: bool,
) -> None:
    rows, key = case
    if is_by_table:
        key = ByTable("shop.orders")
    found = writer_of(rows, key, make_plan).joined(rows, first_row, limits)
    if found is None:
        return
    plainly = plain(CanalRow(), key)
    changes = rows.changes(first_row)
    records = [record for change in changes for record in plainly(change)]
    assert found == (many_rows(records, limits, CanalRow().joined), len(changes))


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("kind", [WRITE, UPDATE, DELETE])
@pytest.mark.parametrize("make_plan", [COMPILED])
def test_ordinary_rows_are_joined_by_the_compiled_part(kind: int, make_plan: MakePlan) -> None:
    rows, limits = numbered(kind, range(200)), RecordLimits(3, 20, 1_000_000)
    found = writer_of(rows, ("id",), make_plan).joined(rows, 7, limits)
    records, count = writer_of(rows, ("id",), None).records(rows, 7)
    assert found == (many_rows(records, limits, CanalRow().joined), count)
    assert max(len(CanalRow().from_bytes(record["value"])) for record in found[0]) == 20


@pytest.mark.parametrize("make_plan", [COMPILED])
def test_an_event_takes_memory_for_the_partitions_of_its_rows_only(make_plan: MakePlan) -> None:
    """Most have one row; clearing the memory for a thousand partitions took longer than that."""
    rows = numbered(WRITE, range(1))
    writer = writer_of(rows, ("id",), make_plan)
    peaks = []
    for partitions in (1, 1, 1_000):
        tracemalloc.start()
        writer.joined(rows, 0, RecordLimits(partitions, 100, 1_000_000))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 10 * 1_000


@pytest.mark.parametrize("make_plan", [COMPILED])
def test_an_event_with_a_row_that_needs_a_record_of_its_own_is_left_to_the_plain_way(
    make_plan: MakePlan,
) -> None:
    whole = numbered(WRITE, range(3))
    size = len(writer_of(whole, ("id",), make_plan).records(whole, 0)[0][0]["value"])
    writer = writer_of(whole, ("id",), make_plan)
    assert writer.joined(whole, 0, RecordLimits(1, 10, size)) is not None
    assert writer.joined(whole, 0, RecordLimits(1, 10, size - 1)) is None
    moved = numbered(UPDATE, range(3), moved_by=1)
    assert writer_of(moved, ("id",), make_plan).joined(moved, 0, RecordLimits(1, 10, 10**6)) is None


@pytest.mark.parametrize("make_plan", [COMPILED])
def test_damaged_rows_are_left_to_the_plain_way(make_plan: MakePlan) -> None:
    rows = numbered(WRITE, range(3))
    rows.body = rows.body[:-1]
    assert writer_of(rows, ("id",), make_plan).joined(rows, 0, RecordLimits(1, 10, 10**6)) is None
