"""Which definitions a fetch task notes of those that its stream passes."""

from __future__ import annotations

from collections import deque

import pytest

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import Column, Origin, Table, TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import DdlConfig, FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.ddl.tokens import STRICT, Session
from cdcbus.producer.decoding.table import DecodableTable
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.source.row_events import Batch, Rows
from cdcbus.producer.source.seen_ddl import Seen, SeenDdl

ONE = FilterConfig(regexes=(r"s\.a",))


def task(filter_: FilterConfig = ONE, *, definitions: bool = False) -> FetchTask:
    return FetchTask(
        "7",
        "shop",
        SourceConfig((("127.0.0.1", 1),), "u"),
        filter_,
        PublishConfig("127.0.0.1:1", "t", "canalRow"),
        ddl=DdlConfig(definitions=definitions),
    )


def statement(text: str, sql_mode: int = 0) -> Statement:
    end = BinlogCoordinates("bin.1", 500)
    return Statement(end, 7, "s", text.encode(), Session(sql_mode=sql_mode))


def decodable_table(type_: str) -> DecodableTable:
    """Table `a` with a column `C` of this type."""
    return DecodableTable(Table(TableId("s", "a"), (Column("C", type_),), ()), (), ())


def seen(*texts: str, definitions: bool = False, filter_: FilterConfig = ONE) -> list[str]:
    noted = deque[Seen]()
    ddl = tuple(map(statement, texts))
    SeenDdl(task(filter_, definitions=definitions), noted).take(Batch([], None, [], ddl=ddl))
    return [sentence for _, sentence in noted]


def test_tables_of_the_task_are_noted_with_their_place_and_without_the_text() -> None:
    assert seen(
        "ALTER TABLE a ADD c VARCHAR(9) DEFAULT 'secret'",
        "ALTER TABLE other ADD c INT",
        "garbage '",
    ) == ["ALTER of s.a before bin.1:500: seen at the source, not published"]


def test_what_is_sent_is_said_to_be_published() -> None:
    assert seen("TRUNCATE a") == ["TRUNCATE of s.a before bin.1:500: published"]
    assert seen("RENAME TABLE a TO b", definitions=True) == [
        "RENAME of s.b (before: s.a) before bin.1:500: published"
    ]


def test_tables_of_a_session_alone_are_none() -> None:
    assert seen("CREATE TEMPORARY TABLE a (id INT)") == []


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("DROP TABLE a, b", "drops the table, or gives its name other rows"),
        ("ALTER TABLE b EXCHANGE PARTITION p WITH TABLE a", "gives its name other rows"),
        ("ALTER TABLE a TRUNCATE PARTITION p", "deletes some of its rows"),
        ("ALTER TABLE a ADD c VARCHAR(9) DEFAULT 'secret'", "gives its rows other cells"),
        ("ALTER TABLE a MODIFY c INT AS (b + 'secret') STORED", "gives its rows other cells"),
        ("ALTER TABLE a MODIFY c DECIMAL(5,1) DEFAULT 'secret'", "(digits were rounded, texts"),
    ],
)
def test_ddl_that_changes_rows_without_an_event_is_warned_of(
    text: str, effect: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen(text)
    (line,) = caplog.messages
    assert line.startswith("s.a: DDL before bin.1:500 ") and effect in line
    assert "secret" not in line


def test_other_ddl_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    seen("ALTER TABLE a ADD c INT", "DROP TABLE b", "DROP TEMPORARY TABLE a", "TRUNCATE a")
    assert not caplog.messages


INTEGER = "ALTER TABLE a MODIFY c BIGINT"


@pytest.mark.parametrize(
    ("type_", "before", "is_warned_of"),
    [
        ("int unsigned", "DO 1", False),
        ("bit(4)", "ALTER TABLE b MODIFY c DECIMAL(9,2)", False),
        ("decimal(9,2)", "DO 1", True),
        ("double", "DO 1", True),
        ("int", "ALTER TABLE a MODIFY c DECIMAL(9,2)", True),
        ("int", "RENAME TABLE a TO b, b TO a", True),
        ("int", "ALTER TABLE a '", True),
        ("", "DO 1", True),
    ],
)
def test_whole_numbers_are_warned_of_where_the_column_may_have_had_digits(
    type_: str, before: str, caplog: pytest.LogCaptureFixture, *, is_warned_of: bool
) -> None:
    """As far as rows show it, whatever came since."""
    rows = Rows(decodable_table(type_), 0, b"", Origin())
    ddl = SeenDdl(task(), deque())
    if type_:
        ddl.take(Batch([rows], None, []))
    ddl.take(Batch([], None, [], ddl=(statement(before),)))
    ddl.take(Batch([], None, [], ddl=(statement(INTEGER, STRICT),)))
    assert any("digits were rounded" in line for line in caplog.messages[-1:]) == is_warned_of


def test_rows_beside_ddl_say_nothing_of_the_columns_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = Rows(decodable_table("bigint"), 0, b"", Origin())
    SeenDdl(task(), deque()).take(Batch([rows], None, [], ddl=(statement(INTEGER, STRICT),)))
    assert "digits were rounded" in caplog.text


@pytest.mark.parametrize(
    ("filter_", "is_warned_of"),
    [
        (FilterConfig(regexes=(r"s\.a",)), True),
        (FilterConfig(regexes=(r"t\..*",)), False),
    ],
)
def test_a_schema_that_is_dropped_is_warned_of(
    filter_: FilterConfig, is_warned_of: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen("DROP DATABASE s", filter_=filter_)
    lines = [line for line in caplog.messages if line.startswith("s.*: DDL before bin.1:500 drops")]
    assert len(lines) == is_warned_of
