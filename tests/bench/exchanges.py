"""How long it takes to apply rows that exchange unique values across partitions: `python -m
tests.bench.exchanges ADDRESS...`

Each ADDRESS is a target: `postgresql://user:password@host:port/database` or `mysql://...`. Partitions
are applied as the driver does, without Kafka and Spark.
"""

from __future__ import annotations

import sys
import time
import uuid
from urllib.parse import urlsplit

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.transform.rules import MapperRule
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_together import Source, driving
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

COUNTS = (90, 1000)


def main() -> None:
    for address in sys.argv[1:]:
        url = urlsplit(address)
        at = Database(
            url.hostname or "", url.port or 0, url.username or "", url.password or "", url.path[1:]
        )
        name = "x" + uuid.uuid4().hex[:10]
        server: TargetServer
        if url.scheme == "postgresql":
            server = PostgresqlServer(at, name)
            # It drops no schema that holds tables without it.
            ending = " CASCADE"
        else:
            server = MysqlServer(at, name)
            ending = ""
        server.execute("CREATE SCHEMA {schema}")
        try:
            for count in COUNTS:
                for rows in (2, 3):
                    sys.stdout.write(
                        f"{url.scheme}: {count} exchanges of {rows} rows: "
                        f"{seconds(server, count, rows):.2f} s\n"
                    )
        finally:
            server.execute("DROP SCHEMA {schema}" + ending)


def seconds(server: TargetServer, count: int, rows: int) -> float:
    server.execute("DROP TABLE IF EXISTS {schema}.users")
    server.execute(
        "CREATE TABLE {schema}.users (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE)"
    )
    rules = (MapperRule(schema=("shop", server.schema)),)
    task = LoadTask(
        uuid.uuid4().hex[:8],
        TopicConfig("", ("shop",)),
        "canalRow",
        "JdbcBatch",
        JdbcTarget(""),
        rules=rules,
    )
    source = Source()
    for key in range(count * rows):
        source.put(key, f"name {key}")
    with driving(server, task, source) as drive:
        drive.apply([*map(len, source.partitions)])
        for at in range(count):
            source.rotate(range(at * rows, (at + 1) * rows), f"between {at}")
        began = time.perf_counter()
        drive.apply([*map(len, source.partitions)])
        took = time.perf_counter() - began
    assert drive.at == [*map(len, source.partitions)]
    assert {*server.rows("SELECT id, name FROM {schema}.users")} == {*source.rows.items()}
    return took


if __name__ == "__main__":
    main()
