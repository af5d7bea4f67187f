"""Target tables that were altered meanwhile are looked at again."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask, SchemaChange
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.errors import TargetUnavailable, UnmappedColumn
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table
from cdcbus.plugins.transform.rules import MapperRule
from tests.unit.consumer.apply.applying import (
    CHILDREN,
    PARENT_TABLE,
    PARENTS,
    PARTITION,
    TASK,
    Made,
    apply,
    child,
    parent,
    row,
    table,
    target,
)


def test_a_refused_row_has_all_tables_of_its_batch_looked_at_again() -> None:
    loader, dead_letters = target(refused=frozenset({"bad"})), list[DeadLetter]()
    made = Made(parent(Op.INSERT, row("1", "bad")), child(Op.INSERT, {"id": "1", "parent": None}))
    applier = PartitionApplier(TASK, made, loader, None, dead_letters.extend)
    write = applier.prepare(PARTITION, made.records)
    before, loader.tables[CHILDREN] = (
        loader.tables[CHILDREN],
        table(CHILDREN, "id", "parent", "new"),
    )
    with pytest.raises(
        TargetUnavailable, match=r"^target table shop\.children has been altered meanwhile"
    ):
        write(2, 5, 0, False)
    assert (dead_letters, loader.rows[CHILDREN]) == ([], {})
    loader.tables[CHILDREN] = before
    write(2, 5, 0, False)
    assert ([dead_letter.offset for dead_letter in dead_letters], list(loader.rows[CHILDREN])) == (
        [0],
        [("1",)],
    )


def test_a_column_that_the_target_lacks_is_looked_for_again_next_time() -> None:
    wide = Table(PARENTS, (*PARENT_TABLE.columns, Column("new", "int")), ("id",))
    change = RowChange(wide, Op.INSERT, None, {**row("1"), "new": "5"})
    loader, made, dead_letters = target(), Made(change), list[DeadLetter]()
    applier = PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend)
    with pytest.raises(
        UnmappedColumn, match=r'ALTER TABLE "shop"\."parents" ADD COLUMN "new" integer'
    ):
        applier.apply(PARTITION, made.records, 1, 5)
    # no dead letter: the column may come
    assert (loader.refreshed, dead_letters) == ([PARENTS], [])
    loader.tables[PARENTS] = table(PARENTS, "id", "v", "new")
    applier.apply(PARTITION, made.records, 1, 5)
    assert loader.rows[PARENTS] == {("1",): {"id": "1", "v": None, "new": "5"}}


@pytest.mark.parametrize(
    "task",
    [
        replace(TASK, schema_change=SchemaChange.IGNORE),
        replace(TASK, rules=(MapperRule(force_matched=False),)),
    ],
)
def test_a_dropped_column_is_counted_and_told_once(
    task: LoadTask, caplog: pytest.LogCaptureFixture
) -> None:
    wide = Table(PARENTS, (*PARENT_TABLE.columns, Column("new", "int")), ("id",))
    changes = [
        RowChange(wide, Op.INSERT, None, {**row(key), "new": "5"}) for key in ("1", "2", "3", "4")
    ]
    with caplog.at_level(logging.WARNING):
        report = apply(target(), *changes, task=task)
    assert (report.tables[PARENTS].dropped, len(caplog.records)) == (4, 1)
    assert (
        caplog.messages[0] == "task 7: shop.parents lacks columns of shop.parents: new are dropped"
    )
