"""`cdcbus verify --repair` on real servers: what it refuses, and what it never does."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from pymysql.err import OperationalError

from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.tasks.verify import repair
from cdcbus.tasks.verify.lag import Lag
from tests.integration.producer.running import messages
from tests.integration.tasks.verify.verifying import source_of, verify_still
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.source]
PARTITIONS = 1


def test_a_repair_says_of_what_it_can_do_nothing(shop: Shop) -> None:
    shop.create("log", "n INT")
    shop.cursor.execute("INSERT INTO log VALUES (1)")
    found = verify_still(shop, "postgresql", "--repair", "--yes")
    assert found.code == 1
    assert "no key" in found.table["notRepaired"]


def test_a_row_that_another_target_would_get_twice_is_not_sent(shop: Shop) -> None:
    shop.create("orders", "id INT PRIMARY KEY")
    shop.cursor.execute("INSERT INTO orders VALUES (1)")
    rules = {}
    for number, (name, key) in enumerate({"bought": "PRIMARY KEY", "sold": ""}.items()):
        shop.postgresql(f"CREATE TABLE {shop.name}.{name} (id int {key})")
        rules[f"mapper[{number}]__schema"] = f"{shop.name},{shop.name}"
        rules[f"mapper[{number}]__table"] = f"orders,{name}"
    shop.postgresql(f"INSERT INTO {shop.name}.sold VALUES (1)")
    options = ("--table", f"{shop.name}.bought", "--repair", "--yes")
    found = verify_still(shop, "postgresql", *options, **rules)
    assert (found.code, found.table["table"]) == (1, f"{shop.name}.bought")
    assert f"target table {shop.name}.sold, too" in found.table["notRepaired"]
    assert messages(shop.addresses.kafka, shop.name) == []
    shop.postgresql(f"ALTER TABLE {shop.name}.sold ADD PRIMARY KEY (id)")
    found = verify_still(shop, "postgresql", *options, "--dry-run", **rules)
    assert (len(found.table["planned"]), "notRepaired" in found.table) == (1, False)


def test_a_table_that_cannot_be_locked_stops_no_other_table_s_repair(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No consumer task applies what is sent.
    monkeypatch.setattr(Lag, "has_passed", lambda *_: True)
    for name in ("a", "b"):
        shop.create(name, "id INT PRIMARY KEY, n INT")
        shop.cursor.execute(f"INSERT INTO {name} VALUES (1, 1)")
    shop.cursor.execute("ALTER TABLE a ENGINE = MyISAM")
    found = verify_still(shop, "postgresql", "--repair", "--yes")
    assert found.code == 1
    first, second = found.tables
    assert f"source table {shop.name}.a is not in InnoDB" in first["notRepaired"]
    assert "notRepaired" not in second
    assert (first.get("published", 0), second["published"]) == (0, 1)
    sent = [json.loads(each.value() or b"") for each in messages(shop.addresses.kafka, shop.name)]
    assert [each["table"] for each in sent] == ["b"]


UNHELD = {
    "whole": ("INT", "numeric", "1", "1.5"),
    "big": ("INT", "bigint", "1", "3000000000"),
    "tiny": ("TINYINT", "integer", "1", "1000"),
    "positive": ("INT UNSIGNED", "bigint", "1", "-5"),
    "money": ("DECIMAL(10,2)", "numeric", "1.12", "1.123456"),
    "digits": ("DECIMAL(5,2)", "numeric", "1", "123456"),
    "atsec": ("DATETIME", "timestamp", "'2024-01-01 00:00:01'", "'2024-01-01 00:00:00.5'"),
    "stamp": ("TIMESTAMP", "timestamptz", "'2024-01-01 00:00:01'", "'1950-01-01 00:00:00+00'"),
    "clock": ("TIME", "interval", "'01:00:00'", "'01:00:00.25'"),
    "hours": ("TIME", "interval", "'01:00:00'", "'1000 hours'"),
    "never": ("YEAR", "smallint", "2000", "1900"),
    "label": ("ENUM('a','b')", "text", "'a'", "'zzz'"),
    "short": ("VARCHAR(5)", "varchar(50)", "'much'", "'much longer'"),
    "latin": ("VARCHAR(5) CHARACTER SET latin1", "text", "'x'", "'ж'"),
    "bytes": ("VARBINARY(2)", "bytea", "'ab'", "'\\x616263'"),
}


def test_a_key_that_the_source_cannot_hold_deletes_no_other_row(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut or rounded, it would be the key of a good row."""
    # No consumer task applies what is sent.
    monkeypatch.setattr(Lag, "has_passed", lambda *_: True)
    for name, (mysql, postgresql, good, bad) in UNHELD.items():
        shop.create(name, f"k {mysql} PRIMARY KEY, v INT", f"k {postgresql} PRIMARY KEY, v INT")
        shop.cursor.execute(f"INSERT INTO {name} VALUES ({good}, 1)")
        there = good + "::bytea" * (name == "bytes")
        if name == "stamp":
            shop.cursor.execute(f"SELECT UNIX_TIMESTAMP(k) FROM {name}")
            there = f"to_timestamp({shop.cursor.fetchall()[0][0]})"
        shop.postgresql(f"INSERT INTO {shop.name}.{name} VALUES ({there}, 2), ({bad}, 3)")
    plan = verify_still(shop, "postgresql", "--repair", "--dry-run")
    found = verify_still(shop, "postgresql", "--repair", "--yes")
    assert (plan.code, found.code) == (1, 1)
    assert {each["table"].partition(".")[2] for each in found.tables} == UNHELD.keys()
    for before, after in zip(plan.tables, found.tables, strict=True):
        assert before["extra"] == after["extra"] == 1, before
        assert [each["op"] for each in before["planned"]] == ["INSERT"], before
        assert len(before["notHeld"]) == len(after["notHeld"]) == 1
    sent = [json.loads(each.value() or b"") for each in messages(shop.addresses.kafka, shop.name)]
    assert {each["type"] for each in sent} == {"INSERT"}
    assert {each["table"] for each in sent} == UNHELD.keys()


