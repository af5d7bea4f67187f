"""Rows are looked up by their keys on real servers, whatever the keys' type."""

from __future__ import annotations

import pytest

from cdcbus.tasks.verify import scan
from tests.integration.tasks.verify.text_columns import NOPAD, exact
from tests.integration.tasks.verify.verifying import both, verify_still
from tests.support.changes.shop import Shop

pytestmark = [pytest.mark.integration, pytest.mark.source]
PARTITIONS = 1


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_keys_of_texts_are_told_apart_to_the_last_blank(shop: Shop, target: str) -> None:
    columns = "name VARCHAR(20) {}, day DATE, n INT, PRIMARY KEY (name, day)"
    shop.cursor.execute(f"CREATE TABLE names ({columns.format(exact(shop))})")
    both(shop, target)(
        f"CREATE TABLE {shop.name}.names ({columns.format(NOPAD if target == 'mariadb' else '')})"
    )
    names = ["a", "A", "a ", "é", "e", "ß", "ss", "😀", ""]
    rows = ", ".join(f"('{name}', '2024-01-01', {n})" for n, name in enumerate(names))
    shop.cursor.execute(f"INSERT INTO names VALUES {rows}")
    run = both(shop, target)
    run(f"INSERT INTO {shop.name}.names VALUES {rows}")
    equal = verify_still(shop, target)
    assert (equal.code, equal.table["way"]) == (0, "buckets"), equal.output
    run(f"DELETE FROM {shop.name}.names WHERE n IN (1, 2)")
    run(f"UPDATE {shop.name}.names SET n = 40 WHERE n = 4")
    run(f"INSERT INTO {shop.name}.names VALUES ('É', '2024-01-01', 3)")
    found = verify_still(shop, target)
    examples = {(each["kind"], each["key"]["name"]) for each in found.table["examples"]}
    assert examples == {("missing", "A"), ("missing", "a "), ("different", "e"), ("extra", "É")}
    assert found.code == 1


KEYS = {
    "FLOAT": ("real", ["0.1", "7", "3.4e38", "-2.5e-9"]),
    "DOUBLE": ("double precision", ["0.1", "7", "1e22", "-2.5e-9"]),
    "TIME(6)": ("interval", ["'-25:00:00'", "'00:00:07'", "'838:59:59'", "'01:00:00.5'"]),
    "TIME(1)": ("timetz", ["'01:00:00.5'", "'00:00:07'", "'23:59:59.9'", "'00:00:00'"]),
    "TIME": ("time", ["'01:00:00'", "'00:00:07'", "'23:59:59'", "'00:00:00'"]),
    "BIT(9)": ("bit(9)", ["b'000000000'", "b'000000111'", "b'000001000'", "b'111111111'"]),
    "BIT(10)": ("varbit", ["b'0'", "b'111'", "b'1000'", "b'1111111111'"]),
    "YEAR": ("smallint", ["0", "2024", "1901", "2155"]),
    "DECIMAL(9,3)": ("numeric(9,3)", ["0", "0.1", "-7", "7.125"]),
}


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
@pytest.mark.parametrize("type_", KEYS)
def test_rows_are_looked_up_by_keys_of_any_type(shop: Shop, target: str, type_: str) -> None:
    theirs, cells = KEYS[type_]
    run = both(shop, target)
    for write, kind in (
        (shop.cursor.execute, type_),
        (run, theirs if target == "postgresql" else type_),
    ):
        write(f"CREATE TABLE {shop.name}.keyed (k {kind} PRIMARY KEY, n INT)")
        rows = ", ".join(f"({cell}, {number})" for number, cell in enumerate(cells))
        write(f"INSERT INTO {shop.name}.keyed VALUES {rows}")
    equal = verify_still(shop, target)
    assert equal.code == 0, equal.output
    run(f"UPDATE {shop.name}.keyed SET n = 9 WHERE n = 0")
    run(f"DELETE FROM {shop.name}.keyed WHERE n = 2")
    shop.cursor.execute("DELETE FROM keyed WHERE n IN (1, 3)")
    found = verify_still(shop, target).table
    assert (found["different"], found["missing"], found["extra"]) == (1, 1, 2), found


