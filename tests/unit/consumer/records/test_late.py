"""Records of a process that had lost its lock, behind those of its successor."""

from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.consumer.records.late import KEPT, Begun, KnownEpochs, is_late, without_late
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


@given(st.lists(st.integers(1, 9), max_size=30), st.lists(st.integers(0, 30), max_size=9))
def test_of_epochs_before_what_is_applied_next_the_highest_decides(
    made: list[int], cuts: list[int]
) -> None:
    known, found = KnownEpochs(), []
    with patch("cdcbus.consumer.records.late.KEPT", 1):
        for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), 30], strict=True):
            begun = known.of(PARTITION)
            part = records(*map(value, made[begin:end]), at=begin)
            found += without_late(PARTITION, part, "canalRow", begun)[1].to_pylist()
            known.follow(PARTITION, begun, begin)
    assert found == [at for at, epoch in enumerate(made) if epoch < max(made[:at], default=0)]


def test_a_late_record_is_left_out_however_many_epochs_follow_in_its_batch() -> None:
    made = [value(epoch) for epoch in (1, 2, 1, *range(3, 4 + KEPT))]
    assert without_late(PARTITION, records(*made), "canalRow", {})[1].to_pylist() == [2]
    begun = Begun()
    assert [at for at, each in enumerate(made) if is_late(begun, at, each, "canalRow")] == [2]
    assert is_late(begun, 2, made[2], "canalRow")


def test_a_late_record_is_left_out_however_many_epochs_a_look_ahead_has_seen() -> None:
    known, begun = KnownEpochs(), Begun()
    without_late(PARTITION, records(value(1), value(2), at=10), "canalRow", begun)
    known.follow(PARTITION, begun, 10)
    for epoch in range(3, 4 + KEPT):
        assert not known.learn(PARTITION, 20 + epoch, value(epoch), "canalRow")
    for _ in range(2):
        begun = known.of(PARTITION)
        late = without_late(PARTITION, records(value(1), at=12), "canalRow", begun)[1]
        assert late.to_pylist() == [12]
        known.follow(PARTITION, begun, 12)
    assert known.learn(PARTITION, 12, value(1), "canalRow")


def test_only_so_many_epochs_are_kept_that_began_before_what_is_applied_next() -> None:
    known, count = KnownEpochs(), 3 * KEPT
    for epoch in range(1, 1 + count):
        known.learn(PARTITION, epoch, value(epoch), "canalRow")
    known.follow(PARTITION, {}, 2 * KEPT + 1)
    (of_task,) = known.of(PARTITION).values()
    assert sorted(of_task.values()) == list(range(KEPT + 1, 1 + count))


@given(st.lists(st.integers(0, 4), max_size=30))
def test_who_reads_record_by_record_leaves_out_the_same(made: list[int]) -> None:
    values, begun = [value(epoch) for epoch in made], Begun()
    found = [at for at, each in enumerate(values) if is_late(begun, at, each, "canalRow")]
    assert found == without_late(PARTITION, records(*values), "canalRow", {})[1].to_pylist()
    assert not is_late(begun, 99, None, "canalRow")
