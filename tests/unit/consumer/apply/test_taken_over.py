"""Offsets at the target that are not this process's: another one has taken the partitions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import AppliedOffset, Details
from cdcbus.plugins.errors import OffsetConflict
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, RowChange
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.unit.consumer.apply.applying import PARTITION, TASK, Made, parent, row, target

OTHER = TopicPartition("shop", 1)


def taken_over(loader: MemoryTarget) -> tuple[PartitionApplier, Made]:
    """An applier that has taken two partitions over, and looked once."""
    made = Made(parent(Op.INSERT, row("1", "a")))
    applier = PartitionApplier(TASK, made, loader)
    applier.applied_offsets()
    if not loader.is_dry_run:
        applier.take_over([AppliedOffset(*PARTITION, 5, 7), AppliedOffset(*OTHER, 5, 7)])
    applier.compare_offsets()
    return applier, made


@pytest.mark.parametrize(("there", "shown"), [(4, "4"), (6, "6"), (None, "none")])
def test_a_quiet_partition_whose_offset_at_the_target_is_another_one_is_told(
    there: int | None, shown: str
) -> None:
    loader = target()
    applier, made = taken_over(loader)
    for end in (6, 7):
        applier.apply(PARTITION, made.records, end, 7)
        applier.compare_offsets()
    held = loader.offsets.pop(OTHER)
    if there is not None:
        loader.offsets[OTHER] = replace(held, next_offset=there)
    applier.apply(PARTITION, made.records, 8, 7)
    with pytest.raises(OffsetConflict, match=rf"offset 5 of shop\[1\], but {shown}: "):
        applier.compare_offsets()


def test_a_replica_may_lag_behind_a_commit_since_the_last_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = target()
    applier, made = taken_over(loader)
    at_replica = loader.applied_offsets()
    monkeypatch.setattr(loader, "applied_offsets", lambda: at_replica)
    applier.apply(PARTITION, made.records, 6, 7)
    applier.compare_offsets()
    with pytest.raises(OffsetConflict):
        applier.compare_offsets()


def test_where_every_partition_has_commits_the_target_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applier, made = taken_over(loader := target())
    monkeypatch.delattr(MemoryTarget, "applied_offsets")
    for end in (6, 7):
        for partition in (PARTITION, OTHER):
            applier.apply(partition, made.records, end, 7)
        applier.compare_offsets()
    assert loader.offsets[OTHER].next_offset == 7


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_offsets_that_the_target_does_not_keep_are_not_missed(
    monkeypatch: pytest.MonkeyPatch, is_dry_run: bool
) -> None:
    loader = target(is_dry_run=is_dry_run)
    if not is_dry_run:
        monkeypatch.setattr(loader, "fence", lambda: None)
    applier, made = taken_over(loader)
    applier.apply(PARTITION, made.records, 6, 7)
    loader.offsets.clear()
    for _ in range(3):
        applier.compare_offsets()


def test_whoever_began_before_partitions_were_taken_over_writes_nothing_any_more() -> None:
    other = TopicPartition("shop", 1)
    loader = target(offsets={PARTITION: AppliedOffset(*PARTITION, 5, 7)})
    made = Made(parent(Op.INSERT, row("1", "a")))
    late, next_ = (PartitionApplier(TASK, made, loader) for _ in range(2))
    for applier in (late, next_):
        applier.applied_offsets()
    next_.take_over([AppliedOffset(*other, 0, 9), AppliedOffset(*PARTITION, 5, 8)])
    assert sorted(loader.offsets) == [PARTITION, other]
    for partition in (PARTITION, other):
        with pytest.raises(OffsetConflict):
            late.apply(partition, made.records, 6, 7)
        next_.apply(partition, made.records, 6, 8)


@pytest.mark.parametrize("keeps_offsets", [True, False])
def test_tables_are_accepted_as_they_are_at_a_first_start_and_where_rows_are_applied_again(
    monkeypatch: pytest.MonkeyPatch, keeps_offsets: bool
) -> None:
    """Not by a partition that was added, nor by each new attempt of a target without offsets: a
    table that was emptied meanwhile would not be told."""
    accepted: list[str] = []
    loader = target()
    monkeypatch.setattr(loader, "accept_tables", lambda: accepted.append("tables"))
    if not keeps_offsets:
        monkeypatch.setattr(loader, "fence", lambda: None)
    applier = PartitionApplier(TASK, Made(parent(Op.INSERT, row("1", "a"))), loader)

    def take_over(*offsets: AppliedOffset) -> int:
        accepted.clear()
        if not keeps_offsets:
            loader.offsets.clear()
        applier.applied_offsets()
        applier.take_over(offsets)
        return len(accepted)

    first = AppliedOffset(*PARTITION, 5, 7)
    assert take_over(first) == 1
    assert take_over(first) == 0
    assert take_over(first, AppliedOffset(*OTHER, 0, 7)) == 0
    assert take_over(replace(first, next_offset=4)) == (1 if keeps_offsets else 0)


@pytest.mark.parametrize(
    ("former", "is_scattered"), [(("b", "a"), True), (("a", "a"), False), (("b", "b"), False)]
)
def test_a_partition_of_a_former_topic_that_is_read_again_was_added(
    monkeypatch: pytest.MonkeyPatch, former: tuple[str, str], is_scattered: bool
) -> None:
    """Both begin with what is theirs at the target, so nothing else shows it."""
    loader = target()
    partitions = (PARTITION, OTHER)
    for partition, topic_id in zip(partitions, former, strict=True):
        loader.offsets[partition] = AppliedOffset(*partition, 0, 7, 1, Details(topic_id))
    applier = PartitionApplier(TASK, Made(parent(Op.INSERT, row("1", "a"))), loader)
    reasons: list[str] = []
    monkeypatch.setattr(applier, "scatter", reasons.append)
    applier.applied_offsets()
    applier.take_over([AppliedOffset(*each, 0, 7, details=Details("b")) for each in partitions])
    assert (reasons == ["partitions were added to topic shop"]) is is_scattered
    assert [each.details.topic_id for each in loader.applied_offsets()] == ["b", "b"]


@pytest.mark.parametrize("is_executor", [False, True])
@pytest.mark.parametrize("numbers", [(0, 1), (0,)])
def test_a_topic_is_known_to_have_several_partitions_before_their_records_come(
    caplog: pytest.LogCaptureFixture, *, numbers: tuple[int, ...], is_executor: bool
) -> None:
    """Of several topics each may have one, where rows stay, whatever form their key has."""
    partitions = [TopicPartition("shop", number) for number in numbers]
    offsets = [AppliedOffset(*partition, 0, 7) for partition in partitions]
    made = Made(*(decimal(scale) for scale in (2, 4)))
    task = replace(TASK, source=replace(TASK.source, topics=("shop", "crm")))
    loader = target(offsets={offset.topic_partition: offset for offset in offsets})
    applier = PartitionApplier(task, made, loader)
    if is_executor:
        applier.begin(PARTITION, {offset.topic_partition: offset for offset in offsets})
    else:
        applier.applied_offsets()
        applier.take_over(offsets)
    offset, value = made.records.offsets, made.records.values
    records = Records(offset, value, keys=pa.array([b"7.00_", b"7.0000_"]))
    applier.apply(PARTITION, records, len(records), 7)
    assert ("two forms of its key" in caplog.text) is (len(numbers) > 1)


def decimal(scale: int) -> RowChange:
    """An insert of a row whose key has so many digits."""
    change = parent(Op.INSERT, row(f"7.{'0' * scale}", str(scale)))
    columns = (Column("id", f"decimal(9,{scale})"), Column("v"))
    return replace(change, table=replace(change.table, columns=columns))
