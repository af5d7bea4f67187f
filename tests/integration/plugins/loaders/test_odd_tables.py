"""Target tables with features that nobody looks at: few rows and many come to the same, or are
refused with the remedy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from cdcbus.plugins.contracts import Loader, TableBatch, TargetTable, Writes
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialects.postgresql.dialect import MERGE_ROWS
from cdcbus.plugins.rowchange import Column, TableId
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration
Server = PostgresqlServer | MysqlServer
MANY = MERGE_ROWS + 1000


@pytest.fixture
def loader_of() -> Iterator[Callable[[Server], Loader]]:
    loaders: list[Loader] = []

    def make(server: Server) -> Loader:
        loaders.append(make_loader("JdbcBatch", server.target()))
        return loaders[-1]

    yield make
    for loader in loaders:
        loader.close()


def table_of(server: Server, loader: Loader) -> TargetTable:
    table = loader.table(TableId(server.schema, "t"))
    assert table is not None
    return table


def write(
    loader: Loader,
    table: TargetTable,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    are_new: bool,
) -> None:
    """As columns where there are many, as executors bring them."""
    arrays = ColumnRows([pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)])
    with loader.transaction() as transaction:
        few_or_many = arrays if len(rows) > 200 else rows
        transaction.write(
            TableBatch(
                table,
                writes=[
                    Writes(
                        columns, few_or_many, expected=0 if are_new else len(rows), are_new=are_new
                    )
                ],
            )
        )


ODD = {
    "an identity outside the key": ("id int primary key, n int GENERATED ALWAYS AS IDENTITY, v "
                                    "text", ""),
    "an identity as the key": ("id int GENERATED ALWAYS AS IDENTITY primary key, n int, v "
                               "text", ""),
    "a key that is checked at the commit": ("id int primary key DEFERRABLE INITIALLY DEFERRED, n "
                                            "int, v text", ""),
    "a key that may be checked at the commit": ("id int primary key DEFERRABLE, n int, v text", ""),
    "a generated column": ("id int primary key, n int, v text, g int GENERATED ALWAYS AS (n * 2) "
                           "STORED", ""),
    "a unique index of an expression": ("id int primary key, n int, v text", "CREATE UNIQUE INDEX "
                                                                             "expr ON {schema}.t "
                                                                             "(abs(n))"),
    "partitions": ("id int primary key, n int, v text) PARTITION BY HASH (id", "CREATE TABLE "
                                                                               "{schema}.p "
                                                                               "PARTITION OF "
                                                                               "{schema}.t "
                                                                               "DEFAULT"),
    "a trigger before each row": ("id int primary key, n int, v text", """
        CREATE FUNCTION {schema}.same() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
        CREATE TRIGGER same BEFORE INSERT OR UPDATE ON {schema}.t FOR EACH ROW EXECUTE FUNCTION {schema}.same()"""),
}  # fmt: skip
ODD["partitions"] = (
    "id int primary key, n int, v text) PARTITION BY RANGE (id",
    ODD["partitions"][1],
)


@pytest.mark.parametrize("count", [3, 300, MANY])
@pytest.mark.parametrize("odd", ODD)
def test_few_and_many_rows_come_to_the_same_in_postgresql(
    postgresql_server: PostgresqlServer, loader_of: Callable[[Server], Loader], odd: str, count: int
) -> None:
    """Written when they are new, then again as updates of rows that are there, half of them new."""
    server, (columns, then) = postgresql_server, ODD[odd]
    server.execute(f"CREATE TABLE {{schema}}.t ({columns})")
    if then:
        server.execute(then)
    loader = loader_of(server)
    table = table_of(server, loader)
    names = ("id", "n", "v")
    write(loader, table, names, [(str(i), str(i), "a") for i in range(count)], are_new=True)
    later = range(count // 2, count + count // 2)
    write(loader, table, names, [(str(i), str(i), "b") for i in later], are_new=False)
    assert server.rows("SELECT count(*), sum(n) FROM {schema}.t WHERE v = 'b'") == [
        (count, sum(later))
    ]
    assert server.rows("SELECT count(*) FROM {schema}.t WHERE v = 'a'") == [(count // 2,)]


@pytest.mark.parametrize("count", [1, 3, 300, MANY])
@pytest.mark.parametrize(
    "columns",
    [
        "id int GENERATED ALWAYS AS IDENTITY primary key, n int",
        "id int GENERATED ALWAYS AS IDENTITY, n int, primary key (id, n)",
        "id int primary key, n int GENERATED ALWAYS AS IDENTITY",
    ],
)
def test_rows_are_found_though_an_update_may_set_nothing_of_them_in_postgresql(
    postgresql_server: PostgresqlServer,
    loader_of: Callable[[Server], Loader],
    columns: str,
    count: int,
) -> None:
    server = postgresql_server
    server.execute(f"CREATE TABLE {{schema}}.t ({columns})")
    loader = loader_of(server)
    table = table_of(server, loader)
    names = ("id",) if table.key == ("id",) and not table.columns["n"].is_fixed else ("id", "n")
    rows = [(str(number), str(number))[: len(names)] for number in range(count)]
    absent = [(str(count + number), "1")[: len(names)] for number in range(count)]
    for writes, missed in (
        (Writes(names, rows), 0),
        (Writes(names, rows, may_insert=False), 0),
        (Writes(names, rows, expected=count), 0),
        (Writes(names, absent, may_insert=False), count),
        (Writes(names, absent, expected=count), count),
    ):
        with loader.transaction() as transaction:
            counts = transaction.write(TableBatch(table, writes=[writes]))
        written = count if writes.may_insert or not missed else 0
        assert (counts.written, counts.missed) == (written, missed)
    assert server.rows("SELECT count(*) FROM {schema}.t") == [(2 * count,)]


def test_an_invalid_or_partial_unique_index_is_not_taken_for_the_key(
    postgresql_server: PostgresqlServer, loader_of: Callable[[Server], Loader]
) -> None:
    """An invalid one is what CREATE INDEX CONCURRENTLY leaves when it fails."""
    server = postgresql_server
    server.execute("CREATE TABLE {schema}.t (id int not null, n int not null)")
    server.execute("CREATE UNIQUE INDEX part ON {schema}.t (n) WHERE n > 0")
    server.execute("CREATE UNIQUE INDEX broken ON {schema}.t (id)")
    server.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{schema}.broken'::regclass"
    )
    assert table_of(server, loader_of(server)).key == ()


def test_rules_are_refused_and_row_security_and_triggers_are_told(
    postgresql_server: PostgresqlServer, loader_of: Callable[[Server], Loader]
) -> None:
    server = postgresql_server
    server.execute("CREATE TABLE {schema}.t (id int primary key)")
    server.execute("CREATE RULE nothing AS ON INSERT TO {schema}.t DO INSTEAD NOTHING")
    loader = loader_of(server)
    assert "has rules (CREATE RULE)" in table_of(server, loader).unsafe
    server.execute("DROP RULE nothing ON {schema}.t")
    server.execute("ALTER TABLE {schema}.t ENABLE ROW LEVEL SECURITY")
    server.execute(ODD["a trigger before each row"][1])
    poor = make_loader("JdbcBatch", server.without_rights_to_create())
    table = table_of(server, poor)
    poor.close()
    assert table.unsafe == ""
    assert [remark.split(",")[0].split(":")[0] for remark in table.remarks] == [
        "has the trigger same",
        "hides rows from this user by row level security",
    ]


def test_a_slower_way_is_told_once_with_its_reason(
    postgresql_server: PostgresqlServer,
    loader_of: Callable[[Server], Loader],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A view takes no COPY."""
    server = postgresql_server
    server.execute("CREATE TABLE {schema}.base (id int primary key, v text)")
    server.execute("CREATE VIEW {schema}.t AS SELECT * FROM {schema}.base")
    loader = loader_of(server)
    table = table_of(server, loader)
    with caplog.at_level(logging.WARNING):
        for start in (0, MANY):
            rows = [(str(start + i), "a") for i in range(MANY)]
            arrays = ColumnRows([pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)])
            with loader.transaction() as transaction:
                transaction.write(
                    TableBatch(
                        replaced_key(table), writes=[Writes(("id", "v"), arrays, are_new=True)]
                    )
                )
    told = [
        record.getMessage()
        for record in caplog.records
        if "slower statements" in record.getMessage()
    ]
    assert len(told) == 1
    assert server.rows("SELECT count(*) FROM {schema}.base") == [(2 * MANY,)]


