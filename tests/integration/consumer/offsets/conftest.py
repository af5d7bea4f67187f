"""What the tests of offsets share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.start import Edge
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.tasks.zookeeper.connection import connect
from tests.contract.target_server import TargetServer
from tests.integration.consumer.offsets.world import World
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, name: str) -> Iterator[TargetServer]:
    at: Database = request.getfixturevalue(request.param)
    server = PostgresqlServer(at, name) if request.param == "postgresql" else MysqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    server.execute("CREATE TABLE {schema}.seen (p INT, o INT)")
    yield server
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


@pytest.fixture
def world(
    server: TargetServer, name: str, kafka: str, zookeeper: str, make_topic: Callable[..., str]
) -> Iterator[World]:
    make_topic(name, 3)
    rules = (MapperRule(schema=("shop", server.schema)),)
    task = LoadTask(
        name, TopicConfig(kafka, (name,)), "canalRow", "JdbcBatch", server.target(), rules=rules
    )
    task = replace(task, first_consume_from=Edge.EARLIEST)
    with ExitStack() as stack:
        client = connect(f"{zookeeper}/{name}")
        stack.callback(client.close)
        stack.callback(client.stop)
        world = World(task, server, client, kafka)
        world.produce()
        try:
            yield world
        finally:
            for process in world.processes:
                process.end()
