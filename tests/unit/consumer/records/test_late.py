"""Records of a process that had lost its lock, behind those of its successor."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.consumer.records.late import Begun, is_late, without_late
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.epoch import epoch_text, epochs
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId

PARTITION = TopicPartition("shop", 0)
TABLE = Table(TableId("shop", "t"), (Column("id", "int", 4),), ("id",))


def value(epoch: int, converter: str = "canalRow", task: str = "1") -> bytes:
    origin = Origin("b.1", 4, epoch=(epoch and epoch_text(epoch, task, "shop")) or "")
    return make_converter(converter).to_bytes(
        RowChange(TABLE, Op.INSERT, None, {"id": "7"}, origin)
    )


def records(*values: bytes, at: int = 0) -> Records:
    return Records(pa.array(range(at, at + len(values)), pa.int64()), pa.array(values, pa.binary()))


@pytest.mark.parametrize("converter", ["canalRow", "oggJson"])
def test_an_older_epoch_behind_a_newer_one_of_its_task_is_left_out(converter: str) -> None:
    made = [
        value(epoch, converter, task)
        for epoch, task in ((5, "1"), (9, "1"), (5, "1"), (5, "2"), (0, "1"), (9, "1"))
    ]
    left, late = without_late(PARTITION, records(*made), converter, {})
    assert (left.offsets.to_pylist(), late.to_pylist()) == ([0, 1, 3, 4, 5], [2])


def test_auto_leaves_out_late_records_of_either_format() -> None:
    made = [
        value(epoch, converter)
        for epoch, converter in (
            (5, "canalRow"),
            (9, "oggJson"),
            (5, "canalRow"),
            (5, "oggJson"),
            (9, "canalRow"),
            (0, "canalCompat"),
        )
    ]
    left, late = without_late(PARTITION, records(*made), "auto", {})
    assert (left.offsets.to_pylist(), late.to_pylist()) == ([0, 1, 4, 5], [2, 3])
    begun = Begun()
    assert [is_late(begun, at, each, "auto") for at, each in enumerate(made)] == [
        at in (2, 3) for at in range(6)
    ]


@pytest.mark.parametrize("converter", ["canalCompat", "porterCompat", "debeziumJson"])
def test_records_that_tell_no_epoch_pass(converter: str) -> None:
    assert epochs(pa.array([b"{}", None, b""], pa.binary()), converter) is None


@given(st.lists(st.integers(1, 4), max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_what_is_late_is_the_same_however_often_and_in_whatever_batches_a_partition_is_read(
    made: list[int], cuts: list[int]
) -> None:
    values, begun = [value(epoch) for epoch in made], Begun()
    wanted = [offset for offset, epoch in enumerate(made) if epoch < max(made[:offset], default=0)]
    for _ in range(2):
        found = []
        for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), 31], strict=True):
            found += without_late(
                PARTITION, records(*values[begin:end], at=begin), "canalRow", begun
            )[1].to_pylist()
        assert found == wanted


@given(st.lists(st.integers(0, 4), max_size=30))
def test_who_reads_record_by_record_leaves_out_the_same(made: list[int]) -> None:
    values, begun = [value(epoch) for epoch in made], Begun()
    found = [at for at, each in enumerate(values) if is_late(begun, at, each, "canalRow")]
    assert found == without_late(PARTITION, records(*values), "canalRow", {})[1].to_pylist()
    assert not is_late(begun, 99, None, "canalRow")
