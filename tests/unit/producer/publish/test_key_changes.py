"""Keys of records that change with their tables."""

from __future__ import annotations

import pytest

from cdcbus.plugins.rowchange import Column, Origin, Table, TableId
from cdcbus.producer.publish.key_changes import KeyChanges

ORIGIN = Origin("bin.1", 4)
SHOP, CRM = TableId("shop_1", "orders"), TableId("shop_2", "orders")


def mapped(type_: str) -> Table:
    return Table(TableId("shop", "orders"), (Column("id", type_),), ("id",))


def looks(caplog: pytest.LogCaptureFixture, *seen: tuple[TableId, str]) -> int:
    """How often it warns of these tables and types, in their order."""
    changes = KeyChanges(lambda _: 8)
    for source, type_ in seen:
        changes.look("shop", source, mapped(type_), ("id",), ORIGIN)
    return sum("have changed from" in line for line in caplog.messages)


def test_a_table_whose_key_changes_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    types = ("datetime", "datetime(3)", "datetime(3)")
    assert looks(caplog, *((SHOP, type_) for type_ in types)) == 1


def test_tables_that_are_mapped_to_one_are_not_taken_for_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each has its own key, and is looked at again after each DDL."""
    assert looks(caplog, *((SHOP, "datetime"), (CRM, "datetime(3)")) * 2) == 0
