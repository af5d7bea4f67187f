"""The example of an event processor does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.plugins.transform.processor import make_processor

EXAMPLE = Path(__file__).parents[3] / "examples" / "event_processor"
ORDERS = Table(TableId("shop", "orders"), (Column("id"), Column("state"), Column("test")), ("id",))


@pytest.mark.parametrize(
    ("row", "tables"),
    [
        ({"id": "7", "state": "open", "test": "0"}, ["orders"]),
        ({"id": "7", "state": "closed", "test": "0"}, ["orders", "closed_orders"]),
        ({"id": "7", "state": "closed", "test": "1"}, []),
    ],
)
def test_test_orders_are_left_out_and_closed_ones_come_twice(
    row: dict[str, str], tables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    process = make_processor("shop_rules:change")
    assert process is not None
    applied = process(RowChange(ORDERS, Op.INSERT, None, row))
    assert [each.table.id.table for each in applied] == tables
    assert [each.after for each in applied][1:] == [{"id": "7"}] * (
        len(tables) - 1 if tables else 0
    )
