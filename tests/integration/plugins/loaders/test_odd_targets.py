"""Odd target tables in batches of three sizes, with inserts, updates and deletes: one end, or
one clear error, whatever the size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import (
    Counts,
    JdbcTarget,
    Loader,
    Swaps,
    TableBatch,
    TargetTable,
    Writes,
)
from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialects.postgresql.dialect import MERGE_ROWS
from cdcbus.plugins.rowchange import Cell, TableId
from tests.support.servers.target_servers import POOR, MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration
SIZES: Final = [3, 300, MERGE_ROWS + 1000]
NAMES: Final = ("id", "n", "v")
Rows = Sequence[tuple[Cell, ...]]


class OddPostgresql(PostgresqlServer):
    def execute_each(self, sql: str) -> None:
        for statement in sql.split(";;"):
            self.execute(statement)

    def with_rights(self, statements: Sequence[str]) -> JdbcTarget:
        target = self.without_rights_to_create()
        for statement in statements:
            self.execute(statement)
        return target


class OddMysql(MysqlServer):
    is_mariadb: bool = True

    def execute_each(self, sql: str) -> None:
        for statement in sql.split(";;"):
            self.execute(
                statement.replace(
                    "{nopad}", "utf8mb4_nopad_bin" if self.is_mariadb else "utf8mb4_0900_bin"
                )
            )

    def with_rights(self, rights: Sequence[str]) -> JdbcTarget:
        target = self.without_rights_to_create()
        for host in ("%", "localhost"):
            self.execute(f"REVOKE ALL ON {{schema}}.* FROM {POOR}@'{host}'")
            self.execute(f"GRANT {rights[0]} ON {{schema}}.t TO {POOR}@'{host}'")
        return target


@pytest.fixture
def postgresql_server(postgresql: Database, name: str) -> Iterator[OddPostgresql]:
    server = OddPostgresql(postgresql, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP FOREIGN DATA WRAPPER IF EXISTS {schema} CASCADE")
    server.execute("DROP SCHEMA {schema} CASCADE")


class OddMysql9(OddMysql):
    is_mariadb = False


@pytest.fixture(params=["mariadb", "mysql_9"])
def mysql_server(request: pytest.FixtureRequest, name: str) -> Iterator[OddMysql]:
    at: Database = request.getfixturevalue(request.param)
    server = OddMysql(at, name) if request.param == "mariadb" else OddMysql9(at, name)
    server.execute("CREATE DATABASE {schema}")
    yield server
    server.execute("DROP DATABASE {schema}")


@dataclass(frozen=True)
class Odd:
    """A table `t` by statements. `error` None: it ends as the source; else what is raised, with
    words of its text. `key`: how a number becomes the id's text. `poor`: what makes the rights
    of a user that has them all on the table fewer; at MySQL the rights that it has."""

    make: str
    error: type[TargetError] | None = None
    says: str = ""
    key: Callable[[int], str] = str
    poor: Sequence[str] = ()


def text_key(number: int) -> str:
    return f"k{number}"


class Replica:
    """What the source has, and the target after each batch."""

    def __init__(self, server: OddPostgresql | OddMysql, odd: Odd, count: int) -> None:
        self.server, self.odd, self.count = server, odd, count
        self.rows: dict[int, tuple[str, str]] = {}

    def run(self, loader: Loader) -> list[Counts]:
        """Rows that are new, then updates of which half find no row, then updates only, then
        deletes of which half find none."""
        table = loader.table(TableId(self.server.schema, "t"))
        assert table is not None
        if table.unsafe:
            raise TargetMisconfigured(table.unsafe)
        count, half = self.count, self.count // 2
        return [
            self.write(loader, table, range(count), "a", are_new=True),
            self.write(loader, table, range(half, half + count), "b", expected=count),
            self.write(loader, table, range(half), "c", expected=half, may_insert=False),
            self.delete(loader, table, range(count, count + count)),
        ]

    def write(
        self,
        loader: Loader,
        table: TargetTable,
        numbers: range,
        cell: str,
        *,
        are_new: bool = False,
        expected: int = 0,
        may_insert: bool = True,
    ) -> Counts:
        rows = [(self.odd.key(number), str(number), cell) for number in numbers]
        writes = Writes(NAMES, self.shaped(rows), may_insert, expected, are_new)
        with loader.transaction() as transaction:
            counts = transaction.write(TableBatch(table, writes=[writes]))
        self.rows |= {number: (str(number), cell) for number in numbers}
        return counts

    def delete(self, loader: Loader, table: TargetTable, numbers: range) -> Counts:
        with loader.transaction() as transaction:
            counts = transaction.write(
                TableBatch(
                    table, deletes=self.shaped([(self.odd.key(number),) for number in numbers])
                )
            )
        for number in numbers:
            self.rows.pop(number, None)
        return counts

    def shaped(self, rows: Rows) -> Rows:
        """As columns where there are many, as executors bring them."""
        if len(rows) <= 200:
            return rows
        columns = [pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)]
        return ColumnRows(columns)

    def expected(self) -> list[tuple[object, ...]]:
        return sorted(
            (self.odd.key(number).rstrip(), int(n), v) for number, (n, v) in self.rows.items()
        )

    def found(self) -> list[tuple[object, ...]]:
        return sorted(
            (str(id_).rstrip(), n, v)
            for id_, n, v in self.server.rows("SELECT id, n, v FROM {schema}.t")
        )


@contextmanager
def loading(target: JdbcTarget) -> Iterator[Loader]:
    loader = make_loader("JdbcBatch", target)
    try:
        yield loader
    finally:
        loader.close()


def check(server: OddPostgresql | OddMysql, odd: Odd, count: int) -> None:
    server.execute_each(odd.make)
    target = server.with_rights(odd.poor) if odd.poor else server.target()
    replica = Replica(server, odd, count)
    with loading(target) as loader:
        if odd.error is not None:
            with pytest.raises(TargetError, match=odd.says) as refused:
                replica.run(loader)
            assert type(refused.value) is odd.error
            return
        counts = replica.run(loader)
    assert replica.found() == replica.expected()
    assert_counted(counts, count)


def assert_counted(counts: Sequence[Counts], count: int) -> None:
    half = count // 2
    told = [(each.written, each.deleted, each.missed) for each in counts]
    assert told == [(count, 0, 0), (count, 0, half), (half, 0, 0), (0, half, count - half)]


PLAIN: Final = "CREATE TABLE {schema}.t (id int primary key, n int, v text)"
CHILD: Final = "CREATE TABLE {schema}.child (PRIMARY KEY (id)) INHERITS ({schema}.t)"
PARENT: Final = (
    "CREATE TABLE {schema}.parent (id int, n int, v text);; CREATE TABLE {schema}.t "
    "(PRIMARY KEY (id)) INHERITS ({schema}.parent)"
)
FOREIGN: Final = """CREATE FOREIGN DATA WRAPPER {schema};; CREATE SERVER {schema} FOREIGN DATA WRAPPER {schema};;
    CREATE FOREIGN TABLE {schema}.%s"""
ELSEWHERE: Final = (
    """CREATE TABLE {schema}.t (id int, n int, v text) PARTITION BY RANGE (id);;
    CREATE TABLE {schema}.low PARTITION OF {schema}.t FOR VALUES FROM (0) TO (1000000);;"""
    + FOREIGN
)
BASE: Final = "CREATE TABLE {schema}.base (id int primary key, n int, v text) ENGINE="
ROWS: Final = (
    "v text, b timestamp(6) GENERATED ALWAYS AS ROW START, e timestamp(6) GENERATED "
    "ALWAYS AS ROW END"
)
VIEW: Final = (
    ";; CREATE VIEW {schema}.one AS SELECT * FROM {schema}.base;; CREATE VIEW "
    "{schema}.t AS SELECT * FROM {schema}.one"
)
DENIED: Final = "permission denied for table t"


def poor(*statements: str) -> tuple[str, ...]:
    return tuple(statement % ("{schema}.t", POOR) for statement in statements)


POSTGRESQL = {
    "a unique index with NULLS NOT DISTINCT": Odd(
        PLAIN.replace("primary key", "not null UNIQUE NULLS NOT DISTINCT")
    ),
    "child tables": Odd(
        f"{PLAIN};; {CHILD}",
        TargetMisconfigured,
        "child tables .INHERITS., among them t[0-9a-f]*.child",
    ),
    "a parent": Odd(PARENT),
    "a foreign table": Odd(
        FOREIGN % "t (id int, n int, v text) SERVER {schema}",
        TargetMisconfigured,
        "is a foreign table",
    ),
    "a foreign partition": Odd(
        ELSEWHERE
        % "high PARTITION OF {schema}.t FOR VALUES FROM (1000000) TO (2000000) SERVER {schema}",
        *(TargetMisconfigured, "has a partition that is a foreign table"),
    ),
    "a table without a log": Odd(
        PLAIN.replace("TABLE", "UNLOGGED TABLE"),
        TargetMisconfigured,
        "is UNLOGGED.* ALTER TABLE .* SET LOGGED",
    ),
    "a partition without a log": Odd(
        """CREATE TABLE {schema}.t (id int primary key, n int, v text) PARTITION BY RANGE (id);;
        CREATE TABLE {schema}.low PARTITION OF {schema}.t FOR VALUES FROM (0) TO (1000000);;
        CREATE UNLOGGED TABLE {schema}.high PARTITION OF {schema}.t
        FOR VALUES FROM (1000000) TO (2000000)""",
        TargetMisconfigured,
        "has a partition that is UNLOGGED.* ALTER TABLE .*high SET LOGGED",
    ),
    "no right to delete": Odd(
        PLAIN, TargetMisconfigured, DENIED, poor=poor("REVOKE DELETE ON %s FROM %s")
    ),
    "no right to read": Odd(
        PLAIN, TargetMisconfigured, DENIED, poor=poor("REVOKE SELECT ON %s FROM %s")
    ),
    "a right to update some columns": Odd(
        PLAIN,
        TargetMisconfigured,
        DENIED,
        poor=poor("REVOKE UPDATE ON %s FROM %s", "GRANT UPDATE (v) ON %s TO %s"),
    ),
    "a right to insert some columns": Odd(
        PLAIN,
        TargetMisconfigured,
        DENIED,
        poor=poor("REVOKE INSERT ON %s FROM %s", "GRANT INSERT (id, v) ON %s TO %s"),
    ),
    "a column that no record has": Odd(
        PLAIN.replace("v text", "v text, x int NOT NULL"), TargetRejected, '"x"'
    ),
    "a key of citext": Odd(
        "CREATE EXTENSION IF NOT EXISTS citext;; " + PLAIN.replace("id int", "id citext"),
        key=text_key,
    ),
    "a key of char(n)": Odd(PLAIN.replace("id int", "id char(9)"), key=text_key),
    "a key of char(n), and blanks": Odd(
        PLAIN.replace("id int", "id char(9)"), key=lambda number: f"k{number}  "
    ),
    "a partial unique index": Odd(PLAIN + ";; CREATE UNIQUE INDEX ON {schema}.t (n) WHERE v = 'a'"),
    "an exclusion constraint": Odd(
        PLAIN.replace("v text", "v text, EXCLUDE USING btree (n WITH =)")
    ),
    "an exclusion constraint that rows hurt": Odd(
        PLAIN.replace("v text", "v text, EXCLUDE USING btree (v WITH =)"), RowConflict, "exclusion"
    ),
}

MYSQL = {
    "a column that no record has": Odd(
        PLAIN.replace("v text", "v text, x int NOT NULL"), TargetRejected, "'x'"
    ),
    "no right to delete": Odd(
        PLAIN, TargetMisconfigured, "DELETE command denied", poor=("SELECT, INSERT, UPDATE",)
    ),
    "no right to read": Odd(
        PLAIN, TargetMisconfigured, "SELECT command denied", poor=("INSERT, UPDATE, DELETE",)
    ),
    "no right to update": Odd(
        PLAIN, TargetMisconfigured, "UPDATE command denied", poor=("SELECT, INSERT, DELETE",)
    ),
    "a right to update some columns": Odd(
        PLAIN, TargetMisconfigured, "denied to user", poor=("SELECT, INSERT, DELETE, UPDATE (v)",)
    ),
    "a right to insert some columns": Odd(
        PLAIN,
        TargetMisconfigured,
        "denied to user",
        poor=("SELECT, UPDATE, DELETE, INSERT (id, v)",),
    ),
    "a binary collation": Odd(
        PLAIN.replace("id int", "id varchar(20) collate utf8mb4_bin"), key=text_key
    ),
    "a binary collation, and blanks": Odd(
        PLAIN.replace("id int", "id varchar(20) collate utf8mb4_bin"),
        key=lambda number: f"k{number} ",
    ),
    "a collation without padding, and blanks": Odd(
        PLAIN.replace("id int", "id varchar(20) collate {nopad}"), key=lambda number: f"k{number} "
    ),
    "a prefix key": Odd(PLAIN.replace("v text", "v text, m varchar(20), UNIQUE (m(10))")),
    "a primary key on a prefix": Odd(
        "CREATE TABLE {schema}.t (id varchar(60), n int, v text, PRIMARY KEY (id(10)))",
        key=text_key,
    ),
    "invisible columns": Odd(
        PLAIN.replace("v text", "v text, i int INVISIBLE DEFAULT 7, j int NULL INVISIBLE")
    ),
    "checks": Odd(PLAIN.replace("v text", "v text, CHECK (n >= 0), CHECK (v <> 'z')")),
    "a check that rows hurt": Odd(
        PLAIN.replace("v text", "v text, CONSTRAINT only_b CHECK (v <> 'b')"),
        TargetRejected,
        "only_b",
    ),
    "views over MyISAM": Odd(
        BASE + "MyISAM" + VIEW,
        TargetMisconfigured,
        "is a view over t[0-9a-f]*.base, which has the engine MyISAM",
    ),
    "partitions": Odd(PLAIN + " PARTITION BY HASH (id) PARTITIONS 4"),
    "MERGE": Odd(
        BASE + "MyISAM;; " + PLAIN + " ENGINE=MERGE UNION=({schema}.base) INSERT_METHOD=LAST",
        TargetMisconfigured,
        "no transactions",
    ),
}
MARIADB = {
    "system versioning": Odd(PLAIN + " WITH SYSTEM VERSIONING"),
    "system versioning by columns": Odd(
        PLAIN.replace("v text", ROWS + ", PERIOD FOR SYSTEM_TIME (b, e)")
        + " WITH SYSTEM VERSIONING"
    ),
    "views over Aria": Odd(
        BASE + "Aria" + VIEW,
        TargetMisconfigured,
        "is a view over t[0-9a-f]*.base, which has the engine Aria",
    ),
}


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("odd", POSTGRESQL)
def test_postgresql(postgresql_server: OddPostgresql, odd: str, count: int) -> None:
    check(postgresql_server, POSTGRESQL[odd], count)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("odd", MYSQL)
def test_mysql(mysql_server: OddMysql, odd: str, count: int) -> None:
    check(mysql_server, MYSQL[odd], count)


@pytest.mark.parametrize("mysql_server", ["mariadb"], indirect=True)
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("odd", MARIADB)
def test_mariadb(mysql_server: OddMysql, odd: str, count: int) -> None:
    check(mysql_server, MARIADB[odd], count)


LEAVES_OUT = """
    CREATE FUNCTION {schema}.leave_out() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RETURN CASE WHEN NEW.id % 3 = 0 THEN NULL ELSE NEW END; END $$;
    CREATE TRIGGER leave_out BEFORE INSERT OR UPDATE ON {schema}.t FOR EACH ROW EXECUTE FUNCTION {schema}.leave_out()"""


@pytest.mark.parametrize("count", SIZES)
def test_rows_that_a_trigger_leaves_out_count_as_missed(
    postgresql_server: OddPostgresql, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = postgresql_server
    server.execute(PLAIN)
    server.execute(LEAVES_OUT)
    replica = Replica(server, Odd(""), count)
    with loading(server.target()) as loader:
        counts = replica.run(loader)
    out = [count // 3 + (count % 3 > 0)]
    assert [(each.written, each.missed) for each in counts[:1]] == [(count - out[0], out[0])]
    for each, numbers in zip(
        counts[1:3], (range(count // 2, count // 2 + count), range(count // 2)), strict=True
    ):
        left_out = sum(number % 3 == 0 for number in numbers)
        assert each.written == len(numbers) - left_out
    kept = {number: row for number, row in replica.rows.items() if number % 3}
    assert replica.found() == sorted((str(number), int(n), v) for number, (n, v) in kept.items())
    assert caplog.text.count("a trigger before each row leaves them out") == 1


@pytest.mark.parametrize("count", SIZES)
def test_rows_of_nothing_but_a_key_that_are_there_are_not_taken_for_left_out(
    postgresql_server: OddPostgresql, count: int
) -> None:
    server = postgresql_server
    server.execute("CREATE TABLE {schema}.t (id int primary key)")
    with loading(server.target()) as loader:
        table = loader.table(TableId(server.schema, "t"))
        assert table is not None
        for missed in (0, 1):
            rows = ColumnRows([pa.array(map(str, range(count)), pa.string())])
            with loader.transaction() as transaction:
                assert transaction.write(
                    TableBatch(table, writes=[Writes(("id",), rows, are_new=True)])
                ) == Counts(written=count - missed, missed=missed)
            if not missed:
                server.execute(LEAVES_OUT.replace("% 3 = 0", "= 0"))
                server.execute("DELETE FROM {schema}.t WHERE id < 2")


def test_a_unique_index_with_nulls_not_distinct_is_no_key_where_it_takes_null(
    postgresql_server: OddPostgresql,
) -> None:
    """The source's NULLs are distinct: they would be one row."""
    postgresql_server.execute("CREATE TABLE {schema}.t (id int UNIQUE NULLS NOT DISTINCT)")
    with loading(postgresql_server.target()) as loader:
        table = loader.table(TableId(postgresql_server.schema, "t"))
    assert table is not None
    assert table.key == ()


