"""All that mappers and event processors do to rows, the whole way from the source to both
targets, with few rows and with many."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.integration.consumer.test_run import start_fetch, wait_applied
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
MANY = 1500
SOURCE = (
    "id INT PRIMARY KEY, CUST INT, email VARCHAR(40), phone VARCHAR(20), first VARCHAR(20), "
    "last VARCHAR(20), internal VARCHAR(20)"
)
ORDERS = (
    "shard VARCHAR(20), id INT, customer INT, email VARCHAR(64), phone VARCHAR(4), label "
    "VARCHAR(60), origin VARCHAR(9), "
    "PRIMARY KEY (shard, id)"
)
MAPPER = {
    "mapper[0].table": "orders_[0-9]+,orders",
    "mapper[0].column.cust": "customer",
    "mapper[0].ignore": "internal,first,last",
    "mapper[0].expression.shard": "{@table}",
    "mapper[0].expression.label": "{first} {last:upper}",
    "mapper[0].constant.origin": "web",
    "mapper[0].mask.phone": "truncate:4",
    "mapper[0].mask.email": "hash:salt",
    "mapper[1].table": "orders_[0-9]+,phones",  # the same rows once more
    "mapper[1].include": "phone",
    "mapper[1].expression.place": "{@table}/{id}",
    "mapper[1].mask.phone": "fixed:hidden",
    "mapper[2].table": "orders_3,third",  # its name comes before the pattern
    "mapper[2].include": "id",
    "mapper[3].table": "people,persons",
    "mapper[3].forceMatched": "false",
}
PROCESSOR = """
from dataclasses import replace
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId

AUDIT = {}

def change(row):
    if row.after is None:
        return row
    if row.after["note"] == "test":
        return None
    schema = row.table.id.schema
    audit = AUDIT.setdefault(schema, Table(TableId(schema, "audit"), (Column("id"), Column("note")), ("id",)))
    changed = replace(row, after={**row.after, "note": row.after["note"] + "!"})
    return [changed, RowChange(audit, Op.INSERT, None, {"id": row.after["id"], "note": row.op.lower()}, row.origin)]
"""


def create_at_targets(shop: Shop, table: str, columns: str) -> None:
    shop.mariadb(f"CREATE TABLE {shop.name}.{table} ({columns})")
    shop.postgresql(f"CREATE TABLE {shop.name}.{table} ({columns})")


def at_targets(shop: Shop, table: str) -> list[list[tuple[Any, ...]]]:
    query = f"SELECT * FROM {shop.name}.{table}"
    return [sorted(run(query)) for run in (shop.postgresql, shop.mariadb)]


def test_rows_are_mapped_in_every_way_at_once(shop: Shop) -> None:
    for number in (1, 2, 3):
        shop.cursor.execute(f"CREATE TABLE orders_{number} ({SOURCE})")
    shop.cursor.execute("CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(9), extra INT)")
    create_at_targets(shop, "orders", ORDERS)
    create_at_targets(shop, "phones", "place VARCHAR(40) PRIMARY KEY, phone VARCHAR(9)")
    create_at_targets(shop, "third", "id INT PRIMARY KEY")
    create_at_targets(shop, "persons", "id INT PRIMARY KEY, name VARCHAR(9)")
    fetch = start_fetch(shop)
    loads = [shop.load(target, **MAPPER) for target in ("postgresql", "mariadb")]

    def insert(first: int, last: int) -> None:
        ids = (
            f"WITH RECURSIVE n AS (SELECT {first} AS i UNION ALL SELECT i + 1 FROM n WHERE i < "
            f"{last})"
        )
        for number in (1, 2, 3):
            row = (
                f"i, i + {number}, CONCAT('e', i, '@x'), IF(i = 2, NULL, CONCAT('0301', i)), "
                "'Ada', 'Løvel', 'secret'"
            )
            shop.cursor.execute("SET SESSION max_recursive_iterations = 10000")
            shop.cursor.execute(f"INSERT INTO orders_{number} {ids} SELECT {row} FROM n")
        shop.cursor.execute(f"INSERT INTO people {ids} SELECT i, CONCAT('n', i), i FROM n")

    def expected() -> dict[str, list[tuple[Any, ...]]]:
        found: dict[str, list[tuple[Any, ...]]] = {"orders": [], "phones": []}
        for table in ("orders_1", "orders_2"):
            shop.cursor.execute(f"SELECT id, CUST, email, phone, first, last FROM {table}")
            for id_, customer, email, phone, first, last in shop.cursor.fetchall():
                hashed = sha256(f"salt{email}".encode()).hexdigest()
                found["orders"].append(
                    (
                        table,
                        id_,
                        customer,
                        hashed,
                        phone and phone[:4],
                        f"{first} {last.upper()}",
                        "web",
                    )
                )
                found["phones"].append((f"{table}/{id_}", phone and "hidden"))
        for table, target, columns in (
            ("orders_3", "third", "id"),
            ("people", "persons", "id, name"),
        ):
            shop.cursor.execute(f"SELECT {columns} FROM {table}")
            found[target] = list(shop.cursor.fetchall())
        return {table: sorted(rows) for table, rows in found.items()}

    insert(1, 20)
    for load in loads:
        load.start()
    wait_applied(shop, fetch, *loads)
    insert(21, MANY)  # by columns, and by executors
    shop.cursor.execute("UPDATE orders_1 SET last = 'King', email = 'new' WHERE id % 3 = 0")
    shop.cursor.execute("UPDATE orders_2 SET id = id + 100000 WHERE id % 50 = 7")
    shop.cursor.execute("DELETE FROM orders_1 WHERE id % 4 = 0")
    shop.cursor.execute("UPDATE people SET extra = 0, name = 'x' WHERE id % 2 = 0")
    wait_applied(shop, fetch, *loads)
    for table, rows in expected().items():
        assert len(rows) >= MANY
        assert at_targets(shop, table) == [rows, rows], table
    for load in loads:
        assert "persons lacks columns of" in load.log.read_text()


def test_an_event_processor_changes_leaves_out_and_adds_rows(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.py").write_text(PROCESSOR)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    shop.create("notes", "id INT PRIMARY KEY, note VARCHAR(20)")
    create_at_targets(shop, "audit", "id INT PRIMARY KEY, note VARCHAR(20)")
    fetch = start_fetch(shop)
    loads = [
        shop.load(target, consumer__eventProcessor__className="rules:change")
        for target in ("postgresql", "mariadb")
    ]
    for load in loads:
        load.start()
    shop.cursor.execute("INSERT INTO notes VALUES (1, 'a'), (2, 'test'), (3, 'c')")
    wait_until(
        lambda: [len(rows) for rows in at_targets(shop, "audit")] == [2, 2], "the first rows"
    )
    shop.cursor.execute("UPDATE notes SET note = 'b' WHERE id = 1")
    shop.cursor.execute("DELETE FROM notes WHERE id = 3")
    wait_applied(shop, fetch, *loads)
    assert at_targets(shop, "notes") == [[(1, "b!")]] * 2
    assert at_targets(shop, "audit") == [[(1, "update"), (3, "insert")]] * 2
