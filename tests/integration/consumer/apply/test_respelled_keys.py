"""A key of which the target stores the value, spelled in another way by the source: its row is in
the target whichever partition is ahead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import Column, Op, Row, Table, TableId
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_equal_keys_in_partitions import assert_ends
from tests.integration.consumer.apply.test_row_order import Source
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration
SMALL, CAPITALS = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"
# The type of the target's key, the type of the source's, and two spellings of one value.
KINDS = {
    "postgresql-uuid": ("uuid", "char(36)", CAPITALS, SMALL),
    "postgresql-inet": ("inet", "varchar(40)", "0:0::1", "::1"),
    "postgresql-number": ("bigint", "varchar(9)", "017", "17"),
    "mariadb-uuid": ("uuid", "char(36)", CAPITALS, SMALL),
    "mariadb-inet": ("inet6", "varchar(40)", "0:0::1", "::1"),
}


@pytest.fixture(params=[*KINDS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest, name: str, kind: str) -> Iterator[TargetServer]:
    database = kind.partition("-")[0]
    at: Database = request.getfixturevalue(database)
    is_mysql = database == "mariadb"
    server = MysqlServer(at, name) if is_mysql else PostgresqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    server.execute(f"CREATE TABLE {{schema}}.users (id {KINDS[kind][0]} PRIMARY KEY, v INT)")
    yield server
    server.execute("DROP SCHEMA {schema}" + ("" if is_mysql else " CASCADE"))


@pytest.mark.parametrize("is_first_small", [False, True], ids=["to small", "to capitals"])
def test_a_row_whose_key_is_spelled_in_another_way_stays(
    server: TargetServer, kind: str, is_first_small: bool
) -> None:
    _, source_type, *spellings = KINDS[kind]
    old, new = spellings[::-1] if is_first_small else spellings
    users = Table(
        TableId("shop", "users"), (Column("id", source_type), Column("v", "int")), ("id",)
    )
    source = Source(users, ("id",), {})
    rows: list[Row] = [{"id": old, "v": "1"}, {"id": new, "v": "2"}, {"id": new, "v": "3"}]
    source.change(Op.INSERT, None, rows[0])
    source.change(Op.UPDATE, rows[0], rows[1])
    source.change(Op.UPDATE, rows[1], rows[2])
    assert len(source.partitions) == 2, "both spellings are in one partition"
    assert_ends(server, source, [(3,)], columns="v")