@pytest.mark.parametrize("mysql_server", ["mysql_9"], indirect=True)
def test_a_key_that_the_target_computes_is_refused_unless_there_is_another(
    postgresql_server: OddPostgresql, mysql_server: OddMysql
) -> None:
    for server in (postgresql_server, mysql_server):
        server.execute(
            "CREATE TABLE {schema}.t (id int not null, n int, v text, "
            "g int GENERATED ALWAYS AS (id * 2) STORED primary key)"
        )
        with loading(server.target()) as loader:
            name = TableId(server.schema, "t")
            table = loader.table(name)
            assert table is not None
            assert table.unsafe.startswith(f"target table {name} computes g of its key")
        server.execute("CREATE UNIQUE INDEX own ON {schema}.t (id)")
        replica = Replica(server, Odd(""), 300)
        with loading(server.target()) as loader:
            counts = replica.run(loader)
        assert replica.found() == replica.expected()
        assert_counted(counts, 300)


def test_rights_that_a_user_lacks_are_told_by_column(
    postgresql_server: OddPostgresql, mysql_server: OddMysql
) -> None:
    told = "gives this user no right to UPDATE its columns id, n"
    for server, rights in (
        (
            postgresql_server,
            poor("REVOKE UPDATE, DELETE ON %s FROM %s", "GRANT UPDATE (v) ON %s TO %s"),
        ),
        (mysql_server, ("SELECT, INSERT, UPDATE (v)",)),
    ):
        server.execute(PLAIN)
        with loading(server.with_rights(rights)) as loader:
            table = loader.table(TableId(server.schema, "t"))
        assert table is not None
        assert told in table.remarks
        assert ("gives this user no right to DELETE rows" in table.remarks) is isinstance(
            server, OddPostgresql
        )


