"""The statements for the tables with the versions of rows, as text."""

from __future__ import annotations

import pytest

from cdcbus.plugins.loaders.row_versions import create_every_sql
from cdcbus.plugins.rowchange import TableId

NAME = TableId("shop", "cdcbus_row_x")


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("postgresql", "CREATE TABLE shop.cdcbus_row_x (cdcbus_ms INTEGER PRIMARY KEY)"),
        ("mysql", "CREATE TABLE shop.cdcbus_row_x (cdcbus_ms INTEGER PRIMARY KEY) ENGINE=InnoDB"),
        ("oracle", "CREATE TABLE shop.cdcbus_row_x (cdcbus_ms INTEGER PRIMARY KEY)"),
    ],
)
def test_the_mark_of_all_tables_has_a_primary_key(dialect: str, sql: str) -> None:
    made = create_every_sql(dialect, NAME)
    assert made.replace('"', "").replace("`", "") == sql
