"""The statements for the tables with the versions of rows, as text."""

from __future__ import annotations

import pytest

from cdcbus.plugins.loaders.row_versions import create_every_sql, prune_sql
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


@pytest.mark.parametrize(
    ("dialect", "end"),
    [
        ("postgresql", " LIMIT 10000))"),
        ("mysql", " LIMIT 10000"),
        ("oracle", " AND ROWNUM <= 10000"),
    ],
)
def test_few_versions_are_deleted_at_once(dialect: str, end: str) -> None:
    assert prune_sql(dialect, "t").endswith(end)
