"""What failures of the target are told as."""

import re
import threading
import traceback

import pytest

from cdcbus.plugins.contracts import (
    Loader,
    TableBatch,
    Writes,
)
from cdcbus.plugins.errors import (
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import Cell
from tests.contract.loader.base import LoaderBase
from tests.contract.target_server import TargetServer


class Failures(LoaderBase):
    def test_a_deadlock_is_unavailable_also_inside_a_savepoint(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "0"), ("2", "0")]))
        both_hold_one = threading.Barrier(2)
        outcomes: list[type[Exception] | None] = []

        def run(keys: tuple[str, str]) -> None:
            try:
                with loader.transaction() as transaction, transaction.savepoint():
                    transaction.write(
                        TableBatch(table, writes=[Writes(("id", "v"), [(keys[0], keys[0])])])
                    )
                    both_hold_one.wait(timeout=30)
                    transaction.write(
                        TableBatch(table, writes=[Writes(("id", "v"), [(keys[1], keys[0])])])
                    )
                outcomes.append(None)
            except Exception as error:
                outcomes.append(type(error))

        partitions = [
            threading.Thread(target=run, args=(keys,)) for keys in (("1", "2"), ("2", "1"))
        ]
        for partition in partitions:
            partition.start()
        for partition in partitions:
            partition.join(timeout=60)
        assert sorted(outcomes, key=str) == [TargetUnavailable, None]
        [(_, one), (_, two)] = self.rows(server)
        assert (one, two) in ((1, 1), (2, 2))

    def test_a_connection_lost_in_a_transaction_is_unavailable_then_all_is_well(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        batch = TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])])
        with (
            pytest.raises(TargetUnavailable),
            loader.transaction() as transaction,
            transaction.savepoint(),
        ):
            transaction.write(batch)
            assert server.kill_connections() >= 1
            transaction.write(batch)
        assert self.rows(server) == []
        with loader.transaction() as transaction:
            transaction.write(batch)
        assert self.rows(server) == [(1, 1)]

    def test_a_connection_lost_before_the_commit_is_unavailable(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        with pytest.raises(TargetUnavailable), loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
            server.kill_connections()
        assert self.rows(server) == []

    def test_a_connection_lost_while_idle_is_not_noticed(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        assert server.kill_connections() >= 1
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        assert self.rows(server) == [(1, 1)]

    def test_a_row_locked_for_too_long_is_unavailable(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        impatient = make_loader(
            "JdbcBatch", server.target(url=server.target().url + server.impatient)
        )
        held = server.hold("UPDATE {schema}.t SET v = 2")
        next(held)
        with pytest.raises(TargetUnavailable):
            self.write(impatient, table, Writes(("id", "v"), [("1", "3")]))
        del held
        self.write(impatient, table, Writes(("id", "v"), [("1", "3")]))
        assert self.rows(server) == [(1, 3)]
        impatient.close()

    @pytest.mark.parametrize(
        ("what", "error"),
        [
            ("password", TargetMisconfigured),
            ("database", TargetMisconfigured),
            ("port", TargetUnavailable),
        ],
    )
    def test_a_target_that_cannot_be_entered(
        self,
        server: TargetServer,
        what: str,
        error: type[TargetError],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        url = server.target().url
        target = {
            "password": server.target(password="wrong-secret"),
            "database": server.target(url=server.missing_database),
            "port": server.target(url=url.replace(url.split("/")[2], "127.0.0.1:1")),
        }[what]
        loader = make_loader("JdbcBatch", target)
        with pytest.raises(error) as refused, loader.transaction():
            pass
        assert caplog.records == []
        assert type(refused.value) is error
        assert "wrong-secret" not in str(refused.value)
        loader.close()
        loader.close()

    @pytest.mark.parametrize(
        ("type_", "cell", "named"),
        [
            ("int", "SECRET", True),
            ("smallint", "4242424242", True),
            ("varchar(3)", "SECRET", True),
            ("int not null", None, True),
            ("int check (v < 5)", "4242", False),
            ("binary", "SECRET\u0100", True),
            ("bits", "SECRET", True),
            ("moment", "2024-02-30 SECRET", True),
            ("document", '{"SECRET"', True),
            ("decimal", "SECRET", True),
            ("text", "SECRET\ud800", False),
        ],
    )
    @pytest.mark.parametrize("unique", [False, True])
    def test_a_cell_that_does_not_fit_is_rejected_without_being_shown(
        self,
        server: TargetServer,
        loader: Loader,
        type_: str,
        cell: Cell,
        named: bool,
        unique: bool,
    ) -> None:
        name = server.types[type_][0] if type_ in server.types else type_
        table = self.table(
            server, loader, f"id int primary key, v {name}{', u int unique' if unique else ''}"
        )
        with pytest.raises(TargetRejected) as refused:
            self.write(loader, table, Writes(("id", "v"), [("1", cell)]))
        assert type(refused.value) is TargetRejected
        message = str(refused.value)
        assert f"table {server.schema}.t" in message
        assert "SECRET" not in message
        assert "4242" not in message
        # MariaDB calls the check of a JSON column `t.v`
        assert not named or re.search(r"(?i)column [\"'`]?v\b|`\w+\.v`", message)
        assert "SECRET" not in "".join(traceback.format_exception(refused.value))

    def test_a_broken_reference_is_rejected_by_name(
        self, server: TargetServer, loader: Loader
    ) -> None:
        server.execute("CREATE TABLE {schema}.parent (id int primary key)")
        constraint = "constraint has_parent foreign key (v) references {schema}.parent (id)"
        table = self.table(server, loader, f"id int primary key, v int, {constraint}")
        with pytest.raises(TargetRejected, match="has_parent"):
            self.write(loader, table, Writes(("id", "v"), [("1", "4242")]))

    def test_a_table_dropped_meanwhile_is_not_the_rows_fault(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        server.execute("DROP TABLE {schema}.t")
        with pytest.raises(TargetTableUnfit, match=r"\.t"):
            self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
