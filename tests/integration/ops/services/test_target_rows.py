"""The target's row beside a dead letter's, read from real servers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.ops.services import target_rows as looks
from cdcbus.ops.services.target_rows import TargetRow, target_rows
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError, TargetUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from tests.support.changes.shop import Shop, open_shop

pytestmark = [pytest.mark.integration, pytest.mark.source]
COLUMNS = {
    "id": "bigint",
    "who": "varchar(40)",
    "at": "datetime(6)",
    "raw": "varbinary(9)",
    "price": "decimal(9,2)",
}
ROW = {
    "id": "7",
    "who": "Zoë % ' :x \U0001f600",
    "at": "2024-05-01 03:04:05.25",
    "raw": "\x00\xff",
    "price": "1.50",
}


@pytest.fixture
def shop(name: str, stack: Addresses, source_cursor: Cursor, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(name, stack, source_cursor, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["postgresql", "mariadb"])
def task(request: pytest.FixtureRequest, shop: Shop) -> LoadTask:
    """Its target table has another column name, and a column of its own."""
    kind = request.param
    database = getattr(shop.addresses, kind)
    is_postgresql = kind == "postgresql"
    raw, at = ("BYTEA", "TIMESTAMP(6)") if is_postgresql else ("VARBINARY(9)", "DATETIME(6)")
    getattr(shop, kind)(
        f"CREATE TABLE {shop.name}.people (id BIGINT PRIMARY KEY, name VARCHAR(40), at {at}, "
        f"raw {raw}, price DECIMAL(9,3), own INT)"
    )
    dialect, path = ("postgresql", database.database) if is_postgresql else ("mysql", shop.name)
    return LoadTask(
        "7",
        TopicConfig("kafka:9092", ("t",)),
        "canalRow",
        "JdbcBatch",
        JdbcTarget(
            f"jdbc:{dialect}://{database.host}:{database.port}/{path}",
            database.user,
            database.password,
        ),
        rules=(MapperRule(schema=("shop", shop.name), columns={"who": "name"}),),
    )


def letter(op: Op, before: Row | None, after: Row | None) -> bytes:
    columns = tuple(Column(name, type_) for name, type_ in COLUMNS.items())
    table = Table(TableId("shop", "people"), columns, ("id",))
    change = RowChange(table, op, before, after, Origin("bin.1", 4), is_last=True)
    return make_converter("canalRow").to_bytes(change)


def put(shop: Shop, task: LoadTask, value: str) -> None:
    assert isinstance(task.target, JdbcTarget)
    is_postgresql = "postgresql" in task.target.url
    raw = r"'\x00ff'::bytea" if is_postgresql else "X'00FF'"
    run: Callable[[str], object] = shop.postgresql if is_postgresql else shop.mariadb
    who = ROW["who"].replace("'", "''")
    run(
        f"INSERT INTO {shop.name}.people VALUES (7, '{who}', '2024-05-01 03:04:05.25', {raw}, "
        f"{value}, 3)"
    )


def different(row: TargetRow) -> list[str]:
    return [cell.name for cell in row.cells if cell.is_different]


def test_the_row_is_found_by_its_key_and_what_differs_is_told(shop: Shop, task: LoadTask) -> None:
    insert = letter(Op.INSERT, None, ROW)
    [row] = target_rows(task, insert)
    assert (row.table, row.op, row.is_there) == (f"{shop.name}.people", "INSERT", False)
    put(shop, task, "1.5")
    [row] = target_rows(task, insert)
    assert (row.is_there, different(row)) == (True, [])
    now = {cell.name: cell.now for cell in row.cells}
    assert (now["name"], now["raw"], now["own"]) == (ROW["who"], "\x00\xff", "3")
    after = {**ROW, "price": "2.00", "who": "Ada"}
    [row] = target_rows(task, letter(Op.UPDATE, ROW, after))
    assert different(row) == ["name", "price"]
    [row] = target_rows(task, letter(Op.DELETE, ROW, None))
    assert (row.is_there, different(row)) == (True, [])
    [row] = target_rows(task, letter(Op.INSERT, None, {**ROW, "id": "no number"}))
    assert row.is_there is False
    moved = target_rows(task, letter(Op.UPDATE, ROW, {**ROW, "id": "8"}))
    assert [each.is_there for each in moved] == [False, True]


def test_a_key_of_text_is_a_literal_whatever_it_holds(shop: Shop, task: LoadTask) -> None:
    assert isinstance(task.target, JdbcTarget)
    run = shop.postgresql if "postgresql" in task.target.url else shop.mariadb
    run(f"DROP TABLE {shop.name}.people")
    run(f"CREATE TABLE {shop.name}.people (id VARCHAR(60) PRIMARY KEY, name VARCHAR(40))")
    run(f"INSERT INTO {shop.name}.people VALUES ('plain', 'x')")
    for key in ("\\' OR 1=1 -- ", "' OR '1'='1", "%s :x", "plain"):
        row = {"id": key, "who": "y"}
        [found] = target_rows(task, letter(Op.INSERT, None, row))
        assert found.is_there is (key == "plain")
        assert different(found) == (["name"] if key == "plain" else [])


def test_what_cannot_be_looked_up_is_said(shop: Shop, task: LoadTask) -> None:
    insert = letter(Op.INSERT, None, ROW)
    nowhere = replace(
        task, rules=(MapperRule(schema=("shop", shop.name), table=("people", "none")),)
    )
    [row] = target_rows(nowhere, insert)
    assert (row.is_there, row.reason) == (None, f"the target has no table {shop.name}.none")
    with pytest.raises(ConfigError, match="is a topic"):
        target_rows(replace(task, target=PublishConfig("kafka:1", "t", "canalRow")), insert)
    with pytest.raises(ConfigError, match="event processor"):
        target_rows(replace(task, processor="a:b"), insert)


def test_a_target_that_stands_still_or_is_away_is_not_waited_for_long(
    task: LoadTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that takes connections and says nothing: the look is given up by a limit that the
    test makes short."""
    monkeypatch.setattr(looks, "LOOK_SECONDS", 0.5)
    assert isinstance(task.target, JdbcTarget)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        kind = task.target.url.split(":")[1]
        target = replace(task.target, url=f"jdbc:{kind}://127.0.0.1:{port}/x")
        began = time.monotonic()
        with pytest.raises(TargetUnavailable):
            target_rows(replace(task, target=target), letter(Op.INSERT, None, ROW))
        assert time.monotonic() - began < 30
    monkeypatch.setattr(looks, "LOOK_SECONDS", 60.0)
    with pytest.raises(TargetUnavailable, match=r"127\.0\.0\.1"):
        target_rows(replace(task, target=target), letter(Op.INSERT, None, ROW))
