"""Texts of rows on real servers: no two rows have one, and both sides give the same."""

from __future__ import annotations

import math
from itertools import product

import pytest

from cdcbus.plugins.contracts import TargetColumn
from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.tasks.verify.sql.checksums import mysql_row, postgresql_row
from cdcbus.tasks.verify.sql.pairs import pair_of
from tests.integration.tasks.verify.verifying import verify_still
from tests.support.changes.shop import Shop

pytestmark = [pytest.mark.integration, pytest.mark.source]
PARTITIONS = 1


ODD_CELLS = ("a", "a,1", "1,a", ",", "", None, "~", "1", "~,", "0,", "1,~")


def test_no_two_rows_have_one_text_and_both_servers_give_it(shop: Shop) -> None:
    """However their cells are joined."""
    columns = ("a VARCHAR(9)", "n INT", "b VARCHAR(9)")
    shop.create("odd", ", ".join(columns))
    rows = list(product(ODD_CELLS, (None, 1), ODD_CELLS))
    tuples = []
    for row in rows:
        literals = ["NULL" if cell is None else repr(cell) for cell in row]
        tuples.append(f"({', '.join(literals)})")
    written = ", ".join(tuples)
    shop.cursor.execute(f"INSERT INTO odd VALUES {written}")
    shop.postgresql(f"INSERT INTO {shop.name}.odd VALUES {written}")
    pairs = []
    for name, type_ in (column.split() for column in columns):
        source = TableColumn(name, type_.lower(), "utf8mb4" if "CHAR" in type_ else "")
        target = TargetColumn(name, "varchar" if "CHAR" in type_ else "integer")
        found = pair_of(source, name, target, name, "postgresql", "")
        assert found is not None
        pairs.append(found)
    shop.cursor.execute(f"SELECT {mysql_row([pair.source for pair in pairs])} FROM odd")
    own = sorted(bytes(text) for (text,) in shop.cursor.fetchall())
    terms = [pair.target for pair in pairs]
    found_there = shop.postgresql(f"SELECT {postgresql_row(terms)} FROM {shop.name}.odd")
    assert own == sorted(text.encode() for (text,) in found_there or [])
    assert len(set(own)) == len(rows)


def test_rows_of_more_columns_than_a_call_takes_arguments_are_compared(shop: Shop) -> None:
    names = [f"c{number}" for number in range(150)]
    shop.create(
        "wide", ", ".join(["id INT PRIMARY KEY", *(f"{each} VARCHAR(5)" for each in names)])
    )
    full = ", ".join(repr(each) for each in names)
    for write in (shop.cursor.execute, shop.postgresql):
        write(f"INSERT INTO {shop.name}.wide VALUES (1, {full})")
        write(f"INSERT INTO {shop.name}.wide (id, c7) VALUES (2, 'x')")
    equal = verify_still(shop, "postgresql")
    assert (equal.code, equal.table["result"]) == (0, "equal"), equal.output
    shop.postgresql(f"UPDATE {shop.name}.wide SET c149 = 'y' WHERE id = 1")
    different = verify_still(shop, "postgresql")
    assert (different.code, different.table["different"]) == (1, 1), different.output


def test_the_end_of_a_row_counts_though_its_cells_are_longer_than_the_server_expects(
    shop: Shop,
) -> None:
    """A server cuts the texts that it joins at the length that it expects of the columns."""
    tenths = [f"n{number} DECIMAL(1,1)" for number in range(40)]
    types = {
        "small": "id TINYINT PRIMARY KEY, x DOUBLE, y DOUBLE, z FLOAT, last TINYINT",
        "tenths": f"id TINYINT PRIMARY KEY, {', '.join(tenths)}, last TINYINT",
    }
    rows = {
        "small": "(-128, -1.1102230246251565e-15, -1.1102230246251565e-15, -1.2345678e-12, 7)",
        "tenths": f"(-128, {'-0.9, ' * 40}7)",
    }
    for table, row in rows.items():
        for write in (shop.cursor.execute, shop.mariadb):
            write(f"CREATE TABLE {shop.name}.{table} ({types[table]})")
            write(f"INSERT INTO {shop.name}.{table} VALUES {row}")
    equal = verify_still(shop, "mariadb")
    assert equal.code == 0, equal.output
    for table in rows:
        shop.mariadb(f"UPDATE {shop.name}.{table} SET last = 8")
    found = verify_still(shop, "mariadb")
    assert [each["different"] for each in found.tables] == [1, 1], found.output


def test_no_two_doubles_have_one_text(shop: Shop) -> None:
    """MySQL shows the result of an expression with 22 characters at most, and drops digits."""
    doubles = []
    for double in (-1.2345678901234567, -1.2345678901234567e-300, 2.2250738585072014e-308):
        doubles += [double, math.nextafter(double, math.inf)]
    shop.cursor.execute("CREATE TABLE doubles (x DOUBLE)")
    rows = ", ".join(f"({double!r})" for double in doubles)
    shop.cursor.execute(f"INSERT INTO doubles VALUES {rows}")
    pair = pair_of(TableColumn("x", "double"), "x", TargetColumn("x", "double"), "x", "mysql", "")
    assert pair is not None
    shop.cursor.execute(f"SELECT {pair.source.text} FROM doubles")
    assert len(set(shop.cursor.fetchall())) == len(doubles)


def test_the_order_of_members_is_nothing_in_json(shop: Shop) -> None:
    shop.create("docs", "id INT PRIMARY KEY, j JSON", "id INT PRIMARY KEY, j json")
    shop.cursor.execute("""INSERT INTO docs VALUES (1, '{"b": 1.0, "a": [1, 2]}')""")
    shop.postgresql(f"""INSERT INTO {shop.name}.docs VALUES (1, '{{"a":[1,2],"b":1}}')""")
    assert verify_still(shop, "postgresql").table["result"] == "equal"
    shop.postgresql(f"""UPDATE {shop.name}.docs SET j = '{{"a":[2,1],"b":1}}'""")
    assert verify_still(shop, "postgresql").table["different"] == 1


def test_a_narrower_target_is_compared_with_the_whole_cell(shop: Shop) -> None:
    """A text that is cut at the target's width, or a number at its largest, would equal another."""
    shop.create("bits", "id INT PRIMARY KEY, b BIT(8)", "id INT PRIMARY KEY, b bit(2)")
    shop.create(
        "digits",
        "id INT PRIMARY KEY, d DECIMAL(65,0)",
        "id INT PRIMARY KEY, d numeric(95,30)",
    )
    shop.cursor.execute("INSERT INTO bits VALUES (1, b'10'), (2, b'1011')")
    shop.postgresql(f"INSERT INTO {shop.name}.bits VALUES (1, B'10'), (2, B'10')")
    largest = f"{'9' * 35}.{'9' * 30}"
    shop.cursor.execute(f"INSERT INTO digits VALUES (1, 7), (2, 1{'0' * 50})")
    shop.postgresql(f"INSERT INTO {shop.name}.digits VALUES (1, 7), (2, {largest})")
    found = verify_still(shop, "postgresql")
    assert {each["table"].partition(".")[2]: each["different"] for each in found.tables} == {
        "bits": 1,
        "digits": 1,
    }
