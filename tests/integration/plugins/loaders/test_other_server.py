"""A target whose address leads to another server by now, while the former one stays up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, Loader
from cdcbus.plugins.errors import OffsetConflict, TargetUnavailable
from cdcbus.plugins.loaders import engine, make_loader
from tests.support.servers.line import Line
from tests.support.servers.private_mariadb import PrivateMariadb, private_mariadb
from tests.support.servers.target_servers import PostgresqlServer

pytestmark = pytest.mark.integration
OFFSET = AppliedOffset("orders", 0, 5, 1)


def store(loader: Loader) -> None:
    with loader.transaction() as transaction:
        transaction.store_offset(OFFSET, None)


@dataclass(frozen=True)
class Moving:
    """An address, as a DNS name, that first leads to the former primary, and then to another
    server. Nobody ends the open connections."""

    former: PrivateMariadb
    promoted: PrivateMariadb
    line: Line
    schema: str

    def move(self) -> None:
        there = self.promoted.database
        self.line.lead_to(f"{there.host}:{there.port}")

    def loader(self) -> Loader:
        return self._loader(self.line.address)

    def stored(self, server: PrivateMariadb) -> list[AppliedOffset]:
        at = server.database
        with closing(self._loader(f"{at.host}:{at.port}")) as loader:
            return loader.applied_offsets()

    def _loader(self, address: str) -> Loader:
        url = f"jdbc:mariadb://{address}/{self.schema}"
        return make_loader("JdbcBatch", JdbcTarget(url, "loader", "loader", task_id="t"))


@pytest.fixture
def moving(name: str) -> Iterator[Moving]:
    with private_mariadb() as former, private_mariadb() as promoted:
        for server in (former, promoted):
            server.execute(
                f"CREATE DATABASE {name}",
                "CREATE USER loader IDENTIFIED BY 'loader'",
                f"GRANT ALL ON {name}.* TO loader",
            )
        at = former.database
        line = Line(f"{at.host}:{at.port}")
        found = Moving(former, promoted, line, name)
        # Both have the table of offsets, as after a replication.
        assert (found.stored(former), found.stored(promoted)) == ([], [])
        yield found
        line.close()


def test_connections_leave_a_server_that_has_become_read_only(moving: Moving) -> None:
    with closing(moving.loader()) as loader:
        assert loader.applied_offsets() == []
        moving.move()
        moving.former.execute("SET GLOBAL read_only = 1")
        with pytest.raises(TargetUnavailable, match="1290"):
            store(loader)
        store(loader)
    assert (moving.stored(moving.former), moving.stored(moving.promoted)) == ([], [OFFSET])


def test_a_take_over_goes_where_the_address_leads(moving: Moving) -> None:
    with closing(moving.loader()) as loader:
        store(loader)
        moving.move()
        loader.end_other_sessions()
        assert loader.fence() == []


def test_an_offset_that_is_another_one_there_ends_all_connections(moving: Moving) -> None:
    with closing(moving.loader()) as loader:
        store(loader)
        moving.move()
        with pytest.raises(OffsetConflict):
            store(loader)
        assert loader.applied_offsets() == []


def test_connections_are_replaced_after_a_while(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RECYCLE_SECONDS", 0)
    with closing(moving.loader()) as loader:
        assert loader.applied_offsets() == []
        moving.move()
        store(loader)
    assert (moving.stored(moving.former), moving.stored(moving.promoted)) == ([], [OFFSET])


def test_connections_leave_a_session_that_takes_no_writes(postgresql: Database, name: str) -> None:
    server = PostgresqlServer(postgresql, name)
    server.execute("CREATE SCHEMA {schema}")
    server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'loader'")
    loader = make_loader("JdbcBatch", server.target(user=name, password="loader"))
    try:
        server.execute(f"GRANT ALL ON SCHEMA {{schema}} TO {name}")
        server.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
        with pytest.raises(TargetUnavailable, match="25006"):
            loader.fence()
        server.execute(f"ALTER ROLE {name} RESET default_transaction_read_only")
        assert loader.fence() == []
        store(loader)
    finally:
        loader.close()
        server.execute("DROP SCHEMA {schema} CASCADE")
        server.execute(f"DROP ROLE {name}")
