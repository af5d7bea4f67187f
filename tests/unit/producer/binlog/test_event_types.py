"""Which statements in a binlog change rows, and which only look like it."""

from __future__ import annotations

import pytest

from cdcbus.producer.binlog.event_types import CREATE_TABLE, INSIDE, ROLLBACK_TO, ROW_STATEMENT
from cdcbus.producer.ddl.named_tables import fills_table
from cdcbus.producer.ddl.tokens import NO_BACKSLASH_ESCAPES, Session

PLAIN = Session()


def creates_rows(sql: bytes, session: Session = PLAIN) -> bool:
    return CREATE_TABLE.match(sql) is not None and fills_table(sql, session)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "/*!50000 INSERT INTO t VALUES (1) */",
        "/*M!100000 REPLACE INTO t VALUES (1) */",
        "/*M!999999\\- a */ INSERT INTO t VALUES (1)",
        "/* a */ /*!50000 insert */ INTO t VALUES (1)",
        "# a\n-- b\nDELETE FROM t",
        "--\n-- a\n--\nDELETE FROM t",
        "--\t\n#\n/**/DELETE FROM t",
        "SET STATEMENT a = 1 FOR UPDATE t SET n = 1",
        "SET/* a */STATEMENT a = 'x for y'\nFOR--\nUPDATE t SET n = 1",
        "SET STATEMENT sql_mode = 'it\\'s' FOR INSERT INTO t VALUES ('a')",
        "SET STATEMENT a = 'b\\' FOR INSERT INTO t VALUES ('a')",
        "SET STATEMENT a = 1 /* don't */ FOR INSERT INTO t VALUES (1)",
        "SET STATEMENT a = 1 -- don't\n FOR INSERT INTO t VALUES (1)",
        "SET STATEMENT a = `b'c` FOR DELETE FROM t",
        "SET STATEMENT a = @for FOR INSERT INTO t VALUES (1)",
        "SET STATEMENT a = 1 FOR SET STATEMENT b = 2 FOR DELETE FROM t",
        "ANALYZE UPDATE t SET n = 1",
        "ANALYZE/* a */FORMAT = 'json'/* b */UPDATE t SET n = 1",
        "ANALYZE FORMAT = JSON DELETE FROM t",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "DO f(1)",
        "LOAD DATA INFILE 'x' INTO TABLE t",
    ],
)
def test_a_statement_that_changes_rows(sql: str) -> None:
    assert ROW_STATEMENT.match(sql.encode())


@pytest.mark.parametrize("blank", [b"\xa0", b"\xff", b"\xc2\xa0"])
@pytest.mark.parametrize(
    "sql",
    [
        b"/* a */~INSERT INTO t VALUES (1)",
        b"~DELETE FROM t",
        b"/*!50001~INSERT INTO t VALUES (1)*/",
        b"SET~STATEMENT a = 1 FOR~UPDATE t SET n = 1",
        b"ANALYZE~FORMAT~=~json~DELETE FROM t",
        b"--~a\nDELETE FROM t",
    ],
)
def test_a_no_break_space_is_a_blank(sql: bytes, blank: bytes) -> None:
    assert ROW_STATEMENT.match(sql.replace(b"~", blank))


@pytest.mark.parametrize("blank", [b"\xa0", b"\xff", b"\xc2\xa0"])
def test_a_no_break_space_is_a_blank_before_and_within_create_table(blank: bytes) -> None:
    sql = b"~CREATE~OR~REPLACE~TABLE x SELECT 1"
    assert CREATE_TABLE.match(sql.replace(b"~", blank))


@pytest.mark.parametrize(
    ("blank", "is_exact"),
    [
        pytest.param(b"\xa0", False, id="latin1"),
        pytest.param(b"\xff", False, id="cp852"),
        pytest.param(b"\xa0", True, id="not as it says"),
        pytest.param(b"\xc2\xa0", True, id="utf8"),
    ],
)
@pytest.mark.parametrize("rows", [b"TABLE t", b"SELECT 1", b"VALUES~ROW(1)"])
def test_a_no_break_space_may_be_a_blank_before_what_a_table_is_made_with(
    blank: bytes, rows: bytes, *, is_exact: bool
) -> None:
    session = Session(is_exact=is_exact)
    assert creates_rows((b"CREATE TABLE x~" + rows).replace(b"~", blank), session)
    assert creates_rows(b"CREATE TABLE " + blank + b"x " + rows.replace(b"~", b" "), session)
    of_a_text = b"CREATE TABLE x~(n INT COMMENT 'a table~of values') PARTITION BY HASH (n)"
    assert not creates_rows(of_a_text.replace(b"~", blank), session)


