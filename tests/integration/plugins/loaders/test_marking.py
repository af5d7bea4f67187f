"""`loader.mark` on a real target."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import AppliedOffset
from cdcbus.plugins.errors import TargetTableUnfit
from cdcbus.plugins.loaders import make_loader
from tests.contract.target_server import TargetServer
from tests.support.servers.target_servers import MysqlServer

pytestmark = pytest.mark.integration


@pytest.fixture
def server(mariadb: Database, name: str) -> Iterator[TargetServer]:
    server = MysqlServer(mariadb, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema}")


def test_the_table_of_marks_is_made_again_where_somebody_has_dropped_it(
    server: TargetServer,
) -> None:
    loader = make_loader("JdbcBatch", server.target(mark="from_a"))
    assert loader.fence() == []
    server.execute("DROP TABLE {schema}.cdcbus_mark_from_a")
    with pytest.raises(TargetTableUnfit, match="cdcbus_mark_from_a"):
        loader.fence()
    assert loader.fence() == []
    server.execute("DROP TABLE {schema}.cdcbus_mark_from_a")
    offset = AppliedOffset("orders", 0, 1, 1)
    with pytest.raises(TargetTableUnfit), loader.transaction() as transaction:
        transaction.store_offset(offset, None)
    with loader.transaction() as transaction:
        transaction.store_offset(offset, None)
    assert loader.applied_offsets() == [offset]
    loader.close()
