"""The SQL of chunks: each key is in one of them, and nothing but a literal gets into a bound."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.producer.snapshot.chunks import (
    LEAST_ROWS,
    MOST_ROWS,
    Key,
    KeyColumn,
    KeyKind,
    beyond,
    checked,
    is_one_condition,
    last_key,
    literal,
    page,
    rows_for,
    up_to,
)

ID = KeyColumn("id", KeyKind.NUMBER)
NAME = KeyColumn("na`me", KeyKind.TEXT, "gbk")
DAY = KeyColumn("day", KeyKind.QUOTED)
COLUMNS = tuple(KeyColumn(name, KeyKind.NUMBER) for name in "abc")
numbers = st.integers(-3, 3)
keys = st.lists(st.tuples(numbers, numbers, numbers), unique=True, max_size=30)


@given(keys, st.tuples(numbers, numbers, numbers), st.integers(1, 3))
def test_a_bound_parts_keys_as_comparing_them_column_by_column_does(
    rows: list[tuple[int, int, int]], bound: tuple[int, int, int], width: int
) -> None:
    columns, values = COLUMNS[:width], tuple(map(str, bound[:width]))
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)

        def found(condition: str) -> list[tuple[int, ...]]:
            return sorted(database.execute(f"SELECT a, b, c FROM t WHERE {condition}"))

        behind = [row for row in sorted(rows) if row[:width] > bound[:width]]
        assert found(beyond(columns, values)) == behind
        assert found(up_to(columns, values)) == sorted({*rows} - {*behind})


def test_values_are_written_so_that_the_column_alone_says_how_they_compare() -> None:
    assert literal(ID, b"-12") == "-12"
    assert literal(ID, b"1.5e+20") == "1.5e20"
    assert literal(NAME, "é'".encode("gbk")) == "_gbk x'a8a627'"
    assert literal(NAME, b"") == "_gbk x''"
    assert literal(DAY, b"2024-02-29 23:59:59.5") == "'2024-02-29 23:59:59.5'"


@pytest.mark.parametrize("value", [b"", b"1 OR 1", b"1;", "\u0661".encode()])
def test_a_number_is_nothing_but_a_number(value: bytes) -> None:
    with pytest.raises(ValueError):
        literal(ID, value)


@pytest.mark.parametrize(
    ("column", "text"),
    [(ID, "1 OR 1=1"), (ID, "1\n"), (NAME, "'a'"), (NAME, "_gbk x'a'"), (DAY, "'a' OR 'b'")],
)
def test_a_stored_bound_that_is_no_literal_is_refused(column: KeyColumn, text: str) -> None:
    with pytest.raises(ValueError, match="not a bound of column"):
        checked(column, text)


def test_a_page_is_a_range_of_the_keys_index() -> None:
    key = Key("PRIMARY", (ID, DAY))
    sql = page("`s`.`t`", ["`id`", "`day`"], key, ("5", "'2024-01-01'"), None, 10, "x OR y")
    assert sql == (
        "SELECT `id`, `day` FROM `s`.`t` FORCE INDEX (`PRIMARY`) WHERE (`id` >= 5 AND ((`id` > 5) "
        "OR (`id` = 5 AND `day` > '2024-01-01'))) AND (x OR y) ORDER BY `id`, `day` LIMIT 10"
    )
    assert last_key("`s`.`t`", ["`id`"], Key("k", (ID,))) == (
        "SELECT `id` FROM `s`.`t` FORCE INDEX (`k`) ORDER BY `id` DESC LIMIT 1"
    )


def test_chunks_grow_by_four_at_most_and_have_so_many_bytes_as_wanted() -> None:
    assert rows_for(8_000_000, 0, 0) == MOST_ROWS
    assert rows_for(8_000_000, 1_000, 1_000_000) == 4_000
    assert rows_for(8_000_000, 4_000, 4_000_000) == 8_000
    assert rows_for(8_000_000, 10, 80_000_000) == LEAST_ROWS


@pytest.mark.parametrize(
    "where", ["id > 5", "(a = 1) OR b IN (2, 3)", "a = ')' AND b = \"(;#\"", "`a)` = 'it''s\\\\'"]
)
def test_a_condition_stays_within_its_parentheses(where: str) -> None:
    assert is_one_condition(where)


@pytest.mark.parametrize(
    "where", ["", " ", "1) OR (1", "(1", "a = '", "1 -- ", "1 #", "1 /* x", "1; DROP TABLE t"]
)
def test_what_ends_the_statement_early_is_no_condition(where: str) -> None:
    """It would read other rows than the chunk's, for ever."""
    assert not is_one_condition(where)
