"""Which definitions a fetch task notes of those that its stream passes."""

from __future__ import annotations

from collections import deque

import pytest

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import Published
from cdcbus.plugins.rowchange import Column, Origin, Table, TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import DdlConfig, Elsewhere, FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.ddl.tokens import STRICT, Session
from cdcbus.producer.decoding.table import DecodableTable
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.source.row_events import Batch, Rows
from cdcbus.producer.source.seen_ddl import Seen, SeenDdl
from tests.unit.producer.source.test_event_reader import Binlog

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


def statement(text: str, sql_mode: int = STRICT, *, is_exact: bool = True) -> Statement:
    end = BinlogCoordinates("bin.1", 500)
    session = Session(sql_mode=sql_mode, is_exact=is_exact)
    return Statement(end, 7, "s", text.encode(), session)


def rows(*columns: Column, key: tuple[str, ...] = ()) -> Rows:
    """Rows of the table `a`."""
    table = DecodableTable(Table(TableId("s", "a"), columns, key), (), ())
    return Rows(table, 0, b"", Origin())


def seen(*texts: str, definitions: bool = False, filter_: FilterConfig = ONE) -> list[str]:
    noted = deque[Seen]()
    ddl = tuple(map(statement, texts))
    SeenDdl(task(filter_, definitions=definitions), noted).take(Batch([], None, [], ddl=ddl))
    return [sentence for _, sentence in noted]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP TABLE other, a", ["s.a"]),
        ("DROP TABLE IF EXISTS x.a, s.A", ["s.A"]),
        ("RENAME TABLE b TO a, a TO other", ["s.a"]),
        ("RENAME TABLE a TO a_del, a_gho TO a", []),
        ("ALTER TABLE a RENAME TO b", ["s.a"]),
        ("DROP DATABASE s", ["s."]),
        ("DROP DATABASE x", []),
        ("DROP TEMPORARY TABLE a", []),
        ("TRUNCATE a", []),
        ("ALTER TABLE a DROP COLUMN c", []),
    ],
)
def test_the_task_s_tables_that_are_gone_are_named(text: str, expected: list[str]) -> None:
    ddl = SeenDdl(task(), deque())
    assert list(map(str, ddl.take(Batch([], None, [], ddl=(statement(text),))))) == expected


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
        ("ALTER TABLE a MODIFY c DECIMAL(5,1) DEFAULT 'secret'", "(digits rounded, texts"),
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


def warned(ddl: SeenDdl, caplog: pytest.LogCaptureFixture, *texts: str) -> int:
    """How many warnings come with these statements, of which each is in a batch of its own."""
    caplog.clear()
    for text in texts:
        ddl.take(Batch([], None, [], ddl=(statement(text),)))
    return len(caplog.messages)


