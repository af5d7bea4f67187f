"""Rows that are there, by a task of its own process, over Kafka to a target; with kills."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pymysql
import pytest
from click.testing import CliRunner
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from tests.integration.producer.reading import connect
from tests.support.changes.shop import Shop, open_shop
from tests.support.servers.slow_link import slow_link
from tests.support.topics.committed import committed_canal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

COLUMNS = "id INT PRIMARY KEY, n INT, pad VARCHAR(2000)"


@pytest.fixture
def shop(name: str, stack: Addresses, source_cursor: Cursor, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(name, stack, source_cursor, tmp_path) as made:
        yield made


def fill(shop: Shop, rows: int, bytes_: int) -> None:
    shop.cursor.execute(
        f"INSERT INTO goods SELECT seq, 0, REPEAT('x', {bytes_}) FROM seq_1_to_{rows}"
    )


def status(shop: Shop, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """What `cdcbus snapshot status` says, by table."""
    environment = {"CDCBUS_ZOOKEEPER": shop.addresses.zookeeper}
    told = CliRunner(env=environment).invoke(
        main, ["snapshot", "status", f"{shop.name}-fetch", "--json", *words]
    )
    assert told.exit_code == code, told.output
    return {each["table"]: each for each in json.loads(told.stdout)["tables"]}


def wish(shop: Shop, *words: str) -> str:
    environment = {"CDCBUS_ZOOKEEPER": shop.addresses.zookeeper}
    told = CliRunner(env=environment).invoke(
        main, ["snapshot", words[0], f"{shop.name}-fetch", *words[1:]]
    )
    assert told.exit_code == 0, told.output
    return told.stdout


def state(shop: Shop, table: str = "goods") -> str:
    return str(status(shop).get(table, {}).get("state"))


@contextmanager
def writing(shop: Shop, highest: int) -> Iterator[None]:
    over = Event()

    def run() -> None:
        chance = random.Random(highest)
        with connect(shop.addresses.source) as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {shop.name}")
            while not over.wait(0.002):
                id_ = chance.randrange(highest)
                with suppress(pymysql.OperationalError):
                    cursor.execute(
                        chance.choice(
                            (
                                f"UPDATE goods SET n = n + 1 WHERE id = {id_}",
                                f"DELETE FROM goods WHERE id = {id_}",
                                f"REPLACE INTO goods VALUES ({id_}, 5, 'new')",
                            )
                        )
                    )

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("transactions", ["false", "true"])
def test_a_task_that_is_killed_goes_on_with_its_chunks(
    shop: Shop, make_topic: Any, transactions: str
) -> None:
    make_topic(shop.name, 2)
    shop.cursor.execute(f"CREATE TABLE goods ({COLUMNS})")
    fill(shop, 40_000, 1_500)
    source = shop.addresses.source
    # so slow that no chunk is the last one before somebody has looked
    with slow_link(source.host, source.port, 2_000_000) as link:
        fetch = shop.fetch(
            replace(source, port=link.port),
            consumer__snapshot="initial",
            loader__source__transaction=transactions,
        )
        with writing(shop, 45_000):
            killed_twice(shop, fetch)
            link.bytes_per_second = 0
            fetch.start()
            wait_until(lambda: state(shop) == "done", f"the snapshot to be done: {fetch.log}")
        shop.cursor.execute("REPLACE INTO goods VALUES (99999, 7, 'the last')")
        rows: dict[str, Any] = {}

        def is_there() -> bool:
            rows.clear()
            for record in committed_canal(shop.addresses.kafka, shop.name):
                for row in record["data"]:
                    if record["type"] == "DELETE":
                        rows.pop(row["id"], None)
                    else:
                        rows[row["id"]] = row["n"]
            return "99999" in rows

        wait_until(is_there, "the last row to come")
        fetch.ask_to_stop()
        assert fetch.await_stop() == 0
    shop.cursor.execute("SELECT id, n FROM goods")
    assert rows == {str(id_): str(n) for id_, n in shop.cursor.fetchall()}


def killed_twice(shop: Shop, fetch: TaskProcess) -> None:
    """Each time after some more chunks, before the last."""
    rows = 0
    for _ in range(2):
        fetch.start()
        wait_until(lambda: shop.position(fetch) is not None, f"it to start: {fetch.log}")
        before = rows
        wait_until(lambda: status_rows(shop) > before, f"the snapshot to get on: {fetch.log}")
        rows = status_rows(shop)
        fetch.kill()
        assert state(shop) == "running"


def status_rows(shop: Shop) -> int:
    return int(status(shop).get("goods", {}).get("rows", 0))


def test_the_target_has_all_rows_and_a_task_for_them_only_has_ended(
    shop: Shop, make_topic: Any
) -> None:
    make_topic(shop.name, 2)
    shop.create("goods", COLUMNS)
    fill(shop, 3_000, 20)
    fetch = shop.fetch(shop.addresses.source, consumer__snapshot="only")
    load = shop.load("postgresql")
    load.start()
    fetch.start()
    wait_until(lambda: fetch_ended(fetch), f"the task to end: {fetch.log}")
    assert fetch.await_stop() == 0
    wait_until(
        lambda: shop.postgresql(f"SELECT COUNT(*) FROM {shop.name}.goods")[0][0] == 3_000,
        f"the target to have all rows: {load.log}",
        180,
    )
    shop.cursor.execute("SELECT id, n, pad FROM goods ORDER BY id")
    at_target = shop.postgresql(f"SELECT id, n, pad FROM {shop.name}.goods ORDER BY id")
    assert [tuple(row) for row in at_target] == list(shop.cursor.fetchall())
    load.ask_to_stop()
    load.await_stop()


def fetch_ended(process: Any) -> bool:
    return process._process is not None and process._process.poll() is not None


def test_operators_ask_for_a_snapshot_of_a_task_by_the_command_line(
    shop: Shop, make_topic: Any
) -> None:
    make_topic(shop.name)
    shop.cursor.execute(f"CREATE TABLE goods ({COLUMNS})")
    fill(shop, 100, 10)
    fetch = shop.fetch(shop.addresses.source)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, f"the task to start: {fetch.log}")
    assert status(shop) == {}
    told = wish(shop, "start", "--table", f"{shop.name}.goods", "--where", "id <= 60")
    assert "within seconds" in told
    wait_until(lambda: state(shop) == "done", f"the snapshot to be done: {fetch.log}")
    found = status(shop)["goods"]
    assert (found["rows"], found["where"]) == (60, "id <= 60")
    records = committed_canal(shop.addresses.kafka, shop.name)
    assert [int(record["data"][0]["id"]) for record in records] == [*range(1, 61)]
    fetch.ask_to_stop()
    assert fetch.await_stop() == 0
    assert "when it starts" in wish(shop, "start")
    assert json.loads(wish(shop, "pause", "--json"))["isRunning"] is False
