"""cdcbus, with its defaults, as users start it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from tests.bench.backlog import SCHEMA
from tests.bench.peers.work import TABLE, Peer
from tests.support.properties import properties


def cdcbus(addresses: Addresses, name: str) -> Peer:
    """`name`: of its topic, and of its tasks."""
    source, target = addresses.source, addresses.postgresql
    fetch = {
        "consumer.consumerName": "CanalFetch",
        "consumer.source.address": f"{source.host}:{source.port}",
        "consumer.source.username": source.user,
        "consumer.source.password": source.password,
        "consumer.source.database": SCHEMA,
        "consumer.source.filter": rf"{SCHEMA}\\.{TABLE}",
        "consumer.offset": "latest",
        "loader.loaderName": "KAFKA_SYNC",
        "loader.source.servers": addresses.kafka,
        "loader.source.oggJson": "false",
        "loader.source.createTopic": "1:1",
    }
    load = {
        "consumer.consumerName": "KafkaFetch",
        "consumer.converter": "canalRow",
        "consumer.source.servers": addresses.kafka,
        "consumer.source.topics": name,
        "consumer.source.firstConsumeFrom": "earliest",
        "loader.loaderName": "JdbcBatch",
        "loader.source.url": f"jdbc:postgresql://{target.host}:{target.port}/{target.database}",
        "loader.source.userName": target.user,
        "loader.source.password": target.password,
    }
    snapshot_topic = f"{name}-snapshot"

    @contextmanager
    def running(folder: Path, task_id: str, keys: dict[str, str]) -> Iterator[list[int]]:
        file = folder / f"{task_id}.properties"
        lines = {"taskId": task_id, **keys}
        file.write_text(properties(lines))
        task = TaskProcess(task_id, file, folder / f"{task_id}.log", addresses.zookeeper, folder)
        task.start()
        try:
            yield [task.pid]
        except BaseException:
            print("\n".join(task.last_lines(20)))
            raise
        finally:
            task.ask_to_stop()
            task.await_stop()

    return Peer(
        "cdcbus",
        name,
        snapshot_topic,
        SCHEMA,
        lambda folder: running(folder, f"{name}-fetch", {**fetch, "loader.source.topic": name}),
        lambda folder: running(
            folder,
            f"{name}-snapshot",
            {**fetch, "loader.source.topic": snapshot_topic, "consumer.snapshot": "initial"},
        ),
        lambda folder: running(folder, f"{name}-load", load),
    )