@pytest.mark.parametrize(
    "action",
    [
        "MODIFY name VARCHAR(40) NOT NULL DEFAULT 'x' COMMENT 'y' AFTER id",
        "MODIFY id BIGINT UNSIGNED AUTO_INCREMENT FIRST",
        "CHANGE ID id BIGINT NOT NULL",
        "MODIFY price DECIMAL(12,2) NULL",
        "MODIFY made DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
        "MODIFY kind ENUM('a','b','c') NOT NULL, ADD c INT, ADD INDEX (c), DROP d",
        "MODIFY note MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    ],
)
def test_daily_changes_of_types_are_not_warned_of(
    action: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor are those that follow before there are rows again."""
    ddl = SeenDdl(task(), deque())
    columns = (
        *(Column("id", "int"), Column("name", "varchar(20)"), Column("price", "decimal(10,2)")),
        *(Column("made", "datetime"), Column("kind", "enum('a','b')"), Column("note", "text")),
    )
    ddl.take(Batch([rows(*columns, key=("id",))], None, []))
    assert (
        warned(ddl, caplog, "ALTER TABLE a ADD x VARCHAR(9) NULL", f"ALTER TABLE a {action}") == 0
    )
    assert warned(ddl, caplog, "ALTER TABLE a MODIFY x VARCHAR(10), RENAME INDEX e TO f") == 0


@pytest.mark.parametrize(
    ("type_", "before", "definition", "is_warned_of"),
    [
        ("int unsigned", "FLUSH TABLES", "BIGINT", False),
        ("bit(4)", "ALTER TABLE b MODIFY c DECIMAL(9,2)", "BIGINT", False),
        ("decimal(9,2)", "FLUSH TABLES", "BIGINT", True),
        ("double", "FLUSH TABLES", "BIGINT", True),
        ("int", "ALTER TABLE a MODIFY c DECIMAL(9,2)", "BIGINT", True),
        ("int", "ALTER TABLE a DROP c, ADD d INT", "BIGINT", True),
        ("int", "ALTER TABLE a DROP c, RENAME COLUMN x TO c", "BIGINT", True),
        ("int", "RENAME TABLE a TO b, b TO a", "BIGINT", True),
        ("int", "DROP TABLE a", "BIGINT", True),
        ("int", "DROP DATABASE s", "BIGINT", True),
        ("int", "DROP DATABASE other", "BIGINT", False),
        ("int", "ALTER TABLE a '", "BIGINT", True),
        ("int", "ALTER TABLE a MODIFY d NEW_TYPE", "BIGINT", True),
        ("int", "RENAME TABLE b TO s.a garbage", "BIGINT", True),
        ("int", "RENAME TABLE b TO d garbage", "BIGINT", False),
        ("int", "CREATE TEMPORARY TABLE a (id INT)", "BIGINT", False),
        ("int", "DROP TEMPORARY TABLE IF EXISTS a", "BIGINT", False),
        ("int", "CREATE TABLE IF NOT EXISTS a (c DOUBLE)", "BIGINT", False),
        ("", "FLUSH TABLES", "BIGINT", True),
        ("varchar(100)", "FLUSH TABLES", "VARBINARY(100)", True),
        ("varbinary(100)", "FLUSH TABLES", "VARCHAR(100) CHARACTER SET utf8mb4", True),
        ("binary(3)", "FLUSH TABLES", "BINARY(16)", True),
        ("varchar(9)", "FLUSH TABLES", "CHAR(9)", True),
        ("int", "FLUSH TABLES", "ENUM('a','b')", True),
        ("float", "FLUSH TABLES", "VARCHAR(20)", True),
        ("text", "FLUSH TABLES", "JSON", True),
        ("char(9)", "FLUSH TABLES", "VARCHAR(9)", False),
        ("decimal(9,2)", "ALTER TABLE a CHANGE c d INT, CHANGE d c INT", "BIGINT", False),
    ],
)
def test_a_new_type_is_warned_of_unless_the_column_surely_keeps_its_values(
    type_: str,
    before: str,
    definition: str,
    caplog: pytest.LogCaptureFixture,
    *,
    is_warned_of: bool,
) -> None:
    """As far as rows show it, whatever came since."""
    ddl = SeenDdl(task(), deque())
    if type_:
        ddl.take(Batch([rows(Column("C", type_))], None, []))
    warned(ddl, caplog, before)
    assert warned(ddl, caplog, f"ALTER TABLE a MODIFY c {definition}") == is_warned_of


@pytest.mark.parametrize(
    ("types", "is_warned_of"), [(("enum('é')",), True), (("text", "enum('e')"), False), ((), True)]
)
def test_another_character_set_is_warned_of_where_labels_have_other_letters(
    types: tuple[str, ...], caplog: pytest.LogCaptureFixture, *, is_warned_of: bool
) -> None:
    ddl = SeenDdl(task(), deque())
    if types:
        columns = (Column(f"c{number}", type_) for number, type_ in enumerate(types))
        ddl.take(Batch([rows(*columns)], None, []))
    assert warned(ddl, caplog, "ALTER TABLE a CONVERT TO CHARACTER SET utf8mb4") == is_warned_of


@pytest.mark.parametrize(
    ("key", "is_warned_of"), [(("C",), False), (("id", "c"), False), ((), True)]
)
def test_numbers_that_rows_may_get_are_warned_of_unless_the_column_is_in_the_key(
    key: tuple[str, ...], caplog: pytest.LogCaptureFixture, *, is_warned_of: bool
) -> None:
    """There it had AUTO_INCREMENT mostly, and gets a larger type."""
    ddl = SeenDdl(task(), deque())
    ddl.take(Batch([rows(Column("id", "int"), Column("C", "int"), key=key)], None, []))
    text = "ALTER TABLE a MODIFY c BIGINT AUTO_INCREMENT"
    assert warned(ddl, caplog, text) == is_warned_of


def test_the_case_of_names_counts_as_it_does_at_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for folds_names in (True, False):
        ddl = SeenDdl(task(), deque(), folds_names=folds_names)
        ddl.take(Batch([rows(Column("c", "int"))], None, []))
        assert warned(ddl, caplog, "ALTER TABLE A MODIFY c BIGINT") != folds_names
        warned(ddl, caplog, "RENAME TABLE b TO A garbage")
        assert warned(ddl, caplog, "ALTER TABLE a MODIFY c BIGINT") == folds_names


def test_rows_beside_ddl_say_nothing_of_the_columns_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch = Batch(
        [rows(Column("c", "bigint"))],
        None,
        [],
        ddl=(statement("ALTER TABLE a MODIFY c BIGINT"),),
    )
    SeenDdl(task(), deque()).take(batch)
    assert "digits rounded" in caplog.text


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["published", "from elsewhere"])
def test_what_is_left_out_is_not_told_again_and_followed_all_the_same(
    caplog: pytest.LogCaptureFixture, *, is_elsewhere: bool
) -> None:
    """Each start reads it again while an XA transaction is prepared before it."""
    binlog = Binlog()
    binlog.query(b"ALTER TABLE s.a MODIFY c DECIMAL(9,2)")
    published = None if is_elsewhere else Published("bin.1", binlog.pos)
    elsewhere = Elsewhere(frozenset({7} if is_elsewhere else ()))
    noted = deque[Seen]()
    ddl = SeenDdl(task(), noted)
    ddl.take(Batch([rows(Column("c", "int"))], None, []))
    for batch in binlog.read(published=published, elsewhere=elsewhere):
        ddl.take(batch)
    assert not caplog.messages
    assert not noted
    assert warned(ddl, caplog, "ALTER TABLE a MODIFY c BIGINT") == 1


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


@pytest.mark.parametrize(
    ("text", "subjects"),
    [
        ("ALTER TABLE a ADD c INT NOT NULL DEFAULT 1 COMMENT '数量'", ["s.a"]),
        ("DROP TABLE a, b /* 数 */", ["s.a"]),
        ("DROP TABLE `数`", ["DDL"]),
        ("RENAME TABLE a TO `数`", ["s.a", "DDL"]),
        ("DROP DATABASE s /* 数 */", ["s.*"]),
        ("CREATE OR REPLACE TABLE a (c INT COMMENT '数')", ["s.a"]),
        ("ALTER\u00a0TABLE a ADD c INT DEFAULT 1", ["DDL"]),
        ("ALTER IGNORE TABLE a (数)", ["s.a"]),
        ("DROP TABLE IF EXISTS a garbage /* 数 */", ["DDL"]),
        ("DROP TABLE IF EXISTS s.b garbage /* 数 */", []),
        ("DROP TABLE o.a garbage", []),
        ("ALTER TABLE b ADD c INT DEFAULT 1 COMMENT '数量'", []),
        ("ALTER TABLE o.`数` ADD c INT DEFAULT 1", []),
        ("DROP DATABASE o /* 数 */", []),
        ("CREATE TABLE a (c INT COMMENT '数')", []),
        ("CREATE DATABASE s /* 数 */", []),
        ("CREATE INDEX i ON a (c) COMMENT '数'", []),
        ("DROP TEMPORARY TABLE a /* 数 */", []),
        ("DROP /*!40005 TEMPORARY */ TABLE a /* 数 */", []),
        ("CREATE DEFINER=`u`@`h` PROCEDURE p() BEGIN DROP TABLE a; /* 数 */ END", []),
        ("CREATE PROCEDURE p() BEGIN\u00a0DROP TABLE a; END", []),
        ("CREATE OR REPLACE VIEW v AS SELECT '数'", []),
        ("DROP VIEW `数`", []),
        ("GRANT SELECT ON a TO '数'", []),
        ("CREATE USER '数'", []),
        ("ALTER USER '数' IDENTIFIED BY 'TABLE'", []),
        ("SET PASSWORD FOR '数' = 'x'", []),
        ("ANALYZE TABLE `数`", []),
        ("TRUNCATE TABLE `数`", []),
        ("FLUSH TABLES `数`", []),
    ],
)
def test_a_statement_that_is_not_understood_is_warned_of_where_it_may_change_rows(
    text: str, subjects: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """As with SET NAMES binary, where a byte may be any character."""
    ddl = SeenDdl(task(), deque())
    of_it = statement(text, is_exact=text.isascii() or "\u00a0" in text)
    ddl.take(Batch([], None, [], ddl=(of_it,)))
    assert [line.split()[0].rstrip(":") for line in caplog.messages] == subjects
    assert all("DDL before bin.1:500 " in line for line in caplog.messages)
