"""A target whose disk is full, and one that is shut down within a batch: waited for, with the
reason; nothing becomes a dead letter."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Addresses, Database, Plan
from cdcbus.ops.stack.databases import MARIADB, POSTGRESQL
from cdcbus.ops.stack.server import Server
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.support.changes.shop import Shop
from tests.support.servers.secure_servers import answers, open_folder, place_of
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk"),
]
COLUMNS = (Column("id", "int"), Column("v", "varchar(7000)"))
ROWS, WIDTH = 4_000, 7_000  # MariaDB 11.4.5 dies of a full disk where it writes a BLOB
BALLAST = "ballast"


class SmallTarget:
    """A server with a table on a disk that has only 10 MB left."""

    def __init__(self, server: Server, folder: Path, disk: Path, schema: str) -> None:
        self._server, self._place = server, place_of(server, folder, Plan.new())
        self._disk, self._schema = disk, schema
        self._place.folder.mkdir()
        with processes.umask(0o022):
            self._command = server.prepare(self._place)
        (disk / "tables").mkdir()
        if self._place.account:
            self._place.account.give(disk / "tables")

    @property
    def url(self) -> str:
        kind, database = "mysql", self._schema
        if self._server is POSTGRESQL:
            kind, database = "postgresql", self.at.database
        return f"jdbc:{kind}://{self.at.host}:{self.at.port}/{database}"

    def make_room(self) -> None:
        (self._disk / BALLAST).unlink()

    @property
    def at(self) -> Database:
        return self._place.plan.database(self._server.name)

    def start(self) -> None:
        """Returns when it answers."""
        processes.start(self._place.folder, self._command, self._place.account)
        wait_until(lambda: answers(self._server, self._place), "the target")

    def shut_down(self) -> None:
        """As its service manager does."""
        processes.stop(self._place.folder, self._server.stop_signal, 60)

    def kill(self) -> None:
        processes.kill(self._place.folder)

    def connect(self) -> Any:
        at = self.at
        if self._server is POSTGRESQL:
            return psycopg.connect(
                host=at.host,
                port=at.port,
                user=at.user,
                password=at.password,
                dbname=at.database,
                autocommit=True,
            )
        return MysqlConnection(
            host=at.host, port=at.port, user=at.user, password=at.password, autocommit=True
        )

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return [*cursor.fetchall()] if cursor.description else []

    def make_table(self) -> None:
        if self._server is POSTGRESQL:
            self.ask(f"CREATE SCHEMA {self._schema}")
            self.ask(f"CREATE TABLESPACE small LOCATION '{self._disk / 'tables'}'")
            self.ask(f"CREATE TABLE {self._schema}.t (id INT PRIMARY KEY, v TEXT) TABLESPACE small")
        else:
            self.ask(f"CREATE DATABASE {self._schema}")
            place = f"DATA DIRECTORY = '{self._disk / 'tables'}'"
            self.ask(
                f"CREATE TABLE {self._schema}.t (id INT PRIMARY KEY, v VARCHAR(7000)) CHARSET "
                f"latin1 {place}"
            )

    def rows(self) -> int:
        return int(self.ask(f"SELECT COUNT(*) FROM {self._schema}.t")[0][0])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else can write the table; until the server ends."""
        connection = self.connect()
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            if self._server is POSTGRESQL:
                cursor.execute(f"LOCK TABLE {self._schema}.t IN SHARE MODE")
            else:
                cursor.execute(f"SELECT * FROM {self._schema}.t FOR UPDATE")
        yield
        connection.close()

    def is_waited_for(self) -> bool:
        """Whether a session waits for it."""
        if self._server is POSTGRESQL:
            return bool(self.ask("SELECT 1 FROM pg_locks WHERE NOT granted"))
        # Not innodb_trx: it shows an old state while it is asked more often than each 100 ms.
        return bool(
            self.ask(
                "SELECT 1 FROM information_schema.global_status WHERE variable_value > 0 "
                "AND variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
            )
        )


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Most of it is taken by a file."""
    image, disk = folder / "image", folder / "small"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(100 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, disk], check=True)
    try:
        free = os.statvfs(disk)
        with (disk / BALLAST).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - (10 << 20))
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture(params=[POSTGRESQL, MARIADB], ids=lambda server: server.name)
def target(request: pytest.FixtureRequest, name: str) -> Iterator[SmallTarget]:
    with open_folder() as folder, small_disk(folder) as disk:
        target = SmallTarget(request.param, folder, disk, name)
        try:
            target.start()
            target.make_table()
            yield target
        finally:
            target.kill()


def test_a_full_disk_and_a_shutdown_are_waited_for_and_make_no_dead_letters(
    name: str, stack: Addresses, target: SmallTarget, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    make_topic(name)
    producer = kafka_producer(stack.kafka)
    table = Table(TableId(name, "t"), COLUMNS, ("id",))

    def put(first: int, count: int) -> None:
        for key in range(first, first + count):
            row = {"id": str(key), "v": secrets.token_hex(WIDTH // 2)}
            producer.produce(
                name, CanalRow().to_bytes(RowChange(table, Op.INSERT, None, row)), str(key).encode()
            )
        assert producer.flush(60) == 0

    client = KazooClient(stack.zookeeper)
    client.start()
    shop = Shop(name, stack, tmp_path, None, None, None, client, [])  # type: ignore[arg-type]
    task = shop.load(
        "postgresql",
        loader__onError="deadletter",
        loader__deadletterTopic=f"{name}-dead",
        loader__source__url=target.url,
        loader__source__userName=target.at.user,
        loader__source__password=target.at.password,
    )

    def reason() -> str:
        task.check()
        stat = TaskNodes(client).stat(task.task_id)
        return stat.reason if stat is not None and stat.state is State.RETRYING else ""

    try:
        put(0, ROWS)
        task.start()
        wait_until(
            lambda: "No space left" in reason() or "is full" in reason(), "the disk to be full"
        )
        assert target.rows() < ROWS
        target.make_room()
        wait_until(lambda: target.rows() == ROWS, "the task to go on")
        with target.locked():
            put(ROWS, 3)
            wait_until(target.is_waited_for, "the batch")
            target.shut_down()
        wait_until(lambda: bool(reason()), "the task to tell")
        target.start()
        wait_until(lambda: target.rows() == ROWS + 3, "the task to go on")
        wait_until(lambda: shop.is_applied(task), "the position")
        admin = AdminClient({"bootstrap.servers": stack.kafka})
        if f"{name}-dead" in admin.list_topics(timeout=30).topics:
            assert not any(shop.ends(f"{name}-dead").values())
        task.ask_to_stop()
        assert task.await_stop() == 0
    finally:
        task.kill()
        client.stop()
        client.close()
