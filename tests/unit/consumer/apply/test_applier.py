"""What a partition leaves in the target: on one in memory, with unique keys and foreign keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from tests.unit.consumer.apply.applying import (
    CHILDREN,
    PARENT_TABLE,
    PARENTS,
    TASK,
    apply,
    child,
    folding_target,
    parent,
    row,
    table,
    target,
)

# Order


def test_light_tables_are_written_first_and_heavy_ones_deleted_from_first() -> None:
    changes = [
        child(Op.INSERT, {"id": "1", "parent": "1"}), parent(Op.INSERT, row("1")), parent(Op.DELETE, row("9")),
        child(Op.DELETE, {"id": "9", "parent": "9"}),
    ]  # fmt: skip
    loader = target()
    apply(loader, *changes, task=replace(TASK, weights={"SHOP.PARENTS": 1, "CHILDREN": 2}))
    assert loader.statements == ["-children", "-parents", "parents", "children"]


def test_without_merging_each_change_is_written_by_itself_in_order() -> None:
    loader = target()
    changes = [
        parent(Op.INSERT, row("1", "a")),
        child(Op.INSERT, {"id": "1", "parent": "1"}),
        parent(Op.UPDATE, row("1", "b"), row("1", "a")),
    ]
    apply(loader, *changes, task=replace(TASK, merge=False))
    assert loader.statements == ["parents", "children", "parents"]
    loader = target(is_merging=False)
    apply(loader, *changes)
    assert loader.statements == ["parents", "children", "parents"]


def test_rows_whose_keys_only_may_be_equal_are_written_in_as_many_batches_as_such_keys() -> None:
    """A collation may take a, A and \u00e4 for equal; that of this target does not."""
    loader = folding_target()
    changes = []
    for number in range(200):
        for spelling in ("a", "A", "\u00e4"):
            changes.append(parent(Op.INSERT, row(f"{spelling}{number}", f"{spelling}{number}")))
    changes.append(parent(Op.UPDATE, row("a7", "other"), row("a7", "a7")))
    apply(loader, *changes)
    assert loader.statements == ["parents"] * 4
    assert len(loader.rows[PARENTS]) == 600
    assert loader.rows[PARENTS]["a7",]["v"] == "other"


# Ways


def test_one_source_table_may_go_to_several_targets() -> None:
    copy = TableId("shop", "copies")
    loader = target()
    loader.tables[copy] = table(copy, "id", "v")
    loader.rows[copy] = {}
    rules = (MapperRule(table=("parents", "parents")), MapperRule(table=("parents", "copies")))
    report = apply(loader, parent(Op.INSERT, row("1", "x")), task=replace(TASK, rules=rules))
    assert loader.rows[copy] == loader.rows[PARENTS] == {("1",): row("1", "x")}
    assert {name: each.rows for name, each in report.tables.items()} == {PARENTS: 1, copy: 1}


def shard(number: int) -> Table:
    return Table(TableId("shop", f"parents_{number}"), PARENT_TABLE.columns, ("id",))


def test_sharded_tables_are_merged_into_one() -> None:
    loader = target()
    rules = (MapperRule(table=("parents_[0-9]+", "parents")),)
    apply(
        loader,
        *(RowChange(shard(n), Op.INSERT, None, row(str(n))) for n in range(3)),
        task=replace(TASK, rules=rules),
    )
    assert list(loader.rows[PARENTS]) == [("0",), ("1",), ("2",)]


@pytest.mark.parametrize(
    ("name", "includes"),
    [
        ("parents_[0-9]+", frozenset[str]()),
        ("parents_1", frozenset({"SHOP.PARENTS", "SHOP.PARENTS_0", "SHOP.PARENTS_1"})),
    ],
)
def test_a_truncate_of_a_shard_does_not_empty_what_others_share(
    name: str, includes: frozenset[str]
) -> None:
    loader = target(rows={PARENTS: {("0",): row("0")}})
    task = replace(TASK, rules=(MapperRule(table=(name, "parents")),), includes=includes)
    with pytest.raises(
        DataError,
        match=r"TRUNCATE of shop\.parents_1: target table shop\.parents holds rows of other "
        r"source tables too",
    ):
        apply(loader, RowChange(shard(1), Op.TRUNCATE, None, None), task=task)
    assert list(loader.rows[PARENTS]) == [("0",)]


def test_an_event_processor_sees_wanted_rows_before_mapping_and_changes_adds_or_leaves_them_out() -> (
    None
):
    def process(change: RowChange) -> list[RowChange]:
        assert change.table.id == PARENTS
        if change.after is None or change.after["id"] == "2":
            return []
        made = RowChange(
            change.table, change.op, change.before, {**change.after, "v": "made"}, change.origin
        )
        return [made, child(Op.INSERT, {"id": "9", "parent": "1"})]

    loader = target()
    changes = [
        parent(Op.INSERT, row("1")),
        parent(Op.INSERT, row("2")),
        child(Op.INSERT, {"id": "1", "parent": "1"}),
    ]
    apply(
        loader, *changes, task=replace(TASK, excludes=frozenset({"SHOP.CHILDREN"})), process=process
    )
    assert loader.rows == {
        PARENTS: {("1",): row("1", "made")},
        CHILDREN: {("9",): {"id": "9", "parent": "1"}},
    }


# Counters


def test_a_report_counts_what_happened_at_the_source_and_what_the_target_missed() -> None:
    changes = [
        parent(Op.INSERT, row("1", "a")), parent(Op.UPDATE, row("1", "b"), row("1", "a")), parent(Op.DELETE, row("8")),
        parent(Op.UPDATE, row("9", "c"), row("9")), child(Op.INSERT, {"id": "1", "parent": "1"}),
    ]  # fmt: skip
    report = apply(target(), *changes, task=replace(TASK, insert_on_update_error=False))
    counted = report.tables[PARENTS]
    assert (counted.rows, counted.inserted, counted.updated, counted.deleted, counted.missed) == (
        4,
        1,
        2,
        1,
        2,
    )
    assert (report.records, report.tables[CHILDREN].inserted, report.last_commit_ms) == (5, 1, 9)
    total = BatchReport()
    for _ in range(2):
        total.add(report)
    assert (total.records, total.tables[PARENTS].updated) == (10, 4)
    assert str(report).startswith("5 records (decode ")
    assert "shop.parents 4 rows (1 inserted, 2 updated, 1 deleted, 2 missed, merge " in str(report)


@pytest.mark.parametrize("merge", [True, False])
def test_an_update_that_becomes_an_insert_is_missed(merge: bool) -> None:
    changes = [
        parent(Op.INSERT, row("1", "a")), parent(Op.UPDATE, row("1", "b"), row("1", "a")), parent(Op.UPDATE, row("8", "c"), row("8")),
        parent(Op.UPDATE, row("9", "d"), row("9")), parent(Op.UPDATE, row("7", "d"), row("9", "d")),
    ]  # fmt: skip
    loader = target(rows={PARENTS: {("8",): row("8")}})
    assert apply(loader, *changes, task=replace(TASK, merge=merge)).tables[PARENTS].missed == 1
    assert set(loader.rows[PARENTS]) == {("1",), ("8",), ("7",)}
    born = [
        parent(Op.TRUNCATE, None),
        parent(Op.INSERT, row("8", "a")),
        parent(Op.DELETE, row("8", "a")),
        parent(Op.INSERT, row("8", "b")),
    ]
    assert apply(target(), *born, task=replace(TASK, merge=merge)).tables[PARENTS].missed == 0


@pytest.mark.parametrize("merge", [True, False])
def test_an_update_of_a_row_that_the_batch_has_deleted_is_missed_where_it_may_not_insert(
    merge: bool,
) -> None:
    loader = target()
    changes = (
        parent(Op.INSERT, row("1")),
        parent(Op.DELETE, row("1")),
        parent(Op.UPDATE, row("1", "a"), row("1")),
    )
    counted = apply(
        loader, *changes, task=replace(TASK, insert_on_update_error=False, merge=merge)
    ).tables[PARENTS]
    assert (loader.rows[PARENTS], counted.updated, counted.missed) == ({}, 1, 1)


def test_a_row_that_comes_and_goes_within_a_batch_is_not_missed() -> None:
    came, gone = parent(Op.INSERT, row("1", "a")), parent(Op.DELETE, row("1"))
    assert apply(target(), came, gone).tables[PARENTS].missed == 0
    assert apply(target(), came, gone, parent(Op.DELETE, row("2"))).tables[PARENTS].missed == 1
    # it should have been there
    assert apply(target(), gone, came, gone).tables[PARENTS].missed == 1
    moved = parent(Op.UPDATE, row("3", "a"), row("1"))
    assert apply(target(), came, moved, parent(Op.DELETE, row("3"))).tables[PARENTS].missed == 0