def test_a_repair_locks_no_row_for_long_where_the_fetch_task_is_behind(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "HOLD_SECONDS", 0.5)
    shop.create("orders", "id INT PRIMARY KEY, n INT")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 1)")
    shop.postgresql(f"INSERT INTO {shop.name}.orders VALUES (7, 1)")
    shop.cursor.execute("SET innodb_lock_wait_timeout = 1")
    held: list[str] = []
    wait = repair._wait

    def look(*_: object) -> bool:
        """While it is waited for, nobody may change a row, nor bring one that is not there."""
        for statement in (
            "UPDATE orders SET n = 2 WHERE id = 1",
            "INSERT INTO orders VALUES (7, 7)",
        ):
            with pytest.raises(OperationalError, match="Lock wait timeout"):
                shop.cursor.execute(statement)
            held.append(statement)
        return False

    def patched(lag: Lag, moment: Any, side: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Lag, "is_published", look)
            wait(lag, moment, side)

    monkeypatch.setattr(repair, "_wait", patched)
    found = verify_still(shop, "postgresql", "--repair", "--yes")
    assert (found.code, len(held)) == (2, 2)
    assert "has not published" in found.output
    shop.cursor.execute("UPDATE orders SET n = 2 WHERE id = 1")


@pytest.mark.parametrize("moment", ["_refuse_engine", "_wait"])
def test_a_repair_stops_where_the_table_was_altered_since_it_was_compared(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before the first rows are locked, or right after they were sent: DDL waits for the locks."""
    shop.create("orders", "id INT PRIMARY KEY, n INT")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 1)")
    source = source_of(shop)
    alter = f"ALTER TABLE {shop.name}.orders RENAME COLUMN n TO m"
    altering: list[threading.Thread] = []

    def run() -> None:
        with MysqlConnection(
            host=source.host, port=source.port, user=source.user, password=source.password
        ) as connection:
            connection.cursor().execute(alter)

    def begin(*_: object) -> None:
        thread = threading.Thread(target=run)
        thread.start()
        altering.append(thread)
        if moment == "_refuse_engine":
            thread.join()
        else:
            wait_until(is_waiting, "the DDL to wait for the locks")

    def is_waiting() -> bool:
        shop.cursor.execute(
            "SELECT COUNT(*) FROM information_schema.processlist "
            "WHERE info = %s AND state LIKE 'Waiting for table metadata lock'",
            (alter,),
        )
        return bool(shop.cursor.fetchall()[0][0])

    monkeypatch.setattr(repair, moment, begin)
    found = verify_still(shop, "postgresql", "--repair", "--yes")
    [thread] = altering
    thread.join()
    assert found.code == 2
    assert f"source table {shop.name}.orders has been altered since it was compared" in found.output