@pytest.mark.parametrize("count", SIZES)
def test_without_the_right_to_make_temporary_tables_rows_go_one_by_one(
    mysql_server: OddMysql, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    mysql_server.execute(PLAIN.replace("n int", "n int UNIQUE"))
    replica = Replica(mysql_server, Odd(""), count)
    with loading(mysql_server.with_rights(("SELECT, INSERT, UPDATE, DELETE",))) as loader:
        counts = replica.run(loader)
    assert replica.found() == replica.expected()
    assert_counted(counts, count)
    assert caplog.text.count("GRANT CREATE TEMPORARY TABLES") == (count > 8)


AT_THE_LIMIT: Final = {
    "bytes": ["v varchar(16381) character set utf8mb4"],
    "columns": [f"v{number} int" for number in range(1015)],
}


@pytest.mark.parametrize("limit", AT_THE_LIMIT)
def test_rows_that_no_temporary_table_can_hold_go_one_by_one(
    mysql_server: OddMysql, limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    columns = ["id int primary key", "n int unique", *AT_THE_LIMIT[limit]]
    mysql_server.execute(f"CREATE TABLE {{schema}}.t ({', '.join(columns)})")
    names = tuple(column.partition(" ")[0] for column in columns)
    with loading(mysql_server.target()) as loader:
        table = loader.table(TableId(mysql_server.schema, "t"))
        assert table is not None
        for cell, expected in (("1", 0), ("2", 20)):
            cells = [cell] * (len(names) - 2)
            rows = [(str(number), str(number), *cells) for number in range(20)]
            with loader.transaction() as transaction:
                writes = Writes(names, rows, may_insert=True, expected=expected)
                transaction.write(TableBatch(table, writes=[writes]))
    changed = f"SELECT COUNT(*) FROM {{schema}}.t WHERE {names[-1]} = 2"
    assert mysql_server.rows(changed) == [(20,)]
    assert caplog.text.count("one by one") == 1


@pytest.mark.parametrize("table", ["cdcbus_stage", "CDCBUS_STAGE"])
def test_a_table_may_have_the_name_of_the_temporary_one(mysql_server: OddMysql, table: str) -> None:
    mysql_server.execute(
        PLAIN.replace("n int", "n int UNIQUE").replace("{schema}.t", f"{{schema}}.{table}")
    )
    rows = [(str(number), str(number), "a") for number in range(100)]
    with loading(mysql_server.target()) as loader:
        found = loader.table(TableId(mysql_server.schema, table))
        assert found is not None
        for expected in (0, len(rows)):
            with loader.transaction() as transaction:
                writes = Writes(NAMES, rows, may_insert=True, expected=expected)
                transaction.write(TableBatch(found, writes=[writes]))
    assert mysql_server.rows(f"SELECT COUNT(*) FROM {{schema}}.{table}") == [(100,)]


def test_a_view_of_postgresql_takes_new_rows_and_says_why_no_others(
    postgresql_server: OddPostgresql,
) -> None:
    server = postgresql_server
    server.execute("CREATE TABLE {schema}.base (id int primary key, v text)")
    server.execute("CREATE VIEW {schema}.t AS SELECT * FROM {schema}.base")
    with loading(server.target()) as loader:
        loader.fence()
        table = loader.table(TableId(server.schema, "t"))
        assert table is not None
        [remark] = table.remarks
        assert remark.startswith("is a view, of which no key is known: it takes new rows")
        for pairs, says in (
            ([(None, ("1", "a"))], ""),
            ([(("1", "a"), ("1", "b"))], "is a view, of which no key is known, and only"),
            ([(("1", "a"), None)], "is a view, of which no key is known, and only"),
        ):
            batch = TableBatch(table, swaps=[Swaps(("id", "v"), pairs)])
            refused = pytest.raises(TargetTableUnfit, match=says) if says else nullcontext()
            with refused, loader.transaction() as transaction:
                transaction.write(batch)
    assert server.rows("SELECT id, v FROM {schema}.t") == [(1, "a")]


def test_a_view_over_a_table_with_transactions_is_written(mysql_server: OddMysql) -> None:
    mysql_server.execute_each(BASE + "InnoDB" + VIEW)
    with loading(mysql_server.target()) as loader:
        table = loader.table(TableId(mysql_server.schema, "t"))
    assert table is not None
    assert table.unsafe == ""
    [remark] = table.remarks
    assert remark.startswith("is a view, of which no key is known: rows are found by all")
