"""What the two databases are asked, and how their answers are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.verify import sides
from cdcbus.tasks.verify.sides import SourceSide, TargetSide, charsets_of
from cdcbus.tasks.verify.sql.checksums import Digest, Sums
from cdcbus.tasks.verify.sql.keys import NOTHING
from cdcbus.tasks.verify.subject import Subject
from tests.unit.tasks.verify.two_sides import INT, PG_INT, feed, mapped, subject, target


class Server:
    """A connection of either side that gives the same rows to each question. `asked`: these, and
    BEGIN, END and CLOSE."""

    def __init__(self, *rows: Sequence[Any]) -> None:
        self.rows = rows
        self.asked: list[str] = []
        self.given: list[object] = []
        self.streamed: list[bool] = []
        self.decoders: dict[int, object] | None = {1: int}
        self.dialect = SimpleNamespace(is_mariadb=True)

    # the source's

    def cursor(self) -> Server:
        return self

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, sql: Any, parameters: Any = None) -> Any:
        self.asked.append(str(sql))
        self.given.append(parameters)
        return self.rows

    def fetchall(self) -> Sequence[Sequence[Any]]:
        return self.rows

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return iter(self.rows)

    # the target's

    @contextmanager
    def begin(self) -> Iterator[None]:
        self.asked.append("BEGIN")
        yield
        self.asked.append("END")

    def exec_driver_sql(self, sql: str, execution_options: Any = None) -> Server:
        self.asked.append(sql)
        if execution_options and "stream_results" in execution_options:
            self.streamed.append(execution_options["stream_results"])
        return self

    def close(self) -> None:
        self.asked.append("CLOSE")


@pytest.fixture(autouse=True)
def _streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "SSCursor", lambda connection: connection)


def source(server: Any, what: Subject | None = None, where: str = "1 = 1") -> SourceSide:
    return SourceSide((what or subject()).sources[0], server, where)


class Database:
    """Notes as what a failure would be reported. `is_mysql`: of its driver."""

    def __init__(self) -> None:
        self.named: list[str] = []

    @contextmanager
    def reported(self, what: str) -> Iterator[None]:
        self.named.append(what)
        yield


def at_target(
    server: Any, what: Subject | None = None, where: str = "1 = 1", database: Any = None
) -> TargetSide:
    charsets = {"name": "utf8mb4"}
    asked: Any = database or Database()
    return TargetSide(what or subject(), asked, server, where, charsets)


def in_mysql() -> Subject:
    types = {"id": "int", "name": "varchar"}
    return subject([mapped(INT)], target(types, dialect="mysql"), charsets={"name": "utf8mb4"})


# the source


def test_rows_of_the_source_are_read_as_the_binlog_has_them() -> None:
    server = Server(("1", b"\xc3\xa9"), ("2", None))
    assert list(source(server).rows("`id` > 0")) == [("1", "é"), ("2", None)]
    assert server.asked == [
        "SELECT `id`, CAST(`name` AS BINARY) FROM `shop`.`orders` WHERE (1 = 1) AND `id` > 0"
    ]


def test_rows_that_are_looked_up_again_are_not_narrowed() -> None:
    """A row may have left what --where chooses meanwhile."""
    server = Server()
    side = source(server, where="`name` = 'a' OR 1 = 0")
    list(side.rows("`id` = 1"))
    list(side.rows("`id` = 1", is_narrowed=False))
    narrowed, whole = server.asked
    assert narrowed.endswith("WHERE (`name` = 'a' OR 1 = 0) AND `id` = 1")
    assert whole.endswith("WHERE `id` = 1")


def test_sums_of_the_source_are_numbers_whatever_the_driver_gives() -> None:
    server = Server(("3", "2", "1000"))
    side = source(server, where="`id` > 5 OR `id` < 2")
    assert side.sums(side.table.pairs or (), "`id` < 9") == Sums(3, 2, 1000)
    assert "WHERE (`id` > 5 OR `id` < 2) AND `id` < 9" in server.asked[0]


@pytest.mark.parametrize(("given", "wanted"), [(b"ab", "ab"), ("ab", "ab"), (None, None)])
def test_a_digest_of_the_source_is_a_text_whatever_the_driver_gives(
    given: str | bytes | None, wanted: str | None
) -> None:
    server = Server(("3", given))
    side = source(server, where="a OR b")
    assert side.digest(side.table.pairs or (), "`id` < 9", 40) == Digest(3, wanted)
    assert "WHERE (a OR b) AND `id` < 9" in server.asked[0]


def test_sums_of_the_sources_buckets_come_with_their_numbers() -> None:
    server = Server(("7", "3", "3", "1000"), ("4095", "1", "1", "5"))
    side = source(server)
    found = dict(side.bucket_sums(side.table.pairs or (), side.table.key_pairs or (), "1 = 1"))
    assert found == {7: Sums(3, 3, 1000), 4095: Sums(1, 1, 5)}
    assert server.asked[0].endswith("GROUP BY b")


def test_buckets_are_chosen_by_the_number_that_they_are_summed_up_by() -> None:
    server = Server()
    side = source(server)
    list(side.bucket_sums(side.table.pairs or (), side.table.key_pairs or (), "1 = 1"))
    number = side.in_buckets([3, 5]).removesuffix(" IN (3, 5)")
    assert f"{number} AS b" in server.asked[0]


def test_the_bound_of_a_chunk_is_its_last_key() -> None:
    server = Server(("40",))
    side = source(server)
    assert side.bound(None, 20) == ("40",)
    assert side.bound(("40",), 20) == ("40",)
    first, second = server.asked
    assert first.endswith("WHERE 1 = 1 ORDER BY `id` LIMIT 1 OFFSET 19")
    assert "WHERE `id` > 40 ORDER BY" in second


def test_behind_the_last_chunk_there_is_no_bound() -> None:
    assert source(Server()).bound(("40",), 20) is None


def test_keys_stand_in_sql_as_literals_of_their_types() -> None:
    types = {"id": "varchar(9)", "part": "varbinary(4)", "number": "bigint(20)"}
    theirs = {"id": "text", "part": "bytea", "number": "bigint"}
    key = ("id", "part", "number")
    side = source(Server(), subject([mapped(types, key)], target(theirs, key)))
    assert side.among([("it's", "\x00ÿ", "-7")]) == (
        "((`id` = 'it''s' AND `part` = x'00ff' AND `number` = -7))"
    )


def test_a_key_that_no_row_of_the_source_can_have_is_not_asked_for() -> None:
    """It would be a syntax error at least."""
    side = source(Server())
    assert side.among([("1",), ("1 OR 1 = 1",), (None,)]) == "`id` IN (1)"
    assert side.among([("x",)]) == NOTHING
    assert side.can_spell([("1",), ("2",)])
    assert not side.can_spell([("1",), ("x",)])
    assert not side.can_spell([(None,)])


@pytest.mark.parametrize(
    ("type_", "known", "unknown"),
    [
        ("date", "2024-00-00", "infinity"),
        ("datetime(3)", "0000-00-00 00:00:00.000", "0044-03-15 00:00:00 BC"),
        ("timestamp", "2024-02-29 23:59:59", "10000-01-01 00:00:00"),
        ("time(1)", "-838:59:59.0", "1 mon"),
    ],
)
def test_a_time_that_no_source_has_is_not_asked_for(type_: str, known: str, unknown: str) -> None:
    """MySQL refuses the statement."""
    side = source(Server(), subject([mapped({"id": type_})], target({"id": "text"})))
    assert side.can_spell([(known,)])
    assert not side.can_spell([(unknown,)])


def test_a_text_that_a_columns_character_set_has_not_is_compared_as_a_wider_one() -> None:
    """Else the server refuses the statement."""
    side = source(Server(), subject([mapped({"id": "varchar(9)"})], target({"id": "text"})))
    assert side.among([("ä",), ("漢",)]) == "`id` IN ('ä', '漢')"
    narrow = replace(side.table.key_columns[0], charset="latin1")
    side.table = replace(side.table, key_columns=(narrow,))
    assert side.among([("ä",), ("漢",), ("b",)]) == (
        "(`id` IN ('ä', 'b') OR CONVERT(`id` USING utf8mb4) IN ('漢'))"
    )


def test_a_range_has_its_last_key_and_not_its_first() -> None:
    side = source(Server())
    assert (side.beyond(("3",)), side.up_to(("9",))) == ("`id` > 3", "`id` <= 9")


@pytest.mark.parametrize(("rows", "wanted"), [([(1234,)], 1234), ([(None,)], 0), ([], 0)])
def test_the_estimate_of_a_table_that_is_not_known_is_nothing(
    rows: list[tuple[int | None]], wanted: int
) -> None:
    server = Server(*rows)
    assert source(server).estimate() == wanted
    assert server.given == [("shop", "orders")]


def test_a_source_is_read_as_text_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    monkeypatch.setattr(sides, "source_connection", lambda *_: server)
    with sides.open_source(feed().fetch.source) as connection:
        assert connection.decoders == {}
    assert "time_zone = '+00:00'" in server.asked[0]


# the target


def test_rows_of_the_target_are_read_in_a_transaction_as_they_stream() -> None:
    server, database = Server(("1", "a")), Database()
    side = at_target(server, where="id > 5 OR id < 2", database=database)
    assert list(side.rows("id < 9")) == [("1", "a")]
    assert server.asked == [
        "BEGIN",
        "SET LOCAL DateStyle = 'ISO, YMD'",
        "SET LOCAL extra_float_digits = 3",
        'SELECT "id"::text, "name"::text FROM "shop"."orders" WHERE (id > 5 OR id < 2) AND id < 9',
        "CLOSE",
        "END",
    ]
    assert server.streamed == [True]
    assert database.named == ["table shop.orders"]


def test_rows_of_the_target_come_in_the_form_that_is_compared() -> None:
    what = subject([mapped({**INT, "b": "varbinary(4)"})], target({**PG_INT, "b": "bytea"}))
    assert list(at_target(Server(("1", "a", "00ff")), what).rows()) == [("1", "a", "\x00ÿ")]


def test_rows_of_mysql_are_read_as_those_of_a_source() -> None:
    server = Server(("1", b"\xc3\xa9"))
    side = at_target(server, in_mysql())
    assert list(side.rows(is_narrowed=False)) == [("1", "é")]
    assert server.asked == [
        "BEGIN",
        "SELECT `id`, CAST(`name` AS BINARY) FROM `shop`.`orders` WHERE 1 = 1",
        "CLOSE",
        "END",
    ]


def test_cells_of_oracle_are_read_as_texts_that_no_session_changes() -> None:
    types = {"ID": "NUMBER", "NAME": "VARCHAR2", "B": "BLOB", "X": "BINARY_DOUBLE", "AT": "DATE"}
    names = {"ID": "int(11)", "NAME": "varchar(9)", "B": "blob", "X": "double", "AT": "date"}
    what = subject([mapped(names, ("ID",))], target(types, ("ID",), "oracle"))
    big = SimpleNamespace(read=lambda: b"\x00\xff")
    server = Server(("7", "é", big, 0.1, "2024-02-29 00:00:00"))
    side = at_target(server, what)
    assert list(side.rows(side.among([("7",), ("x",)]))) == [
        ("7", "é", "\x00ÿ", "0.1", "2024-02-29 00:00:00")
    ]
    assert server.asked[1] == (
        "SELECT TO_CHAR(\"ID\", 'TM9', 'NLS_NUMERIC_CHARACTERS=''.,'''), \"NAME\", \"B\", \"X\", "
        'TO_CHAR("AT", \'YYYY-MM-DD HH24:MI:SS\') FROM "shop"."orders" WHERE (1 = 1) AND '
        '"ID" IN (7)'
    )


def test_a_failed_reading_closes_its_result() -> None:
    """Else the connection would be of no more use."""
    server = Server(("1", "a"), ("2", "b"))
    reading = at_target(server).rows()
    next(reading)
    with pytest.raises(ZeroDivisionError):
        reading.throw(ZeroDivisionError())
    assert server.asked[-1] == "CLOSE"


@pytest.mark.parametrize("what", [subject(), in_mysql()], ids=["postgresql", "mysql"])
def test_sums_of_the_target_are_of_the_chosen_rows(what: Subject) -> None:
    server = Server((3, 3, "1000"))
    side = at_target(server, what, where="a OR b")
    assert side.sums(what.sources[0].pairs or (), "c") == Sums(3, 3, 1000)
    assert any("WHERE (a OR b) AND c" in sql for sql in server.asked)
    assert server.streamed == [False]


@pytest.mark.parametrize("what", [subject(), in_mysql()], ids=["postgresql", "mysql"])
def test_a_digest_of_the_target_is_of_the_chosen_rows(what: Subject) -> None:
    server = Server((3, "ab"))
    side = at_target(server, what, where="a OR b")
    assert side.digest(what.sources[0].pairs or (), "c", 40) == Digest(3, "ab")
    assert any("WHERE (a OR b) AND c" in sql for sql in server.asked)


@pytest.mark.parametrize("what", [subject(), in_mysql()], ids=["postgresql", "mysql"])
def test_buckets_of_the_target_are_chosen_as_they_are_summed_up(what: Subject) -> None:
    server = Server((7, 3, 3, "1000"))
    side = at_target(server, what)
    pairs, key = what.sources[0].pairs or (), what.sources[0].key_pairs or ()
    assert dict(side.bucket_sums(pairs, key, "1 = 1")) == {7: Sums(3, 3, 1000)}
    number = side.in_buckets([3, 5]).removesuffix(" IN (3, 5)")
    assert any(f"{number} AS b" in sql for sql in server.asked)


def test_keys_of_the_target_are_compared_in_its_own_sql() -> None:
    side = at_target(Server())
    assert (side.beyond(("3",)), side.up_to(("9",))) == ('"id" > 3', '"id" <= 9')
    assert side.among([("3",), ("4",)]) == '"id" IN (3, 4)'


def test_a_key_that_no_row_of_the_target_can_have_is_not_asked_for() -> None:
    """PostgreSQL would fail on it."""
    side = at_target(Server())
    assert side.among([("3",), ("0000-00-00",), (None,)]) == '"id" IN (3)'
    assert side.among([("x",)]) == NOTHING


@pytest.mark.parametrize(("dialect", "is_read_raw"), [("mysql", True), ("postgresql", False)])
def test_a_mysql_targets_connection_is_its_readers_alone(dialect: str, is_read_raw: bool) -> None:
    """Its cells come as text; a loader that took it from the pool would get them so, too."""
    driver, calls = SimpleNamespace(decoders={1: int}), list[str]()

    @contextmanager
    def connect() -> Iterator[Any]:
        yield SimpleNamespace(
            connection=SimpleNamespace(driver_connection=driver),
            detach=lambda: calls.append("detach"),
            rollback=lambda: calls.append("rollback"),
        )

    database: Any = Database()
    database.url = SimpleNamespace(dialect=dialect)
    database.engine = SimpleNamespace(connect=connect)
    with sides.open_target(database):
        assert (driver.decoders == {}) is is_read_raw
    assert calls == [*(["detach"] if is_read_raw else []), "rollback"]


def test_character_sets_are_known_by_column() -> None:
    server: Any = Server(("name", "latin1"), ("note", "utf8mb4"))
    found = charsets_of(server, TableId("shop", "orders"))
    assert found == {"name": "latin1", "note": "utf8mb4"}
    assert "SELECT 1 FROM `shop`.`orders` LIMIT 0" in server.asked
    assert server.given[-1] == {"schema": "shop", "table": "orders"}
