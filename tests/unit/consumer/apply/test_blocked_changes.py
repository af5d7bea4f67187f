"""Changes that another row blocks: deferred, looked for ahead, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.consumer.apply import lookahead
from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.contracts import AppliedOffset
from cdcbus.plugins.errors import RowConflict
from cdcbus.plugins.rowchange import Op
from tests.support.topics.records import records_of
from tests.unit.consumer.apply.applying import (
    ALONE,
    PARENTS,
    PARTITION,
    TASK,
    Made,
    apply,
    filled,
    parent,
    partition_applier,
    row,
    target,
    update,
)


def test_what_another_row_blocks_and_no_later_change_replaces_is_refused_where_no_other_partition_can() -> (
    None
):
    loader = target()
    apply(loader, parent(Op.INSERT, row("1", "x")))
    with pytest.raises(RowConflict, match=r"^record shop\[0\]@0: "):
        apply(loader, parent(Op.INSERT, row("2", "x")))
    assert loader.rows[PARENTS] == {("1",): row("1", "x")}


NO_INSERT = replace(TASK, insert_on_update_error=False)


def test_an_insert_that_is_blocked_is_not_lost_where_updates_may_not_insert() -> None:
    loader = target()
    apply(loader, parent(Op.INSERT, row("8", "y")), parent(Op.INSERT, row("9", "x")))
    changes = [parent(Op.INSERT, row("1", "x")), parent(Op.UPDATE, row("1", "y"), row("1", "x"))]
    later = parent(Op.UPDATE, row("1", "z"), row("1", "y"))
    made = Made(*changes, later)
    applier = PartitionApplier(NO_INSERT, made, loader, read_on=made.read_on)
    applier.seen = dict(loader.offsets)
    report = applier.apply(PARTITION, made.records[:2], 2, 5, ALONE)
    assert (loader.rows[PARENTS]["1",], report.tables[PARENTS].superseded) == (row("1", "z"), 2)


@pytest.mark.parametrize("merge", [True, False])
def test_changes_of_a_row_within_a_record_stay_in_order_though_the_first_is_blocked(
    merge: bool,
) -> None:
    loader = target()
    apply(loader, parent(Op.INSERT, row("9", "x")))
    record = [parent(Op.INSERT, row("1", "x")), parent(Op.UPDATE, row("1", "y"), row("1", "x"))]
    made = Made(record)
    applier = PartitionApplier(replace(NO_INSERT, merge=merge), made, loader)
    applier.seen = dict(loader.offsets)
    applier.apply(PARTITION, made.records, 1, 5, ALONE)
    assert loader.rows[PARENTS] == {("1",): row("1", "y"), ("9",): row("9", "x")}


def test_a_record_is_refused_whole_with_one_letter_though_its_other_rows_were_applied_before_that_was_known() -> (
    None
):
    loader, dead_letters = target(), list[DeadLetter]()
    apply(loader, parent(Op.INSERT, row("9", "x")), parent(Op.INSERT, row("8", "y")))
    made = Made(
        [
            parent(Op.INSERT, row("1", "a")),
            parent(Op.INSERT, row("2", "x")),
            parent(Op.INSERT, row("3", "y")),
        ],
        parent(Op.INSERT, row("4")),
    )
    applier = PartitionApplier(TASK, made, loader, None, dead_letters.extend)
    applier.seen = dict(loader.offsets)
    report = applier.apply(PARTITION, made.records, 2, 5, ALONE).tables[PARENTS]
    assert ([dead_letter.offset for dead_letter in dead_letters], sorted(loader.rows[PARENTS])) == (
        [0],
        [("4",), ("8",), ("9",)],
    )
    assert (report.rows, report.failed, report.inserted) == (4, 3, 1)


def test_rows_that_exchange_values_need_no_third_one() -> None:
    """Their own third one was taken by a row of another partition, which is ahead."""
    loader, made = (
        filled(_1="u", _5="z", _9="y"),
        Made(update("1", "y", "u"), update("5", "u", "z"), update("1", "z", "y")),
    )
    partition_applier(loader, made).apply(PARTITION, made.records, 3, 5)
    assert {key: each["v"] for (key,), each in loader.rows[PARENTS].items()} == {
        "1": "z",
        "5": "u",
        "9": "y",
    }


def test_a_blocked_change_is_not_refused_for_the_fault_of_the_next_one_of_its_row() -> None:
    loader, dead_letters = filled(_9="x"), list[DeadLetter]()
    loader.refused = frozenset({"refused"})
    made = Made(
        parent(Op.INSERT, row("1", "x")),
        update("1", "refused", "x"),
        parent(Op.DELETE, row("9", "x")),
    )
    partition_applier(loader, made, dead_letters).apply(PARTITION, made.records, 3, 5, ALONE)
    assert ([dead_letter.offset for dead_letter in dead_letters], loader.rows[PARENTS]) == (
        [1],
        {("1",): row("1", "x")},
    )


def test_what_a_change_held_and_has_brought_does_not_keep_the_partition_from_its_place() -> None:
    loader = filled(_9="x", _8="w")
    changes = ("1", "x"), ("3", "y"), ("5", "t")
    made = Made(
        *(parent(Op.INSERT, row(*each)) for each in changes),
        update("1", "q", "x"),
        *(parent(Op.INSERT, row(*each)) for each in (("7", "s"), ("4", "w"))),
    )
    with pytest.raises(PartitionWaits) as waits:
        partition_applier(loader, made).apply(PARTITION, made.records, 6, 5)
    assert (waits.value.end, ("7",) in loader.rows[PARENTS]) == (5, True)


def test_a_look_ahead_knows_from_which_offset_on_it_has_looked() -> None:
    """The second batch is smaller than the first one, which waited."""
    loader = filled(_9="x", _8="y")
    made = Made(
        *(parent(Op.INSERT, row(*each)) for each in (("1", "x"), ("5", "e"))),
        update("1", "y", "x"),
        parent(Op.INSERT, row("6", "f")),
    )
    applier = partition_applier(loader, made)
    with pytest.raises(PartitionWaits):
        applier.apply(PARTITION, made.records, 4, 5)
    assert applier.apply(PARTITION, made.records[:2], 2, 5, ALONE).tables[PARENTS].superseded == 1


def test_a_later_change_is_found_however_far_it_is_and_whoever_else_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookahead, "MOST_BYTES", 2)
    monkeypatch.setattr(lookahead, "LOOK_SECONDS", -1.0)
    loader = target()
    apply(loader, parent(Op.INSERT, row("8", "y")), parent(Op.INSERT, row("9", "x")))
    between = [parent(Op.INSERT, row(str(number))) for number in range(10, 30)]
    last = (
        parent(Op.UPDATE, row("1", "a"), row("1", "x")),
        parent(Op.UPDATE, row("2", "b"), row("2", "y")),
    )
    made = Made(
        parent(Op.INSERT, row("7")),
        parent(Op.INSERT, row("1", "x")),
        parent(Op.INSERT, row("2", "y")),
        *between,
        *last,
    )
    applier, end, waits = PartitionApplier(TASK, made, loader, read_on=made.read_on), 0, 0
    applier.seen = dict(loader.offsets)
    while end < 3:
        try:
            applier.apply(PARTITION, made.records[end:3], 3, 5, ALONE)
            end = 3
        except PartitionWaits as waiting:
            end, waits = waiting.end, waits + 1
            assert (end, waits) <= (1, 99)
    assert (sorted(loader.rows[PARENTS]), waits > 9) == (
        [("1",), ("2",), ("7",), ("8",), ("9",)],
        True,
    )


@pytest.mark.parametrize("is_hasty", [True, False])
def test_a_partition_that_waits_at_its_first_record_is_no_further_than_the_target(
    is_hasty: bool,
) -> None:
    """Markers of transactions are between the target's offset and that record: a position beyond
    them would look as if the target had lost commits."""
    loader = filled(_9="x")
    loader.offsets[PARTITION] = AppliedOffset(*PARTITION, 3, 5)
    made = Made(parent(Op.INSERT, row("1", "x")))
    applier = partition_applier(loader, made)
    [record] = made.records
    blocked = records_of([(5, record[1])])
    with pytest.raises(PartitionWaits) as waits:
        applier.apply(PARTITION, blocked, 6, 5, is_hasty=is_hasty)
    assert waits.value.end == loader.offsets[PARTITION].next_offset == 3
