"""Transactions, savepoints, and loaders that write nothing."""

import logging
import re

import pytest

from cdcbus.plugins.contracts import (
    AppliedOffset,
    Counts,
    Loader,
    Swaps,
    TableBatch,
    Writes,
)
from cdcbus.plugins.errors import (
    RowConflict,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import Column, TableId
from tests.contract.loader.base import LoaderBase
from tests.contract.target_server import TargetServer


class Transactions(LoaderBase):
    def test_a_truncate_is_undone_with_its_transaction(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        with pytest.raises(KeyError), loader.transaction() as transaction:
            transaction.write(
                TableBatch(table, truncate=True, writes=[Writes(("id", "v"), [("2", "2")])])
            )
            raise KeyError
        assert self.rows(server) == [(1, 1)]
        self.write(loader, table, Writes(("id", "v"), [("2", "2")]), truncate=True)
        assert self.rows(server) == [(2, 2)]

    def test_a_table_that_others_refer_to_is_emptied_once_no_row_does(
        self, server: TargetServer, loader: Loader
    ) -> None:
        parent = self.table(server, loader, "id int primary key, v int")
        key = "foreign key (v) references {schema}.t (id)"
        child = self.table(server, loader, f"id int primary key, v int, {key}", name="child")
        for table in (parent, child):
            self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        with pytest.raises(RowConflict):
            self.write(loader, parent, truncate=True)
        assert self.rows(server) == [(1, 1)]
        with loader.transaction() as transaction:
            transaction.write(TableBatch(child, truncate=True))
            new = [Writes(("id", "v"), [("2", "2")])]
            transaction.write(TableBatch(parent, truncate=True, writes=new))
        assert self.rows(server) == [(2, 2)]
        assert server.rows("SELECT id FROM {schema}.child") == []

    @pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
    def test_a_truncate_takes_no_row_of_another_table_with_it(
        self, server: TargetServer, loader: Loader, action: str
    ) -> None:
        own = "foreign key (v) references {schema}.t (id) on delete cascade"
        server.execute(f"CREATE TABLE {{schema}}.t (id int primary key, v int, {own})")
        key = f"foreign key (v) references {{schema}}.t (id) on delete {action}"
        child = self.table(server, loader, f"id int primary key, v int, {key}", name="child")
        table = loader.table(TableId(server.schema, "t"))
        assert table is not None
        for each in (table, child):
            self.write(loader, each, Writes(("id", "v"), [("1", "1")]))
        with pytest.raises(RowConflict, match=r"emptied while \w+\.child has rows"):
            self.write(loader, table, truncate=True)
        assert server.rows("SELECT id, v FROM {schema}.child") == [(1, 1)]
        self.write(loader, child, truncate=True)
        self.write(loader, table, truncate=True)
        assert self.rows(server) == []

    def test_what_a_savepoint_held_is_undone_and_the_transaction_goes_on(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(9) unique")
        self.write(loader, table, Writes(("id", "v"), [("1", "a"), ("2", "b")]))
        with loader.transaction() as transaction:
            with pytest.raises(RowConflict), transaction.savepoint():
                transaction.write(TableBatch(table, deletes=[("2",)]))
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("3", "a")])]))
            for key, cell in (("1", "c"), ("3", "a")):
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [(key, cell)])]))
        assert self.rows(server) == [(1, "c"), (2, "b"), (3, "a")]

    def test_what_came_before_a_savepoint_is_not_undone_with_it(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        new = [TableBatch(table, writes=[Writes(("id", "v"), [(key, "1")])]) for key in "1234"]
        with loader.transaction() as transaction:
            with pytest.raises(KeyError), transaction.savepoint():  # the transaction's beginning
                with transaction.savepoint():
                    transaction.write(new[0])
                raise KeyError
            transaction.write(new[1])
            with pytest.raises(KeyError), transaction.savepoint():
                transaction.write(new[2])
                raise KeyError
            with pytest.raises(KeyError), transaction.savepoint():
                transaction.write(new[3])
                raise KeyError
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
            with pytest.raises(KeyError), transaction.savepoint():
                raise KeyError
        assert self.rows(server) == [(2, 1)]
        assert loader.applied_offsets() == [AppliedOffset("orders", 0, 5, 1)]

    def test_a_savepoint_that_holds_is_kept(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        with loader.transaction() as transaction, transaction.savepoint():
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
        assert self.rows(server) == [(1, 1)]

    # Other loaders

    def test_a_dry_run_logs_statements_without_cells_and_changes_nothing(
        self, server: TargetServer, loader: Loader, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(20)")
        unkeyed = self.table(server, loader, "id int, v varchar(20)", name="u")
        self.write(loader, table, Writes(("id", "v"), [("1", "a")]))
        dry = make_loader("JdbcSqlDebug", server.target())
        assert (dry.is_dry_run, loader.is_dry_run) == (True, False)
        swaps = [
            Swaps(
                ("id", "v"),
                [
                    (("42", "SECRET"), None),
                    (("43", "SECRET"), ("44", "SECRET")),
                    (None, ("45", "SECRET")),
                ],
            )
        ]
        with caplog.at_level(logging.INFO), dry.transaction() as transaction:
            writes = [
                Writes(("id", "v"), [("42", "SECRET")] * 20),
                Writes(("id", "v"), [("42", "SECRET")], may_insert=False),
            ]
            assert transaction.write(TableBatch(table, True, [("1",)], writes)) == Counts(
                written=21, deleted=1
            )
            with transaction.savepoint():
                assert transaction.write(TableBatch(unkeyed, swaps=swaps)) == Counts(
                    written=2, deleted=1
                )
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        assert dry.evolve(table, [Column("new", "int")]) is table
        assert dry.applied_offsets() == loader.applied_offsets() == []
        assert self.rows(server) == [(1, "a")]
        messages = [
            record.getMessage() for record in caplog.records if "would run" in record.getMessage()
        ]
        assert all(message.startswith("task contract would run") for message in messages)
        assert "for 20 rows: INSERT" in "".join(messages)
        assert "SECRET" not in caplog.text
        assert not re.search(r"\b4[2345]\b", caplog.text)
        dry.close()

    def test_a_loader_tells_whether_it_takes_merged_changes(
        self, server: TargetServer, loader: Loader
    ) -> None:
        single = make_loader("JdbcSingle", server.target())
        assert (loader.is_merging, single.is_merging) == (True, False)
        table = self.table(server, loader, "id int primary key, v int")
        assert self.write(single, table, Writes(("id", "v"), [("1", "1")])) == Counts(written=1)
        single.close()
