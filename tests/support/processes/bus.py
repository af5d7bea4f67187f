"""A bus of its own, below a chroot of the stack's ZooKeeper: nodes as processes, commands, and
fetch tasks to run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from click.testing import CliRunner, Result
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.status import Status, status_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.support.properties import properties

Run = Callable[[str], Any]
FETCH = """\
taskId={task_id}
{more}consumer.consumerName=CanalFetch
consumer.source.address={source.host}:{source.port}
consumer.source.username={source.user}
consumer.source.password=${{env:SOURCE_PASSWORD}}
consumer.source.database={name}
consumer.source.filter={name}\\\\..*
consumer.offset=latest
loader.loaderName=KAFKA_SYNC
loader.source.servers={kafka}
loader.source.topic={topic}
loader.source.oggJson=false
"""

FROM_KAFKA = """\
taskId={task_id}
{more}consumer.consumerName=KafkaFetch
consumer.converter=canalRow
consumer.source.servers={kafka}
consumer.source.topics={topic}
consumer.source.firstConsumeFrom=earliest
loader.loaderName=JdbcBatch
"""
LOGIN = """\
loader.source.userName={target.user}
loader.source.password=${{env:TARGET_PASSWORD}}
"""
NOWHERE = "loader.source.url=jdbc:postgresql://127.0.0.1:1/none\n"


class Bus:
    """`folder` is the current folder of all nodes."""

    def __init__(
        self, address: str, client: KazooClient, folder: Path, environment: dict[str, str]
    ) -> None:
        self.address, self.client, self.folder = address, client, folder
        self.environment = {
            **os.environ,
            "CDCBUS_ZOOKEEPER": address,
            "CDCBUS_HTTP_BIND": "off",
            "TMPDIR": str(folder),
            **environment,
        }
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.tasks = TaskNodes(client)

    def __call__(self, *words: object, code: int = 0) -> Result:
        """Runs a command, which must end with this exit code."""
        result = CliRunner(env={"CDCBUS_ZOOKEEPER": self.address}).invoke(main, [*map(str, words)])
        assert result.exit_code == code, f"{words}: exit code {result.exit_code}, {result.output}"
        return result

    def json(self, *words: object) -> Any:
        return json.loads(self(*words, "--json").stdout)

    def load(self, text: str, *options: str) -> None:
        """Imports a task."""
        file = self.folder / "imported.properties"
        file.write_text(text, encoding="utf-8")
        self("task", "import", file, *options)

    def node(self, node_id: str, **settings: str) -> subprocess.Popen[bytes]:
        """Starts a node; it is killed at the end."""
        with (self.folder / f"{node_id}.log").open("ab") as log:
            process = self.nodes[node_id] = subprocess.Popen(
                [sys.executable, "-m", "cdcbus", "node", "run"],
                cwd=self.folder,
                env={**self.environment, "CDCBUS_NODE_ID": node_id, **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return process

    def status(self, task_id: str) -> Status:
        return status_of(self.tasks, task_id)

    def rows(self, task_id: str) -> int:
        """The rows that the task's current process has reported."""
        progress = self.json("task", "status", task_id)["progress"]
        return int(progress["rows"]) if progress else 0

    def runner(self, task_id: str) -> int:
        """The process that holds the lock of the task's only swimlane; 0 when there is none."""
        for lock in self.tasks.locks(task_id).values():
            return lock.number("processId")
        return 0

    def text(self, path: str) -> str | None:
        try:
            data: bytes = self.client.get(path)[0]
        except NoNodeError:
            return None
        return data.decode()

    def said(self) -> str:
        """Everything that nodes and tasks have logged."""
        logs = [*self.folder.glob("*.log"), *self.folder.glob("logs/*.log")]
        texts = []
        for log in logs:
            text = log.read_text(encoding="utf-8", errors="replace")
            texts.append(f"==== {log.name}\n{text}")
        return "\n".join(texts)


@contextmanager
def open_bus(zookeeper: str, name: str, folder: Path, **environment: str) -> Iterator[Bus]:
    """All its processes are dead at the end."""
    client = connect(f"{zookeeper}/{name}")
    bus = Bus(f"{zookeeper}/{name}", client, folder, environment)
    try:
        yield bus
    except BaseException:
        print(bus.said())
        raise
    finally:
        for process in bus.nodes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        client.stop()
        client.close()


@contextmanager
def postgresql_schema(stack: Addresses, schema: str) -> Iterator[Run]:
    """Runs SQL in the stack's PostgreSQL, beside an empty schema."""
    pg = stack.postgresql
    with psycopg.connect(
        host=pg.host,
        port=pg.port,
        user=pg.user,
        password=pg.password,
        dbname=pg.database,
        autocommit=True,
    ) as target:
        run: Run = lambda sql: target.execute(sql.encode())  # noqa: E731
        run(f"CREATE SCHEMA {schema}")
        try:
            yield run
        finally:
            run(f"DROP SCHEMA {schema} CASCADE")


def fetch_text(task_id: str, source: Database, kafka: str, name: str, **keys: str) -> str:
    """A fetch task from the schema `name` to the topic `name`."""
    return FETCH.format(
        task_id=task_id, source=source, kafka=kafka, name=name, topic=name, more=properties(keys)
    )


def load_text(task_id: str, stack: Addresses, topic: str, **keys: str) -> str:
    """A consumer task from a topic to the stack's PostgreSQL."""
    target = stack.postgresql
    keys = {
        "loader.source.url": f"jdbc:postgresql://{target.host}:{target.port}/{target.database}",
        **keys,
    }
    return (FROM_KAFKA + LOGIN).format(
        task_id=task_id, kafka=stack.kafka, topic=topic, target=target, more=properties(keys)
    )


def resting_text(task_id: str, kafka: str, topic: str, **keys: str) -> str:
    """A consumer task that must not run: its target does not exist."""
    return (FROM_KAFKA + NOWHERE).format(
        task_id=task_id, kafka=kafka, topic=topic, more=properties(keys)
    )


# For an answer of a server on a busy machine.
ANSWER_SECONDS = 60.0


def published(kafka: str, topic: str) -> list[dict[str, Any]]:
    """All committed records that a topic with one partition has now, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "look",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        # more may come all the time
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0))[1]
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[dict[str, Any]] = []
        next_offset = 0
        while next_offset < end:
            message = consumer.poll(ANSWER_SECONDS)
            assert message is not None, f"{topic} gave nothing for {ANSWER_SECONDS:g} s"
            if (error := message.error()) is not None:
                # after the end there are only transaction markers
                assert error.code() == KafkaError._PARTITION_EOF
                break
            found.append(json.loads(message.value() or b"{}"))
            next_offset = (message.offset() or 0) + 1
        return found
    finally:
        consumer.close()