def test_a_table_in_a_text_that_does_not_end_may_be_made_with_rows() -> None:
    assert creates_rows(b"CREATE TABLE x TABLE t /* a")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE x SELECT * FROM t",
        "create or replace table if not exists x (n int) as (select 1 AS n)",
        "CREATE TABLE x AS VALUES ROW(1), ROW(2)",
        "CREATE TABLE x (n INT) TABLE t",
        "CREATE TABLE x WITH y AS (SELECT 1) SELECT * FROM y",
        "CREATE/* a */TABLE x SELECT 1",
        "/*!50000 CREATE */ -- a\n--\nOR /*!50000 REPLACE */\nTABLE x SELECT 1",
        "/* SELECT */ CREATE TABLE `a``b` /*!50100 ENGINE=InnoDB */ COMMENT 'it''s' SELECT 1",
    ],
)
def test_a_table_that_is_made_with_rows(sql: str) -> None:
    assert creates_rows(sql.encode())


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE x (n INT COMMENT 'SELECT')",
        'CREATE TABLE `select` (`table` INT, "values" INT)',
        "CREATE TABLE x (n INT) /* SELECT 1 */",
        "CREATE TABLE x (n INT) -- SELECT 1",
        "CREATE TABLE x (n INT DEFAULT 1) TABLESPACE ts START TRANSACTION",
        "CREATE TABLE x (n INT) PARTITION BY RANGE (n) (PARTITION a VALUES LESS THAN (1), "
        "PARTITION b VALUES IN (1))",
        "CREATE TABLE x LIKE t",
        "SET STATEMENT a = 'for INSERT' FOR ALTER TABLE t ADD n INT",
        "CREATE /* TABLE */ VIEW x AS SELECT 1",
        "--\n-- INSERT INTO t VALUES (1)\nDROP TABLE t",
        "/* INSERT INTO t VALUES (1) */ DROP TABLE t",
        "CREATE TEMPORARY TABLE x SELECT * FROM t",
        "CREATE VIEW x AS SELECT * FROM t",
        "CREATE PROCEDURE p() INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD n INT",
        "DROP TABLE t",
        "ANALYZE TABLE t",
    ],
)
def test_a_statement_that_changes_no_rows_of_a_table_that_stays(sql: str) -> None:
    assert not creates_rows(sql.encode())
    assert not ROW_STATEMENT.match(sql.encode())


@pytest.mark.parametrize(
    "comment",
    [
        "/* a line of a head */\n",
        "/*\n*/",
        "-- a\n",
        "--\n",
        "/*M! a */",
        "/*M!*/",
        "/*M!100 */ ",
        "/*M! ",
        "/*! */",
        "SET STATEMENT a = 'b' FOR ",
        "SET STATEMENT a = 'b",
    ],
)
@pytest.mark.parametrize("statement", ["ALTER TABLE t ADD n INT", "CREATE VIEW x AS SELECT 1"])
def test_many_comments_before_a_statement_take_no_time(comment: str, statement: str) -> None:
    sql = (2000 * comment + statement).encode()
    assert not ROW_STATEMENT.match(sql)
    assert not CREATE_TABLE.match(sql)


@pytest.mark.parametrize("sql", [b"SAVEPOINT `s`", b"RELEASE SAVEPOINT s", b"XA END X'78',X'',1"])
def test_a_statement_inside_a_transaction_is_no_ddl(sql: bytes) -> None:
    assert INSIDE.fullmatch(sql)


@pytest.mark.parametrize(
    "sql", [b"ROLLBACK TO `s`", b"rollback work to s", b"ROLLBACK TO SAVEPOINT s"]
)
def test_a_rollback_to_a_savepoint(sql: bytes) -> None:
    assert ROLLBACK_TO.fullmatch(sql)


def test_a_comment_that_ends_in_a_backslash_ends_where_the_session_says() -> None:
    sql = rb"CREATE TABLE x (n INT COMMENT 'a\', m INT COMMENT 'SELECT')"
    assert not creates_rows(sql, Session(NO_BACKSLASH_ESCAPES))
    assert creates_rows(sql.replace(b"'SELECT')", b"b') SELECT 1"), Session(NO_BACKSLASH_ESCAPES))
