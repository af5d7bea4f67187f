"""The example of an event processor does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.plugins.transform.processor import make_processor
from tests.support.processes.plugins import add_example

ORDERS = Table(TableId("shop", "orders"), (Column("id"), Column("state"), Column("test")), ("id",))


@pytest.mark.parametrize("name", ["shop_rules:change", "shopRules"])
@pytest.mark.parametrize(
    ("row", "tables"),
    [
        ({"id": "7", "state": "open", "test": "0"}, ["orders"]),
        ({"id": "7", "state": "closed", "test": "0"}, ["orders", "closed_orders"]),
        ({"id": "7", "state": "closed", "test": "1"}, []),
    ],
)
def test_test_orders_are_left_out_and_closed_ones_come_twice(
    name: str,
    row: dict[str, str],
    tables: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_example("event_processor", tmp_path, monkeypatch)
    process = make_processor(name)
    assert process is not None
    applied = process(RowChange(ORDERS, Op.INSERT, None, row))
    assert [each.table.id.table for each in applied] == tables
    assert [each.after for each in applied][1:] == [{"id": "7"}] * (
        len(tables) - 1 if tables else 0
    )
