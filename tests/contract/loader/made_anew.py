"""A table that somebody makes anew or empties is noticed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cdcbus.plugins.contracts import Loader, TableBatch, TargetTable, Writes
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import TableId
from tests.contract.loader.base import LoaderBase
from tests.contract.target_server import TargetServer
from tests.support.waiting import wait_until

COLUMNS = "id int primary key, v int"
DROPPED = ("DROP TABLE {schema}.t", f"CREATE TABLE {{schema}}.t ({COLUMNS})")
EMPTIED = ("TRUNCATE TABLE {schema}.t",)
RESTORED = (
    "CREATE TABLE {schema}.u AS SELECT * FROM {schema}.t WHERE id < 2",
    *DROPPED,
    "INSERT INTO {schema}.t SELECT * FROM {schema}.u",
)


# Copies the table to other storage on each server.
COPIED = "ALTER TABLE {{schema}}.{} ADD w serial"


def rows(*keys: str) -> Writes:
    return Writes(("id", "v"), [(key, "1") for key in keys])


def next_second() -> None:
    """MySQL and MariaDB show the time of a table's creation in whole seconds."""
    second = int(time.time())
    wait_until(lambda: int(time.time()) > second, "the next second")


class MadeAnew(LoaderBase):
    @pytest.fixture
    def written(self, server: TargetServer, loader: Loader) -> TargetTable:
        """A table with rows, which was looked at."""
        table = self.table(server, loader, COLUMNS)
        self.write(loader, table, rows("1", "2"))
        assert loader.lost_tables() == []
        return table

    @pytest.fixture
    def next_run(self, server: TargetServer) -> Iterator[Loader]:
        loader = make_loader("JdbcBatch", server.target())
        yield loader
        loader.close()

    @pytest.mark.parametrize(
        "statements", [DROPPED, EMPTIED, RESTORED], ids=["dropped", "emptied", "restored"]
    )
    def test_a_table_made_anew_while_the_task_runs_is_noticed_once(
        self,
        server: TargetServer,
        loader: Loader,
        written: TargetTable,
        statements: tuple[str, ...],
    ) -> None:
        for sql in statements:
            server.execute(sql)
        self.write(loader, written, rows("3"))
        [sentence] = loader.lost_tables()
        assert sentence.startswith(f"target table {written.id} ")
        assert loader.lost_tables() == []

    @pytest.mark.parametrize(
        "statements", [DROPPED, EMPTIED, RESTORED], ids=["dropped", "emptied", "restored"]
    )
    def test_a_table_made_anew_between_two_runs_is_noticed(
        self,
        server: TargetServer,
        loader: Loader,
        next_run: Loader,
        written: TargetTable,
        statements: tuple[str, ...],
    ) -> None:
        loader.close()
        for sql in statements:
            server.execute(sql)
        table = next_run.table(TableId(*written.id))
        assert table is not None
        self.write(next_run, table, rows("3"))
        [sentence] = next_run.lost_tables()
        assert sentence.startswith(f"target table {written.id} ")

    def test_a_table_that_is_missing_for_a_while_is_noticed(
        self, server: TargetServer, loader: Loader, written: TargetTable
    ) -> None:
        server.execute(DROPPED[0])
        assert loader.lost_tables() == []
        server.execute(DROPPED[1])
        assert len(loader.lost_tables()) == 1
        assert written.id.table == "t"

    @pytest.mark.parametrize(
        "sql",
        [
            "ALTER TABLE {schema}.t ADD w int",
            "ALTER TABLE {schema}.t DROP COLUMN v",
            "CREATE INDEX of_v ON {schema}.t (v)",
        ],
    )
    def test_an_altered_table_is_the_same(
        self, server: TargetServer, loader: Loader, next_run: Loader, written: TargetTable, sql: str
    ) -> None:
        next_second()
        server.execute(sql)
        assert loader.lost_tables() == []
        assert next_run.lost_tables() == []
        assert written.id.table == "t"

    def test_a_table_whose_rows_the_task_deletes_is_the_same(
        self, server: TargetServer, loader: Loader, written: TargetTable
    ) -> None:
        self.write(loader, written, deletes=[("1",), ("2",)])
        next_second()
        server.execute(COPIED.format("t"))
        assert loader.lost_tables() == []
        self.write(loader, written, rows("7"))
        assert loader.lost_tables() == []
        self.write(loader, written, truncate=True)
        next_second()
        server.execute("ALTER TABLE {schema}.t DROP COLUMN w")
        assert loader.lost_tables() == []

    def test_the_next_run_expects_no_row_that_the_task_has_deleted(
        self, server: TargetServer, loader: Loader, next_run: Loader, written: TargetTable
    ) -> None:
        """As in a table that is a queue, which has other storage afterwards."""
        self.write(loader, written, deletes=[("1",), ("2",)])
        assert loader.lost_tables() == []
        next_second()
        server.execute(EMPTIED[0])
        assert next_run.lost_tables() == []

    def test_the_next_run_expects_no_row_of_a_table_that_the_task_has_emptied(
        self, server: TargetServer, loader: Loader, next_run: Loader, written: TargetTable
    ) -> None:
        """Also where the task was killed before it has looked again."""
        with loader.transaction() as transaction, pytest.raises(KeyError), transaction.savepoint():
            transaction.write(TableBatch(written, truncate=True))
            raise KeyError
        self.write(loader, written, truncate=True)
        next_second()
        server.execute(COPIED.format("t"))
        assert next_run.lost_tables() == []

    def test_the_task_empties_a_table_without_its_notes(
        self, server: TargetServer, loader: Loader, written: TargetTable
    ) -> None:
        server.execute("DROP TABLE {schema}.cdcbus_tables")
        self.write(loader, written, rows("3"), truncate=True)
        assert self.rows(server, "id") == [(3,)]

    def test_rows_that_foreign_keys_may_delete_are_not_expected(
        self, server: TargetServer, loader: Loader
    ) -> None:
        server.execute(f"CREATE TABLE {{schema}}.t ({COLUMNS})")
        key = "FOREIGN KEY (v) REFERENCES {schema}.t (id) ON DELETE CASCADE"
        child = self.table(server, loader, f"{COLUMNS}, {key}", "c")
        parent = loader.table(TableId(server.schema, "t"))
        assert parent is not None
        self.write(loader, parent, rows("1"))
        self.write(loader, child, rows("5"))
        assert loader.lost_tables() == []
        self.write(loader, parent, deletes=[("1",)])
        next_second()
        server.execute(COPIED.format("c"))
        assert loader.lost_tables() == []

    def test_a_table_of_which_others_delete_some_rows_is_the_same(
        self, server: TargetServer, loader: Loader, next_run: Loader, written: TargetTable
    ) -> None:
        self.write(loader, written, rows("3"))
        assert loader.lost_tables() == []
        server.execute("DELETE FROM {schema}.t WHERE id = 3")
        next_second()
        server.execute(COPIED.format("t"))
        assert loader.lost_tables() == next_run.lost_tables() == []
        next_second()
        server.execute(EMPTIED[0])
        assert len(loader.lost_tables()) == 1

    def test_rows_that_were_undone_are_not_expected(
        self, server: TargetServer, loader: Loader, written: TargetTable
    ) -> None:
        with loader.transaction() as transaction:
            transaction.write(TableBatch(written, writes=[rows("3")]))
            with pytest.raises(KeyError), transaction.savepoint():
                transaction.write(TableBatch(written, writes=[rows("4")]))
                raise KeyError
        assert loader.lost_tables() == []
        server.execute("ALTER TABLE {schema}.t ADD w int")
        assert loader.lost_tables() == []

    def test_a_table_made_anew_is_accepted_where_an_operator_says_where_to_begin(
        self, server: TargetServer, loader: Loader, next_run: Loader, written: TargetTable
    ) -> None:
        for sql in DROPPED:
            server.execute(sql)
        next_run.accept_tables()
        assert next_run.table(written.id) is not None
        assert next_run.lost_tables() == []

    def test_a_target_that_was_restored_with_its_notes_is_the_same(
        self, server: TargetServer, loader: Loader, next_run: Loader, written: TargetTable
    ) -> None:
        for table in ("t", "cdcbus_tables"):
            server.execute(f"CREATE TABLE {{schema}}.c AS SELECT * FROM {{schema}}.{table}")
            server.execute(f"DROP TABLE {{schema}}.{table}")
            server.execute(f"CREATE TABLE {{schema}}.{table} AS SELECT * FROM {{schema}}.c")
            server.execute("DROP TABLE {schema}.c")
        server.execute("ALTER TABLE {schema}.t ADD PRIMARY KEY (id)")
        assert next_run.lost_tables() == []
        server.execute(EMPTIED[0])
        assert len(next_run.lost_tables()) == 1
        assert written.id.table == "t"

    def test_a_table_of_notes_dropped_meanwhile_is_made_again(
        self, server: TargetServer, loader: Loader, written: TargetTable
    ) -> None:
        for _ in range(2):
            server.execute("DROP TABLE {schema}.cdcbus_tables")
            loader.accept_tables()
            assert loader.lost_tables() == []
        server.execute("DROP TABLE {schema}.cdcbus_tables")
        self.write(loader, written, rows("3"))
        # It is noticed by the first of these, and made by the second.
        assert loader.lost_tables() == loader.lost_tables() == []
        assert server.rows("SELECT COUNT(*) FROM {schema}.cdcbus_tables") == [(2,)]

    def test_without_a_table_for_notes_the_process_notices_it(self, server: TargetServer) -> None:
        server.execute(f"CREATE TABLE {{schema}}.t ({COLUMNS})")
        loader = make_loader("JdbcBatch", server.without_rights_to_create())
        table = loader.table(TableId(server.schema, "t"))
        assert table is not None
        self.write(loader, table, rows("1"))
        assert loader.lost_tables() == []
        # Without the right PROCESS, MySQL and MariaDB show nothing else.
        next_second()
        for sql in DROPPED:
            server.execute(sql)
        server.without_rights_to_create()
        assert len(loader.lost_tables()) == 1
        loader.close()
