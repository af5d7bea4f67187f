"""A repair's record has the key and the cells of the fetch task's own record of that row."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from cdcbus.tasks.verify.lag import Lag
from tests.integration.producer.running import messages
from tests.integration.tasks.verify.verifying import source_of, verify_still
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.source]


class KeyType(NamedTuple):
    """Types of a key at a source and in PostgreSQL; two cells, as SQL of the source, and the first
    of them as SQL of PostgreSQL."""

    mysql: str
    postgresql: str
    cells: tuple[str, str]
    in_postgresql: str


def same(mysql: str, postgresql: str, *cells: str) -> KeyType:
    first, second = cells
    return KeyType(mysql, postgresql, (first, second), first)


KEY_TYPES = {
    "tiny": same("TINYINT", "numeric", "-7", "5"),
    "flag": KeyType("TINYINT(1)", "boolean", ("1", "0"), "true"),
    "small": same("SMALLINT UNSIGNED", "integer", "65535", "0"),
    "filled": same("INT(8) UNSIGNED ZEROFILL", "numeric", "42", "7"),
    "big": same("BIGINT UNSIGNED", "numeric(20)", "18446744073709551615", "1"),
    "deci": same("DECIMAL(10,2)", "numeric", "1.5", "-0.25"),
    "whole": same("DECIMAL(9)", "numeric(12,2)", "-12", "3"),
    "bits": KeyType("BIT(10)", "bit(10)", ("b'101'", "b'11'"), "B'0000000101'"),
    "never": KeyType("YEAR", "smallint", ("0", "1901"), "0"),
    "yeary": same("YEAR", "smallint", "2024", "2155"),
    "dates": same("DATE", "date", "'0001-02-03'", "'2024-02-29'"),
    "atsec": same("DATETIME", "timestamp", "'2024-01-01 00:00:00'", "'9999-12-31 23:59:59'"),
    "atmil": same("DATETIME(3)", "timestamp", "'2024-01-01 00:00:00.5'", "'1000-01-01 00:00:00'"),
    "atmic": same(
        "DATETIME(6)", "timestamp(6)", "'2024-01-01 01:02:03.000010'", "'2024-01-01 00:00:00'"
    ),
    "stamp": KeyType(
        "TIMESTAMP(2)",
        "timestamptz",
        (
            "CONVERT_TZ('2024-07-01 12:00:00.1', '+00:00', @@time_zone)",
            "CONVERT_TZ('2024-07-01 12:00:00', '+00:00', @@time_zone)",
        ),
        "'2024-07-01 12:00:00.1+00'",
    ),
    "clock": same("TIME", "interval", "'-101:02:03'", "'00:00:00'"),
    "clofr": same("TIME(1)", "interval", "'838:59:58.5'", "'-00:00:00.1'"),
    "chars": same("CHAR(6)", "char(6)", "'a b'", "'ä'"),
    "texts": same("VARCHAR(20)", "text", "'Größe 😀_ '", "'null'"),
    "latin": same("VARCHAR(20) CHARACTER SET latin1", "varchar(20)", "'é€'", "''"),
    "bytes": KeyType("BINARY(4)", "bytea", ("x'00ff'", "x'e4'"), "'\\x00ff0000'"),
    "varby": KeyType("VARBINARY(4)", "bytea", ("x'00ff'", "''"), "'\\x00ff'"),
    "label": same("ENUM('a','B','c d','it''s')", "text", "'it''s'", "'B'"),
    "several": same("SET('x','y','z')", "text", "'x,z'", "''"),
}
MARIADB_TYPES = {
    "uuids": same("UUID", "uuid", f"'{'AB' * 4}-cdef-1234-5678-{'0f' * 6}'", f"'{'1' * 32}'"),
    "inetf": same("INET4", "text", "'10.0.0.1'", "'255.255.255.255'"),
    "inets": same("INET6", "text", "'2001:db8::1:0:0:1'", "'::ffff:192.0.2.1'"),
}
AT_MYSQL_ONLY = {
    "floats": same("FLOAT", "real", "0.1", "-3e38"),
    "doubles": same("DOUBLE", "double precision", "0.30000000000000004", "1e22"),
}


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_repairs_record_is_that_of_the_fetch_task(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """One row of each table is only at the target, so its delete is sent; another one only at the
    source."""
    # No consumer task runs: what differs stays so.
    monkeypatch.setattr(Lag, "has_passed", lambda *_: True)
    types = dict(KEY_TYPES)
    shop.cursor.execute("SELECT VERSION()")
    if "MariaDB" in shop.cursor.fetchall()[0][0]:
        types |= MARIADB_TYPES
    if target == "mariadb":
        types |= AT_MYSQL_ONLY
    for name, each in types.items():
        shop.create(
            name, f"k {each.mysql} PRIMARY KEY, v INT", f"k {each.postgresql} PRIMARY KEY, v INT"
        )
    fetch = shop.fetch(source_of(shop))
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    shop.cursor.execute("SET sql_mode = ''")
    for name, each in types.items():
        first, second = each.cells
        shop.cursor.execute(f"INSERT INTO {name} VALUES ({first}, 1), ({second}, 2)")
        there = each.in_postgresql if target == "postgresql" else first
        run: Any = shop.postgresql if target == "postgresql" else shop.mariadb
        run(f"INSERT INTO {shop.name}.{name} VALUES ({there}, 1)")
    wait_until(lambda: sum(shop.ends().values()) == 2 * len(types), "the records")
    fetch.kill()
    for name in types:
        shop.cursor.execute(f"DELETE FROM {name} WHERE v = 1")
    own = records(shop)
    found = verify_still(shop, target, "--repair", "--yes", patience="3")
    assert found.code == 1, found.output
    assert {each["table"]: each.get("notRepaired") for each in found.tables} == {
        f"{shop.name}.{name}": None for name in types
    }
    sent = records(shop, skipped=2 * len(types))
    for name in types:
        for number, op in (("1", "DELETE"), ("2", "INSERT")):
            wanted = own[name, "INSERT", number]
            # A delete has only the key.
            again = sent[name, op, number if op == "INSERT" else None]
            assert again.at == wanted.at, name
            assert again.record["data"][0]["k"] == wanted.record["data"][0]["k"], name
            if op == "INSERT":
                for part in ("data", "sqlType", "pkNames"):
                    assert again.record[part] == wanted.record[part], name


class Sent(NamedTuple):
    """A record, and its key and partition."""

    record: dict[str, Any]
    at: tuple[bytes | None, int | None]


def records(shop: Shop, skipped: int = 0) -> dict[tuple[str, str, str | None], Sent]:
    """By table, operation and the cell `v`. `skipped`: so many were there before."""
    found: list[tuple[int, Any, Sent]] = []
    for message in messages(shop.addresses.kafka, shop.name):
        record = json.loads(message.value() or b"{}")
        sent = Sent(record, (message.key(), message.partition()))
        # A fetch task's records have an epoch, a repair's have none.
        found.append((int("epoch" not in record), record, sent))
    wanted = int(skipped > 0)
    return {
        (record["table"], record["type"], record["data"][0].get("v")): sent
        for kind, record, sent in found
        if kind == wanted
    }
