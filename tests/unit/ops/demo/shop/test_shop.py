"""The demo's changes: the same for a seed, and never a row that is not as they think."""

from __future__ import annotations

import re
from collections import Counter

from cdcbus.ops.demo.shop.schema import TABLES, mariadb_ddl, postgresql_ddl
from cdcbus.ops.demo.shop.shop import AISLES, DEEDS, PLACES, Shop, Transaction
from cdcbus.ops.demo.shop.values import Statement

COLUMNS = {table.name: [column.name for column in table.columns] for table in TABLES}


def transactions(seed: int, count: int) -> list[Transaction]:
    shop = Shop(seed)
    return [*shop.opening(), *(shop.next() for _ in range(count))]


def statements(seed: int, count: int) -> list[Statement]:
    return [
        statement
        for transaction in transactions(seed, count)
        if not transaction.is_undone
        for statement in transaction.statements
    ]


def test_the_same_seed_gives_the_same_changes() -> None:
    assert transactions(7, 500) == transactions(7, 500)
    assert transactions(7, 50) != transactions(8, 50)


def test_every_deed_happens_and_only_a_regretted_one_is_undone() -> None:
    undone = [transaction for transaction in transactions(1, 5000) if transaction.is_undone]
    assert 0 < len(undone) < 100
    assert all(hasattr(Shop, deed) for deed in DEEDS)


def test_statements_name_known_tables_and_columns() -> None:
    for text, values in statements(2, 3000):
        assert text.count("%s") == len(values)
        found = re.search(r"(?:INTO|UPDATE|FROM) shop\.(\w+)", text)
        assert found
        if inserted := re.match(r"INSERT INTO \S+ \(([^)]*)\)", text):
            assert inserted[1].split(", ") == COLUMNS[found[1]]


def test_a_place_on_the_shelf_is_held_by_one_thing_at_any_time() -> None:
    held: dict[object, tuple[object, object]] = {}
    for text, values in statements(3, 4000):
        if text.startswith("INSERT INTO shop.shelf_places"):
            id, aisle, place, _ = values
            held[id] = aisle, place
        elif text.startswith("UPDATE shop.shelf_places"):
            place, id = values
            held[id] = held[id][0], place
        elif text.startswith("DELETE FROM shop.shelf_places"):
            del held[values[0]]
        assert not held or max(Counter(held.values()).values()) == 1
    assert len(held) == len(AISLES) * PLACES


def test_keys_of_products_and_customers_are_given_once() -> None:
    for table, seed in (("products", 4), ("customers", 5)):
        held: set[object] = set()
        for text, values in statements(seed, 4000):
            if text.startswith(f"INSERT INTO shop.{table}"):
                assert values[0] not in held
                held.add(values[0])
            elif text.startswith(f"DELETE FROM shop.{table}"):
                held.remove(values[0])
            elif text.startswith("UPDATE shop.products SET sku") and table == "products":
                held.remove(values[1])
                held.add(values[0])


def test_each_server_gets_every_table_with_its_own_types() -> None:
    mariadb, postgresql = "\n".join(mariadb_ddl()), "\n".join(postgresql_ddl())
    for table in TABLES:
        assert f"CREATE TABLE {table} (" in mariadb
        assert f"CREATE TABLE {table} (" in postgresql
    assert "UNIQUE (aisle, place)" in mariadb
    assert "UNIQUE (aisle, place)" in postgresql
    assert "CREATE TYPE shop.tier AS ENUM('bronze', 'silver', 'gold')" in postgresql
    assert "jsonb" in postgresql and "jsonb" not in mariadb