def test_a_key_that_is_true_or_false_at_the_target_is_looked_up(shop: Shop) -> None:
    shop.create(
        "flags",
        "id INT, flag TINYINT(1), n INT, PRIMARY KEY (id, flag)",
        "id int, flag boolean, n int, PRIMARY KEY (id, flag)",
    )
    shop.cursor.execute("INSERT INTO flags VALUES (1, 1, 1), (1, 0, 2)")
    shop.postgresql(
        f"INSERT INTO {shop.name}.flags VALUES (1, true, 3), (1, false, 2), (2, true, 4)"
    )
    found = verify_still(shop, "postgresql").table
    assert (found["different"], found["missing"], found["extra"]) == (1, 0, 1), found


def test_a_key_that_the_source_cannot_even_hold_is_extra(shop: Shop) -> None:
    """Its column has no such text, and the server refuses to compare it with one."""
    for name, key in (("one", "k"), ("two", "k, n")):
        shop.cursor.execute(
            f"CREATE TABLE {name} (k VARCHAR(9) CHARACTER SET latin1, n INT, PRIMARY KEY ({key}))"
        )
        shop.postgresql(f"CREATE TABLE {shop.name}.{name} (k text, n int, PRIMARY KEY ({key}))")
        shop.cursor.execute(f"INSERT INTO {name} VALUES ('ä', 1), ('ß', 2), ('?', 3)")
        shop.postgresql(
            f"INSERT INTO {shop.name}.{name} VALUES ('ä', 1), ('ß', 5), ('?', 3), ('漢', 3)"
        )
    found = verify_still(shop, "postgresql")
    assert found.code == 1, found.output
    counts = {
        each["table"].partition(".")[2]: (each["extra"], each["missing"], each["different"])
        for each in found.tables
    }
    assert counts == {"one": (1, 0, 1), "two": (2, 1, 0)}


ODD = {
    "DECIMAL(9,2)": ("numeric", ["'NaN'", "'Infinity'"]),
    "DATE": ("date", ["'infinity'", "'0044-03-15 BC'", "'10000-01-01'"]),
    "DATETIME(3)": ("timestamp", ["'-infinity'", "'0044-03-15 12:00:00 BC'"]),
    "TIMESTAMP": ("timestamptz", ["'infinity'"]),
    "TIME": ("interval", ["'1 mon'", "'900 days'"]),
}


@pytest.mark.parametrize("type_", ODD)
def test_rows_with_keys_that_only_postgresql_has_are_extra(shop: Shop, type_: str) -> None:
    theirs, cells = ODD[type_]
    shop.cursor.execute(f"CREATE TABLE odd (k {type_} PRIMARY KEY, n INT)")
    shop.postgresql(f"CREATE TABLE {shop.name}.odd (k {theirs} PRIMARY KEY, n INT)")
    for number, cell in enumerate(cells):
        shop.postgresql(f"INSERT INTO {shop.name}.odd VALUES ({cell}, {number})")
    found = verify_still(shop, "postgresql")
    assert (found.code, found.table["extra"]) == (1, len(cells)), found.output
    planned = verify_still(shop, "postgresql", "--repair", "--dry-run")
    assert "planned" not in planned.table, planned.output


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_rows_with_null_in_the_sources_key_are_extra(
    shop: Shop, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the table has more than one chunk."""
    monkeypatch.setattr(scan, "CHUNK_ROWS", 2)
    monkeypatch.setattr(scan, "LEAST_ROWS", 2)
    run = both(shop, target)
    shop.cursor.execute("CREATE TABLE loose (a INT, b INT, n INT, PRIMARY KEY (a, b))")
    run(f"CREATE TABLE {shop.name}.loose (a INT, b INT, n INT)")
    rows = ", ".join(f"({number}, {number}, 0)" for number in range(9))
    shop.cursor.execute(f"INSERT INTO loose VALUES {rows}")
    run(f"INSERT INTO {shop.name}.loose VALUES {rows}")
    equal = verify_still(shop, target)
    assert (equal.code, equal.table["result"]) == (0, "equal"), equal.output
    run(f"INSERT INTO {shop.name}.loose VALUES (NULL, 1, 0), (3, NULL, 0), (NULL, NULL, 0)")
    found = verify_still(shop, target)
    assert (found.code, found.table["extra"]) == (1, 3), found.output
