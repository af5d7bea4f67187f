"""Records that cannot be read or applied: they stop the task, or become dead letters."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.errors import BusUnavailable, ConversionError, TargetRejected
from cdcbus.plugins.rowchange import Op, RowChange
from tests.unit.consumer.apply.applying import (
    PARENT_TABLE,
    PARENTS,
    PARTITION,
    TASK,
    Made,
    apply,
    parent,
    row,
    target,
)


def test_a_refused_row_stops_with_its_record_and_changes_nothing() -> None:
    loader = target(refused=frozenset({"refused"}))
    with pytest.raises(
        TargetRejected, match=r"^record shop\[0\]@1: table shop\.parents: a cell does not fit$"
    ):
        apply(loader, parent(Op.INSERT, row("1")), parent(Op.INSERT, row("2", "refused")))
    assert (loader.rows[PARENTS], loader.offsets) == ({}, {})


def test_a_record_that_cannot_be_read_is_named_or_becomes_a_dead_letter() -> None:
    loader, made, dead_letters = (
        target(),
        Made(ConversionError("no JSON"), parent(Op.INSERT, row("1"))),
        list[DeadLetter](),
    )
    with pytest.raises(ConversionError, match=r"^record shop\[0\]@0: no JSON$"):
        PartitionApplier(TASK, made, loader).apply(PARTITION, made.records, 2, 5)
    report = PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend).apply(
        PARTITION, made.records, 2, 5
    )
    assert dead_letters == [DeadLetter("shop", 0, 0, "no JSON")]
    assert (report.unread, list(loader.rows[PARENTS])) == (1, [("1",)])


def test_a_record_of_several_rows_is_applied_whole_or_not_at_all() -> None:
    loader, dead_letters = target(refused=frozenset({"refused"})), list[DeadLetter]()
    made = Made(
        [parent(Op.INSERT, row("1")), parent(Op.INSERT, row("2", "refused"))],
        parent(Op.INSERT, row("3")),
    )
    PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend).apply(
        PARTITION, made.records, 2, 5
    )
    assert [dead_letter.offset for dead_letter in dead_letters] == [0]
    assert list(loader.rows[PARENTS]) == [("3",)]


def test_nothing_is_committed_unless_the_dead_letters_are_put() -> None:
    def away(_: Sequence[DeadLetter]) -> None:
        raise BusUnavailable("no broker answers")

    loader, made = target(), Made(ConversionError("no JSON"), parent(Op.INSERT, row("1")))
    with pytest.raises(BusUnavailable):
        PartitionApplier(TASK, made, loader, put_dead_letters=away).apply(
            PARTITION, made.records, 2, 5
        )
    assert (loader.rows[PARENTS], loader.offsets) == ({}, {})


def test_a_dry_run_goes_on_past_what_would_become_a_dead_letter_and_puts_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    without_key = RowChange(PARENT_TABLE, Op.INSERT, None, {"v": "secret"})
    made = Made(
        ConversionError("no JSON"),
        parent(Op.INSERT, row("1")),
        without_key,
        parent(Op.INSERT, row("2")),
    )
    loader, dead_letters = target(is_dry_run=True), list[DeadLetter]()
    report = PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend).apply(
        PARTITION, made.records, 4, 5
    )
    assert (dead_letters, list(loader.rows[PARENTS])) == ([], [("1",), ("2",)])
    assert (report.unread, report.tables[PARENTS].failed) == (1, 1)
    unread, refused = (
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    )
    assert unread == "task 7: record shop/0/0 would become a dead letter: no JSON"
    assert refused.startswith("task 7: record shop/0/2 would become a dead letter: ")
    assert "secret" not in caplog.text


def test_a_dry_run_of_a_task_that_is_to_stop_stops() -> None:
    made = Made(parent(Op.INSERT, row("1")), ConversionError("no JSON"))
    with pytest.raises(ConversionError, match=r"^record shop\[0\]@1: no JSON$"):
        PartitionApplier(TASK, made, target(is_dry_run=True)).apply(PARTITION, made.records, 2, 5)
