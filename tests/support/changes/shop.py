"""A source schema with a copy of it in both targets, and task files between them: what tests of
whole tasks need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kazoo.retry import KazooRetry
from pymysql.cursors import Cursor

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.positions import kafka_positions_from_json
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.znodes import position_path
from tests.support.properties import dotted, properties

Query = Any  # runs a statement, returns its rows


@dataclass(slots=True)
class Shop:
    """`name` is the schema, the topic and the stem of task ids."""

    name: str
    addresses: Addresses
    folder: Path
    cursor: Cursor
    postgresql: Query
    mariadb: Query
    zookeeper: Any
    processes: list[TaskProcess]

    def create(self, table: str, mysql: str, postgresql: str | None = None) -> None:
        """Creates a table at the source and in both targets."""
        self.cursor.execute(f"CREATE TABLE {table} ({mysql})")
        self.mariadb(f"CREATE TABLE {self.name}.{table} ({mysql})")
        self.postgresql(f'CREATE TABLE {self.name}."{table}" ({postgresql or mysql})')

    def task(self, task_id: str, **keys: str) -> TaskProcess:
        """A process for a task file of these keys; `__` in a key is `.`. Not started yet; killed
        when the test ends."""
        file = self.folder / f"{task_id}.properties"
        lines = {
            "taskId": task_id,
            **dotted(keys),
        }
        file.write_text(properties(lines))
        process = TaskProcess(
            task_id, file, self.folder / f"{task_id}.log", self.addresses.zookeeper, self.folder
        )
        self.processes.append(process)
        return process

    def fetch(self, source: Database, **keys: str) -> TaskProcess:
        return self.task(
            f"{self.name}-fetch",
            **{
                "consumer__consumerName": "CanalFetch",
                "consumer__source__address": f"{source.host}:{source.port}",
                "consumer__source__username": source.user,
                "consumer__source__password": source.password,
                "consumer__source__database": self.name,
                "consumer__source__filter": f"{self.name}\\\\..*",
                "consumer__offset": "latest",
                "loader__loaderName": "KAFKA_SYNC",
                "loader__source__servers": self.addresses.kafka,
                "loader__source__topic": self.name,
                "loader__source__oggJson": "false",
                **keys,
            },
        )

    def load(self, target: str, **keys: str) -> TaskProcess:
        """`target` is postgresql or mariadb."""
        database: Database = getattr(self.addresses, target)
        kind, name = "mysql", self.name
        if target == "postgresql":
            kind, name = "postgresql", database.database
        return self.task(
            f"{self.name}-{target}",
            **{
                "consumer__consumerName": "KafkaFetch",
                "consumer__converter": "canalRow",
                "consumer__source__servers": self.addresses.kafka,
                "consumer__source__topics": self.name,
                "consumer__source__firstConsumeFrom": "earliest",
                "loader__loaderName": "JdbcBatch",
                "loader__source__url": f"jdbc:{kind}://{database.host}:{database.port}/{name}",
                "loader__source__userName": database.user,
                "loader__source__password": database.password,
                # A test's Spark ends before the second compiler's work pays.
                "spark__driver__extraJavaOptions": "-XX:TieredStopAtLevel=1",
                **keys,
            },
        )

    def path(self, task: TaskProcess, swimlane: str = "") -> str:
        return position_path(task.task_id, swimlane or self.name)

    def position(self, task: TaskProcess, swimlane: str = "") -> str | None:
        """The stored JSON of a task, by default of the topic that is named like the schema. Some
        tests kill ZooKeeper."""
        patient = KazooRetry(max_tries=-1, max_delay=1, deadline=60)
        path = self.path(task, swimlane)
        if not patient(self.zookeeper.exists, path):
            return None
        data: bytes = patient(self.zookeeper.get, path)[0]
        return data.decode()

    def ends(self, topic: str = "") -> dict[int, int]:
        """A topic's end offsets."""
        topic = topic or self.name
        consumer = Consumer({"bootstrap.servers": self.addresses.kafka, "group.id": "look"})
        try:
            found = {}
            for number in consumer.list_topics(topic).topics[topic].partitions:
                _, end = consumer.get_watermark_offsets(TopicPartition(topic, number))
                found[number] = end
            return found
        finally:
            consumer.close()

    def is_applied(self, task: TaskProcess, topic: str = "") -> bool:
        """Whether a consumer task's stored position is the end of a topic."""
        stored = self.position(task, topic)
        if stored is None:
            return False
        positions = kafka_positions_from_json(stored)
        offsets = {position.partition: position.next_offset for position in positions}
        try:
            return offsets == self.ends(topic)
        except KafkaException:  # a new topic's leader is not known everywhere at once
            return False

    def rows(self, table: str) -> dict[str, list[tuple[Any, ...]]]:
        """A table's rows everywhere, sorted."""
        self.cursor.execute(f"SELECT * FROM {table}")
        return {
            "source": sorted(self.cursor.fetchall()),
            "mariadb": sorted(self.mariadb(f"SELECT * FROM {self.name}.{table}")),
            "postgresql": sorted(self.postgresql(f'SELECT * FROM {self.name}."{table}"')),
        }


@contextmanager
def open_shop(name: str, addresses: Addresses, cursor: Cursor, folder: Path) -> Iterator[Shop]:
    """Opens a shop. Its schemas are dropped and its processes killed at the end."""
    pg, my = addresses.postgresql, addresses.mariadb
    with ExitStack() as stack:
        zookeeper = connect(addresses.zookeeper)
        stack.callback(zookeeper.close)
        stack.callback(zookeeper.stop)

        def run_postgresql(sql: str) -> list[Any]:
            """Uses a connection of its own: some tests kill the server."""
            with psycopg.connect(
                host=pg.host, port=pg.port, user=pg.user, password=pg.password, dbname=pg.database
            ) as connection:
                found = connection.execute(sql.encode())
                return found.fetchall() if found.description else []

        def run_mariadb(sql: str) -> list[Any]:
            """The same."""
            with (
                MysqlConnection(
                    host=my.host,
                    port=my.port,
                    user=my.user,
                    password=my.password,
                    charset="utf8mb4",
                    autocommit=True,
                ) as connection,
                connection.cursor() as on,
            ):
                on.execute(sql)
                return list(on.fetchall())

        run_postgresql(f"CREATE SCHEMA {name}")
        stack.callback(run_postgresql, f"DROP SCHEMA {name} CASCADE")
        run_mariadb(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        stack.callback(run_mariadb, f"DROP DATABASE {name}")
        shop = Shop(name, addresses, folder, cursor, run_postgresql, run_mariadb, zookeeper, [])
        try:
            yield shop
        finally:
            for process in shop.processes:
                process.kill()
