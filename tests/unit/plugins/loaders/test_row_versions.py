"""The statements for the tables with the versions of rows, as text, and whose turn it is."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.plugins.loaders.row_versions import _names_begin, create_every_sql, prune_sql
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
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


class Target:
    """A database whose table t2 refuses each DELETE; notes those of the others."""

    def __init__(self, *tables: int) -> None:
        self.pruned: list[str] = []
        self.names = [f"{_names_begin('7')}t{number}" for number in tables]
        self.dialect = SimpleNamespace(name="postgresql")
        self.target = SimpleNamespace(mark="")
        self.engine = self
        self.reported = nullcontext

    def need_schema(self, _: str) -> str:
        return "shop"

    def connect(self) -> Any:
        return nullcontext(self)

    begin = connect

    def execute(self, statement: Any, _: Any) -> Any:
        sql = str(statement)
        if not sql.startswith("DELETE"):
            return SimpleNamespace(scalars=lambda: SimpleNamespace(all=lambda: self.names))
        table = sql.split("_t")[1][0]
        if table == "2":
            raise TimeoutError
        self.pruned.append(table)
        return SimpleNamespace(rowcount=0)


def test_a_table_that_refuses_its_turn_holds_up_no_other() -> None:
    target = Target(1, 2, 3)
    loader = JdbcBatch(target, "7")  # type: ignore[arg-type]
    for _ in range(3):
        with suppress(TimeoutError):
            loader.forget_versions(lambda: 78)
    assert target.pruned == ["1", "3", "1", "3", "1"]


@pytest.mark.parametrize("tables", [(), (1, 3)])
def test_kafka_is_only_asked_where_versions_are_kept(tables: tuple[int, ...]) -> None:
    """All partitions are read for the answer, while nothing is applied."""
    asked = []

    def before_ms() -> int:
        asked.append(True)
        return 0

    target = Target(*tables)
    loader = JdbcBatch(target, "7")  # type: ignore[arg-type]
    loader.forget_versions(before_ms)
    assert len(asked) == bool(tables)
    assert target.pruned == []
