"""A target that takes no writes any more, as another server has its address by now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, Loader
from cdcbus.plugins.errors import TargetUnavailable
from cdcbus.plugins.loaders import make_loader
from tests.integration.plugins.loaders.test_loaders import PostgresqlServer
from tests.support.line import Line
from tests.support.private_mariadb import PrivateMariadb, private_mariadb

pytestmark = pytest.mark.integration
OFFSET = AppliedOffset("orders", 0, 5, 1)


def store(loader: Loader) -> None:
    with loader.transaction() as transaction:
        transaction.store_offset(OFFSET, None)


@pytest.fixture
def primary() -> Iterator[PrivateMariadb]:
    with private_mariadb() as server:
        yield server


def test_connections_leave_a_server_that_has_become_read_only(
    primary: PrivateMariadb, name: str
) -> None:
    """The address, as a DNS name, leads to another server; nobody ends the open connections."""
    with private_mariadb() as promoted:
        for server in (primary, promoted):
            server.execute(
                f"CREATE DATABASE {name}",
                "CREATE USER loader IDENTIFIED BY 'loader'",
                f"GRANT ALL ON {name}.* TO loader",
            )
        at, then = primary.database, promoted.database
        line = Line(f"{at.host}:{at.port}")
        url = f"jdbc:mariadb://{line.address}/{name}"
        loader = make_loader("JdbcBatch", JdbcTarget(url, "loader", "loader", task_id="t"))
        try:
            assert loader.applied_offsets() == []
            line.lead_to(f"{then.host}:{then.port}")
            primary.execute("SET GLOBAL read_only = 1")
            with pytest.raises(TargetUnavailable, match="1290"):
                store(loader)
            # It has replicated the table of offsets.
            replica = JdbcTarget(
                f"jdbc:mariadb://{then.host}:{then.port}/{name}", "loader", "loader", task_id="t"
            )
            with closing(make_loader("JdbcBatch", replica)) as there:
                assert there.applied_offsets() == []
                store(loader)
                assert there.applied_offsets() == [OFFSET]
        finally:
            loader.close()
            line.close()


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
