"""Which keys are equal is told by the loaders as the servers tell it: any doubt is an error, and
never two rows in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.canonical import exactly, folded, holding
from cdcbus.plugins.loaders.cells.equal_keys import are_plain, folds, spelling_of
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.rowchange import TableId
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration
Server = PostgresqlServer | MysqlServer

PIECES: Final = [
    *(
        "a",
        "A",
        "b",
        "ss",
        "ß",
        "s",
        "ä",
        "ae",
        "æ",
        "á",
        "e\u0301",
        "é",
        "i",
        "ı",
        "İ",
        "ﬁ",
        "fi",
        "あ",
        "ア",
        "が",
        "か",
        "😀",
        "😁",
    ),
    *(
        "ł",
        "l",
        "ŀ",
        "Å",
        "\u212b",
        "-",
        " ",
        "\u00a0",
        "\u200b",
        "\x01",
        "7",
        "07",
        "１",
        "и",
        "й",
        "ё",
        "е",
        "Σ",
        "ς",
        "한",
        "'",
        "\\",
    ),
]
TEXT: Final = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
DIGITS: Final = st.sampled_from(
    ["0", "4", "5", "49", "50", "45", "99", "999", "9995", "123456", "500000", "499999", "000001"]
)
WHOLE: Final = st.sampled_from(["0", "-0", "1", "007", "15", "-1", "-15", "149", "150", "99"])
NUMBER: Final = st.builds(lambda whole, digits: f"{whole}.{digits}", WHOLE, DIGITS) | WHOLE
SECOND: Final = st.sampled_from(["00:00:00", "23:59:59", "12:30:31"])
TIME: Final = st.builds(lambda second, digits: f"{second}.{digits}", SECOND, DIGITS) | SECOND
MOMENT: Final = st.builds(
    "{} {}".format, st.sampled_from(["1999-12-31", "2000-01-01", "2024-02-29", "1971-01-01"]), TIME
)
WHOLE_MOMENT: Final = MOMENT.map(lambda cell: cell.partition(".")[0])
"""MySQL rounds half a second before it drops the time of day, MariaDB does not: keys are sent as
they are held, so neither is asked to."""
CELLS: Final = {"text": TEXT, "number": NUMBER, "time": TIME, "moment": MOMENT, "day": WHOLE_MOMENT}

POSTGRESQL: Final = [
    *(
        ("number", type_)
        for type_ in (
            "numeric(12,2)",
            "numeric(12,0)",
            "numeric(5,-1)",
            "numeric",
            "real",
            "double precision",
            "money",
        )
    ),
    *(
        ("moment", type_)
        for type_ in ("timestamp(0)", "timestamp(3)", "timestamp", "timestamptz(1)", "date")
    ),
    *(("time", type_) for type_ in ("time(0)", "time(2)", "time", "timetz(1)", "timetz")),
    *(("time", type_) for type_ in ("interval(0)", "interval second(2)", "interval")),
    *(("time", f"interval {fields}") for fields in ("day", "hour", "hour to minute")),
    *(
        ("text", type_)
        for type_ in (
            "text",
            "varchar(20)",
            "citext",
            *(f"text COLLATE {{schema}}.{name}" for name in ("two", "one", "shift")),
        )
    ),
]
COLLATIONS: Final = {
    "two": "und-u-ks-level2",
    "one": "und-u-ks-level1",
    "shift": "und-u-ka-shifted-kn-true-ks-level1",
}
MYSQL: Final = [
    *(("number", type_) for type_ in ("decimal(12,2)", "decimal(12,0)", "float", "double")),
    *(("number", type_) for type_ in ("float(8,2)", "double(12,2)", "double(12,0)")),
    *(
        ("moment", type_)
        for type_ in ("datetime", "datetime(3)", "datetime(6)", "timestamp(1) NULL")
    ),
    ("day", "date"),
    *(("time", type_) for type_ in ("time", "time(2)", "time(6)")),
    *(
        ("text", f"varchar(20) COLLATE utf8mb4_{name}")
        for name in ("bin", "general_ci", "unicode_ci", "german2_ci", "danish_ci")
    ),
    ("text", "char(20) COLLATE utf8mb4_bin"),
    ("text", "char(20) COLLATE utf8mb4_unicode_ci"),
]
MARIADB: Final = [
    *(
        ("text", f"varchar(20) COLLATE utf8mb4_{name}")
        for name in ("nopad_bin", "0900_bin", "uca1400_ai_ci", "uca1400_nopad_as_ci")
    )
]
MYSQL_9: Final = [
    *(
        ("text", f"varchar(20) COLLATE utf8mb4_{name}")
        for name in ("0900_bin", "0900_ai_ci", "0900_as_cs", "ja_0900_as_cs")
    )
]


@contextmanager
def keyed(server: Server, type_: str) -> Iterator[tuple[JdbcBatch, TargetTable]]:
    """A table `t` of keys `k`, as its loader sees it."""
    server.execute(f"CREATE TABLE {{schema}}.t (i int PRIMARY KEY, k {type_})")
    loader = make_loader("JdbcBatch", server.target())
    assert isinstance(loader, JdbcBatch)
    table = loader.table(TableId(server.schema, "t"))
    assert table is not None
    try:
        yield loader, table
    finally:
        loader.close()


def equal_pairs(
    server: Server, loader: JdbcBatch, table: TargetTable, cells: Sequence[str]
) -> set[tuple[int, int]]:
    """As the server says of what it holds."""
    rows = [(str(number), cell) for number, cell in enumerate(cells)]
    try:
        with loader.transaction() as transaction:
            transaction.write(TableBatch(table, truncate=True, writes=[Writes(("i", "k"), rows)]))
    except TargetRejected:
        assume(False)
    found: Any = server.rows(
        "SELECT a.i, b.i FROM {schema}.t AS a JOIN {schema}.t AS b ON a.k = b.k AND a.i < b.i"
    )
    return set(found)


def check_keys(server: Server, kind: str, type_: str) -> None:
    with keyed(server, type_) as (loader, table):
        by_key = replace(table, key=("k",))
        hold, say, is_folding = holding(by_key, ("k",)), exactly(by_key, ("k",)), folds(by_key)
        database = loader._database

        @settings(max_examples=8)
        @given(st.lists(CELLS[kind], min_size=2, max_size=8, unique=True))
        def told(cells: list[str]) -> None:
            equal = equal_pairs(server, loader, table, cells)
            for one in range(len(cells)):
                for other in range(one + 1, len(cells)):
                    pair = [(cells[one],), (cells[other],)]
                    held = [hold(key) for key in pair]
                    is_same = held[0] == held[1]
                    if is_same:  # one row, unless the source says more than the column keeps
                        assert (one, other) in equal, pair
                    elif (one, other) in equal:
                        assert is_folding, pair
                        with database.engine.connect() as connection:
                            is_told = folded(cells[one]) == folded(cells[other]) or (
                                not are_plain(by_key, held)
                                and database.dialect.is_any_alike(connection, by_key, held)
                            )
                        assert is_told, pair
                        assert spelling_of(by_key)(held[0]) != spelling_of(by_key)(held[1]), pair
                    # of numbers 7 and 007 are one at the source, too
                    if is_same and kind != "number":
                        assert (
                            say is None
                            or say(pair[0]) != say(pair[1])
                            or kind in ("moment", "time")
                        ), pair

        if (
            kind == "text"
        ):  # a blank and a character of no weight, behind which a blank is filled up
            told = example(["\xa0", "\x01"])(told)
        told()


@pytest.fixture
def postgresql_server(postgresql: Database, name: str) -> Iterator[PostgresqlServer]:
    server = PostgresqlServer(postgresql, name)
    server.execute("CREATE SCHEMA {schema}")
    server.execute("CREATE EXTENSION IF NOT EXISTS citext SCHEMA public")
    for collation, locale in COLLATIONS.items():
        server.execute(
            f"CREATE COLLATION {{schema}}.{collation} (provider = icu, locale = '{locale}', "
            f"deterministic = false)"
        )
    yield server
    server.execute("DROP SCHEMA {schema} CASCADE")


@pytest.mark.parametrize(("kind", "type_"), POSTGRESQL)
def test_postgresql_s_equality(postgresql_server: PostgresqlServer, kind: str, type_: str) -> None:
    check_keys(postgresql_server, kind, type_)


@pytest.mark.parametrize(("kind", "type_"), MYSQL)
def test_mysql_s_equality(mysql_server: MysqlServer, kind: str, type_: str) -> None:
    check_keys(mysql_server, kind, type_)


@pytest.mark.parametrize("mysql_server", ["mariadb"], indirect=True)
@pytest.mark.parametrize(("kind", "type_"), MARIADB)
def test_mariadb_s_own_collations(mysql_server: MysqlServer, kind: str, type_: str) -> None:
    check_keys(mysql_server, kind, type_)


@pytest.mark.parametrize("mysql_server", ["mariadb", "mysql_9"], indirect=True)
def test_a_binary_collation_of_both_servers_ignores_trailing_blanks_in_mariadb(
    mysql_server: MysqlServer, request: pytest.FixtureRequest
) -> None:
    with keyed(mysql_server, "varchar(20) COLLATE utf8mb4_0900_bin") as (_, table):
        is_mariadb = request.node.callspec.params["mysql_server"] == "mariadb"
        assert table.columns["k"].is_folding is is_mariadb


@pytest.mark.parametrize("mysql_server", ["mysql_9"], indirect=True)
@pytest.mark.parametrize(("kind", "type_"), MYSQL_9)
def test_mysql_s_own_collations(mysql_server: MysqlServer, kind: str, type_: str) -> None:
    check_keys(mysql_server, kind, type_)
