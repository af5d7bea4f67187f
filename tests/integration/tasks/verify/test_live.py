"""`cdcbus verify` beside running tasks and a source that changes all the time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from cdcbus.plugins.mysql.connection import MysqlConnection
from tests.integration.producer.running import messages
from tests.integration.tasks.verify.planted import ALL_TYPES, FULL, ONLY_AS_ROWS, PLANTS, cells
from tests.integration.tasks.verify.verifying import arrive, both, verify
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ROWS = 300


@contextmanager
def writing(shop: Shop) -> Iterator[None]:
    """Changes all the time: most rows, never those below 20."""
    source, is_over = shop.addresses.source, threading.Event()

    def write() -> None:
        choose = random.Random(7)
        with (
            MysqlConnection(
                host=source.host,
                port=source.port,
                user=source.user,
                password=source.password,
                database=shop.name,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            number = 0
            while not is_over.wait(0.02):
                number += 1
                row = choose.randrange(20, ROWS)
                cursor.execute(
                    "UPDATE wide SET i = i + 1, v = %s WHERE id = %s", (f"v{number}", row)
                )
                cursor.execute("INSERT INTO wide (id, v) VALUES (%s, 'new')", (1000 + number,))
                cursor.execute("DELETE FROM wide WHERE id = %s", (1000 + number // 2,))
                cursor.execute("INSERT INTO names VALUES (%s, 1)", (f"Name {number}",))
                if number % 100 == 0:
                    cursor.execute("INSERT INTO words VALUES (%s)", (choose.choice("ab"),))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def running(shop: Shop, target: str, transaction: str = "false") -> Iterator[Callable[[str], Any]]:
    """Both tasks, tables that are equal, and a source that changes them; runs SQL at the
    target."""
    types = ALL_TYPES | ONLY_AS_ROWS
    mysql = ", ".join(f"{name} {kind}" for name, (kind, _) in types.items())
    postgresql = ", ".join(f"{name} {kind}" for name, (_, kind) in types.items())
    shop.create("wide", mysql, postgresql)
    shop.create("names", "name VARCHAR(30) PRIMARY KEY, n INT")
    shop.create("words", "word VARCHAR(9)")
    shop.create(
        "times",
        "at DATETIME(3), d DECIMAL(6,2), PRIMARY KEY (at, d)",
        "at timestamp, d numeric(6,2), PRIMARY KEY (at, d)",
    )
    fetch = shop.fetch(shop.addresses.source, loader__source__transaction=transaction)
    load = shop.load(target)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    load.start()
    names = [name for name in types if name != "id"]
    full = ", ".join(cells(FULL[name])[0] for name in names)
    rows = ", ".join(f"({number}, {full})" for number in range(ROWS))
    shop.cursor.execute(f"INSERT INTO wide (id, {', '.join(names)}) VALUES {rows}")
    run: Callable[[str], Any] = both(shop, target)
    wait_until(lambda: run(f"SELECT COUNT(*) FROM {shop.name}.wide")[0][0] == ROWS, "the rows", 180)
    with writing(shop):
        yield run


@pytest.mark.parametrize(
    ("target", "transaction"),
    [("postgresql", "false"), ("postgresql", "true"), ("mariadb", "false")],
)
def test_differences_are_found_and_delays_are_none_while_writes_go_on(
    shop: Shop, target: str, transaction: str
) -> None:
    with running(shop, target, transaction) as run:
        equal = verify(shop, target, patience="90")
        assert equal.code == 0, equal.output
        assert {each["result"] for each in equal.tables} == {"equal"}
        run(f"UPDATE {shop.name}.wide SET v = 'planted' WHERE id = 3")
        run(f"DELETE FROM {shop.name}.wide WHERE id = 4")
        run(f"INSERT INTO {shop.name}.wide (id, i) VALUES (19000000, 1)")
        run(f"INSERT INTO {shop.name}.names VALUES ('extra', 1)")
        run(f"INSERT INTO {shop.name}.words VALUES ('planted')")
        found = verify(shop, target, patience="90")
    assert found.code == 1, found.output
    tables = {each["table"].partition(".")[2]: each for each in found.tables}
    keys = {(each["kind"], each["key"]["id"]) for each in tables["wide"]["examples"]}
    assert keys == {("different", "3"), ("missing", "4"), ("extra", "19000000")}
    assert tables["names"]["extra"] == 1
    assert tables["names"]["missing"] == tables["names"]["different"] == 0
    assert (tables["words"]["extra"], tables["words"]["missing"]) == (1, 0)
    assert all(each["behind"] == 0 for each in found.tables)


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_repair_makes_them_equal_while_writes_go_on(shop: Shop, target: str) -> None:
    """The source changes most of the rows meanwhile. More than 20 s: a repair waits for rows that
    are on their way."""
    with running(shop, target) as run:
        run(f"UPDATE {shop.name}.wide SET t = 'planted' WHERE id < 40")
        run(f"DELETE FROM {shop.name}.wide WHERE id BETWEEN 10 AND 13")
        run(f"INSERT INTO {shop.name}.wide (id, i) VALUES (19000000, 1)")
        run(f"INSERT INTO {shop.name}.names VALUES ('ex''tra', 1)")
        run(f"INSERT INTO {shop.name}.times VALUES ('2024-01-01 00:00:00.5', 1.5)")
        plan = verify(shop, target, "--repair", "--dry-run", patience="60")
        assert plan.code == 1, plan.output
        planned = {each["table"].partition(".")[2]: each.get("planned", []) for each in plan.tables}
        assert {(each["op"], each["key"]["id"]) for each in planned["wide"]} >= {
            ("INSERT", "3"),
            ("INSERT", "10"),
            ("DELETE", "19000000"),
        }
        [delete] = planned["times"]
        assert delete["key"] == {"at": "2024-01-01 00:00:00.500", "d": "1.50"}
        repaired = verify(shop, target, "--repair", "--yes", patience="60")
        assert repaired.code == 0, repaired.output
        assert sum(each.get("published", 0) for each in repaired.tables) > 20
    assert verify(shop, target, patience="60").code == 0


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_differences_of_every_kind_are_found_and_repaired_while_writes_go_on(
    shop: Shop, target: str
) -> None:
    """Each in a row that the source does not change meanwhile, or with another in it."""
    place = int(target == "postgresql")
    wanted: dict[str, set[str]] = {}
    with running(shop, target) as run:
        for number, (column, mysql, postgresql) in enumerate(PLANTS.values()):
            row = str(number % 18)
            assert column not in wanted.setdefault(row, set())
            wanted[row].add(column)
            cell = (mysql, postgresql or mysql)[place]
            run(f"UPDATE {shop.name}.wide SET {column} = {cell} WHERE id = {row}")
        run(f"DELETE FROM {shop.name}.wide WHERE id = 18")
        run(f"INSERT INTO {shop.name}.wide (id, i) VALUES (19000000, 1)")
        repaired = verify(shop, target, "--repair", "--yes", "--table", "wide", patience="60")
        assert repaired.code == 0, repaired.output
        sent = {(each["op"], each["key"]["id"]) for each in repaired.table["planned"]}
        assert sent == {
            *(("INSERT", row) for row in wanted),
            ("INSERT", "18"),
            ("DELETE", "19000000"),
        }
    assert verify(shop, target, patience="60").code == 0


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_rows_that_the_source_has_no_more_are_pruned_while_writes_go_on(
    shop: Shop, target: str
) -> None:
    """And nothing else is sent."""
    with running(shop, target) as run:
        run(f"INSERT INTO {shop.name}.wide (id, i) VALUES (19000000, 1), (19000001, 1)")
        run(f"INSERT INTO {shop.name}.names VALUES ('gone', 1)")
        run(f"UPDATE {shop.name}.wide SET t = 'planted' WHERE id = 3")
        run(f"DELETE FROM {shop.name}.wide WHERE id = 4")
        plan = verify(shop, target, "--prune", "--dry-run", patience="60")
        planned = [each for table in plan.tables for each in table.get("planned", [])]
        assert {(each["op"], *each["key"].values()) for each in planned} == {
            ("DELETE", "19000000"),
            ("DELETE", "19000001"),
            ("DELETE", "gone"),
        }
        assert run(f"SELECT COUNT(*) FROM {shop.name}.wide WHERE id >= 19000000")[0][0] == 2
        pruned = verify(shop, target, "--prune", "--yes", patience="60")
    assert pruned.code == 1, pruned.output
    assert sum(each.get("published", 0) for each in pruned.tables) == 3
    tables = {each["table"].partition(".")[2]: each for each in pruned.tables}
    assert {kind: tables["wide"][kind] for kind in ("missing", "extra", "different")} == {
        "missing": 1,
        "extra": 0,
        "different": 1,
    }
    assert tables["names"]["result"] == "equal"


def test_a_source_that_begins_a_new_file_and_does_nothing_is_waited_for_no_longer(
    shop: Shop,
) -> None:
    """The fetch task's position stays in the old file; and of a task that is stopped, nothing is
    sent."""
    shop.create("orders", "id INT PRIMARY KEY, n INT")
    fetch, load = shop.fetch(shop.addresses.source), shop.load("postgresql")
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    load.start()
    shop.cursor.execute("INSERT INTO orders VALUES (1, 1), (2, 2)")
    wait_until(lambda: shop.is_applied(load), "the rows", 180)
    shop.cursor.execute("FLUSH BINARY LOGS")
    shop.postgresql(f"DELETE FROM {shop.name}.orders WHERE id = 1")
    found = verify(shop, "postgresql", patience="30")
    assert (found.code, found.table["missing"], found.table["behind"]) == (1, 1, 0)
    fetch.kill()
    shop.cursor.execute("INSERT INTO orders VALUES (3, 3)")
    stopped = verify(shop, "postgresql", patience="1")
    assert (stopped.code, stopped.table["result"]) == (1, "behind")


def test_rows_whose_locks_are_lost_are_not_sent(shop: Shop) -> None:
    """Somebody ends the session that holds them, and changes the row, while the repair waits for
    the fetch task."""
    shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(9)")
    shop.create("others", "id INT PRIMARY KEY")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 'old')")
    arrive(shop)

    def sessions(where: str) -> list[int]:
        shop.cursor.execute(f"SELECT id FROM information_schema.processlist WHERE {where}")
        return [number for [number] in shop.cursor.fetchall()]

    shop.cursor.execute("BEGIN")
    shop.cursor.execute("SELECT * FROM orders FOR UPDATE")
    is_locking = f"info LIKE '%{shop.name}%LOCK IN SHARE MODE' AND id <> CONNECTION_ID()"
    with ThreadPoolExecutor(1) as pool:
        words = ("--repair", "--yes", "--table", f"{shop.name}.orders")
        repaired = pool.submit(verify, shop, "postgresql", *words, patience="0")
        wait_until(lambda: sessions(is_locking) != [], "the repair to wait for the row")
        [session] = sessions(is_locking)
        # Nobody publishes it, so the repair then waits with its locks.
        shop.cursor.execute("INSERT INTO others VALUES (1)")
        shop.cursor.execute("COMMIT")
        wait_until(lambda: sessions(f"id = {session} AND command = 'Sleep'") != [], "the locks")
        shop.cursor.execute(f"KILL {session}")
        shop.cursor.execute("UPDATE orders SET name = 'new'")
        arrive(shop)
        found = repaired.result()
    assert found.code == 2
    assert messages(shop.addresses.kafka, shop.name) == []
    assert "locks of rows of source table" in found.output, found.output
