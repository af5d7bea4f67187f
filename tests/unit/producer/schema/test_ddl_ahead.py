"""What the DDL ahead of the reader does, without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import PositionLost, SourceUnavailable
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_changes import Change, Renamed, SchemaAltered, SchemaDropped, Unread
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema
from cdcbus.producer.schema import table_search
from cdcbus.producer.schema.ddl_ahead import DdlAhead
from cdcbus.producer.schema.ddl_scanner import DdlScan, Statement
from cdcbus.producer.schema.history import SchemaHistory
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.schema.table_versions import MemorySchemas

TABLES = 300
TEXTS = (
    "ALTER TABLE a ADD c INT",
    "CREATE TABLE b (id INT)",
    "DROP TABLE a, b",
    "RENAME TABLE a TO b, b TO a",
    "ALTER DATABASE s CHARACTER SET latin1",
    "DROP DATABASE s",
    "ALTER TABLE a WHATEVER",
    "RENAME TABLE a WHATEVER",
    "ANALYZE TABLE a",
)


def at(number: int) -> BinlogCoordinates:
    return BinlogCoordinates(f"mysql-bin.{1 + number // 7:06}", 100 * number)


class Binlog:
    """One that is all there; `read` are the ranges that it was asked for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.statements = [
            Statement(at(number + 1), 1, "s", text.encode()) for number, text in enumerate(texts)
        ]
        self.read: list[tuple[BinlogCoordinates, BinlogCoordinates]] = []

    def between(self, after: BinlogCoordinates, until: BinlogCoordinates) -> list[Statement]:
        self.read.append((after, until))
        return [one for one in self.statements if after < one.end <= until]


def read(statement: Statement) -> list[Change]:
    return changes(statement.sql, statement.schema, statement.session)


def tables_of(change: Change) -> list[TableId]:
    return (
        [change.table, change.to]
        if isinstance(change, Renamed)
        else [change.table]
        if hasattr(change, "table")
        else []
    )


@given(
    st.lists(st.sampled_from(TEXTS), max_size=15),
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=8),
)
def test_it_finds_what_lies_between_two_places_in_whatever_order_it_is_asked(
    texts: list[str], asked: list[tuple[int, int]]
) -> None:
    binlog = Binlog(texts)
    ahead = DdlAhead(cast(DdlScan, binlog), read)
    for after, until in asked:
        expected = [one for one in binlog.statements if at(after) < one.end <= at(until)]
        assert [*ahead.between(at(after), at(until))] == expected
        for name in ("a", "b", "c"):
            table = TableId("s", name)
            wanted = [
                one
                for one in expected
                if any(table in tables_of(change) or not tables_of(change) for change in read(one))
            ]
            assert [*ahead.about(table, at(after), at(until))] == wanted
        nameless = [
            one
            for one in expected
            if any(
                isinstance(change, SchemaAltered | SchemaDropped | Unread) for change in read(one)
            )
        ]
        assert [*ahead.about(None, at(after), at(until))] == nameless


class Purged:
    """A scan of a binlog that no longer holds the place."""

    def between(self, after: BinlogCoordinates, until: BinlogCoordinates) -> list[Statement]:
        raise PositionLost(f"{after} is not there")


def test_a_search_that_finds_its_place_purged_says_nothing_of_the_position_of_the_task() -> None:
    """Which `consumer.source.onPositionLost` would replace."""
    ahead = DdlAhead(cast(DdlScan, Purged()), read)
    for search in (ahead.between(at(1), at(2)), ahead.about(None, at(1), at(2))):
        with pytest.raises(SourceUnavailable, match="is not there"):
            list(search)


class Reader:
    """A server with TABLES tables of two columns."""

    folds_names = False

    def end(self) -> BinlogCoordinates:
        return at(TABLES)

    def start(self) -> BinlogCoordinates:
        return at(0)

    def tables(self) -> list[TableId]:
        return [TableId("s", f"t{number}") for number in range(TABLES)]

    def read(self, table: TableId) -> tuple[TableSchema, BinlogCoordinates]:
        return self.read_all([table])[0][table], at(TABLES)

    def read_all(
        self, tables: Sequence[TableId]
    ) -> tuple[dict[TableId, TableSchema], BinlogCoordinates]:
        columns = tuple(TableColumn(name, "int", "", True) for name in ("id", "c"))
        return {table: TableSchema(columns, (), "utf8mb4") for table in tables}, at(TABLES)


def test_a_backlog_that_alters_many_tables_has_each_statement_parsed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The binlog is read once, too."""
    parsed: list[bytes] = []

    def counted(parse: Callable[..., list[Change]]) -> Callable[..., list[Change]]:
        def changes(sql: bytes, *rest: object) -> list[Change]:
            parsed.append(sql)
            return parse(sql, *rest)

        return changes

    monkeypatch.setattr(table_search, "changes", counted(changes))
    binlog = Binlog([f"ALTER TABLE t{number} ADD c INT" for number in range(TABLES)])
    history = SchemaHistory(
        MemorySchemas(),
        cast(SchemaReader, Reader()),
        cast(DdlScan, binlog),
        lambda _: True,
        "here",
        lambda _: 1,
        is_needed=True,
    )
    steps: Iterator[None] = history.begin(at(0))
    assert len([*steps]) > 1  # it can be stopped in between
    for statement in binlog.statements:
        history.follow(statement, at(0))
    assert len(parsed) == TABLES
    assert [span for span in binlog.read if span[0] < span[1]] == [(at(0), at(TABLES))]