def replaced_key(table: TargetTable) -> TargetTable:
    """A view has no key of its own, but that of its table serves."""
    return replace(table, key=("id",))


def test_rows_that_were_there_before_a_column_was_added_are_told_of(
    postgresql_server: PostgresqlServer,
    mysql_server: MysqlServer,
    loader_of: Callable[[Server], Loader],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for server in (postgresql_server, mysql_server):
        server.execute("CREATE TABLE {schema}.t (id int primary key)")
        loader = loader_of(server)
        table = table_of(server, loader)
        with caplog.at_level(logging.WARNING):
            table = loader.evolve(table, [Column("id", "int"), Column("empty", "int")])
            assert "hold NULL in its new column" not in caplog.text
            server.execute("INSERT INTO {schema}.t (id) VALUES (1)")
            loader.evolve(
                table, [*(Column(name, "int") for name in table.columns), Column("s", "int")]
            )
        assert "hold NULL in its new column s" in caplog.text
        caplog.clear()


@pytest.mark.parametrize("count", [3, 9, 300])
def test_mariadb_s_odd_tables(
    mysql_server: MysqlServer, loader_of: Callable[[Server], Loader], count: int
) -> None:
    """Generated, invisible and counting columns, and a further unique key, for which rows go by
    way of a temporary table."""
    server = mysql_server
    server.execute(
        "CREATE TABLE {schema}.t (id int primary key, n int AUTO_INCREMENT UNIQUE, v text, g int "
        "AS (id * 2) STORED, "
        "i int INVISIBLE DEFAULT 7)"
    )
    loader = loader_of(server)
    table = table_of(server, loader)
    for cell in ("a", "b"):
        write(
            loader,
            table,
            ("id", "n", "v"),
            [(str(i), str(i + 1), cell) for i in range(count)],
            are_new=cell == "a",
        )
    assert server.rows("SELECT count(*), sum(g), min(i) FROM {schema}.t WHERE v = 'b'") == [
        (count, count * (count - 1), 7)
    ]
