"""Quiet topics on a real Kafka: what a task that rests is woken by, and that it goes on from
where it was."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from cdcbus.consumer.config import TopicConfig
from cdcbus.consumer.offsets import end_offset_watcher
from cdcbus.consumer.offsets.end_offset_watcher import Pace, asleep, is_quiet
from cdcbus.consumer.offsets.start_offsets import Lane
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.plugins.positions import KafkaPosition, kafka_positions_to_json
from cdcbus.tasks.zookeeper.positions import position_path
from tests.support.bus import load_text, open_bus
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PATIENCE_SECONDS = 300.0  # a start of Spark on a busy machine


@pytest.fixture
def source(name: str, kafka: str, make_topic: Callable[..., str]) -> TopicConfig:
    return TopicConfig(kafka, (make_topic(name),))


@pytest.fixture
def put(source: TopicConfig) -> Callable[[bytes], None]:
    producer = Producer({"bootstrap.servers": source.servers})

    def put(value: bytes) -> None:
        producer.produce(source.topics[0], value, partition=0)
        assert producer.flush(60) == 0

    return put


def ends(source: TopicConfig, offset: int) -> dict[Lane, int]:
    return {(source.topics[0], 0): offset}


def test_topics_are_quiet_where_they_end_as_a_task_knows_them(
    source: TopicConfig, put: Callable[[bytes], None]
) -> None:
    put(b"x")
    wait_until(lambda: is_quiet(source, ends(source, 1)), "Kafka to answer")
    assert not is_quiet(source, ends(source, 0))
    assert not is_quiet(source, ends(source, 2))
    assert not is_quiet(source, {**ends(source, 1), (source.topics[0], 1): 0})


def test_who_sleeps_is_woken_by_a_record_and_by_a_new_partition(
    source: TopicConfig, put: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_offset_watcher, "PARTITIONS_SECONDS", 0.1)
    # no answer wakes them too, and a new client's first may take more than a second
    patient = Pace(0.01, PATIENCE_SECONDS)
    wait_until(lambda: is_quiet(source, ends(source, 0)), "Kafka to answer")
    with (
        asleep(source, ends(source, 0), patient) as woken,
        asleep(source, ends(source, 1), patient) as early,
    ):
        assert early.wait(PATIENCE_SECONDS)
        assert not woken.is_set()
        put(b"x")
        assert woken.wait(PATIENCE_SECONDS)
    with asleep(source, ends(source, 1), patient) as woken:
        admin = AdminClient({"bootstrap.servers": source.servers})
        admin.create_partitions([NewPartitions(source.topics[0], 2)])[source.topics[0]].result(60)
        assert woken.wait(PATIENCE_SECONDS)


# `cdcbus task run`, but that a task rests after half a second, and says so.
IMPATIENT = """
from cdcbus.consumer import run
from cdcbus.consumer.batch import micro_batch
from cdcbus.ops.cli.main import main

def told(task, positions, progress, stop, identity):
    print("rests behind", list(progress.next_offsets.values()), flush=True)
    rest(task, positions, progress, stop, identity)

rest, run._rest, micro_batch.QUIET_SECONDS = run._rest, told, 0.5
main()
"""


def test_a_task_that_rests_goes_on_with_the_next_record_and_from_an_edited_position(
    source: TopicConfig, put: Callable[[bytes], None], stack: Addresses, name: str, tmp_path: Path
) -> None:
    pg, topic = stack.postgresql, source.topics[0]
    file, log = tmp_path / "load.properties", tmp_path / "load.log"
    file.write_text(load_text(name, stack, topic))

    def record(number: int) -> bytes:
        row = {
            "database": name,
            "table": "t",
            "type": "INSERT",
            "isDdl": False,
            "es": 1,
            "ts": 1,
            "pkNames": ["id"],
        }
        return json.dumps(
            {**row, "data": [{"id": str(number)}], "mysqlType": {"id": "int"}, "sqlType": {"id": 4}}
        ).encode()

    with (
        psycopg.connect(
            host=pg.host,
            port=pg.port,
            user=pg.user,
            password=pg.password,
            dbname=pg.database,
            autocommit=True,
        ) as target,
        open_bus(stack.zookeeper, name, tmp_path, TARGET_PASSWORD=pg.password) as bus,
        log.open("wb") as printed,
    ):
        run: Callable[[str], Any] = lambda sql: target.execute(sql.encode())  # noqa: E731

        def ids() -> list[int]:
            return [row[0] for row in run(f"SELECT id FROM {name}.t ORDER BY id").fetchall()]

        run(f"CREATE SCHEMA {name}")
        words = [sys.executable, "-c", IMPATIENT, "task", "run", str(file)]
        task = subprocess.Popen(
            words,
            env=bus.environment,
            stdout=printed,
            stderr=printed,
            cwd=tmp_path,
            start_new_session=True,
        )
        try:
            run(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
            for number in range(2):
                put(record(number))
                wait_until(
                    lambda: f"rests behind [{number + 1}]" in log.read_text(),
                    "it to rest",
                    PATIENCE_SECONDS,
                )
                assert ids() == list(range(number + 1))
            run(f"DELETE FROM {name}.t")
            bus.client.set(
                position_path(name, topic),
                kafka_positions_to_json([KafkaPosition(topic, 0, 0)]).encode(),
            )
            wait_until(
                lambda: ids() == [1], "what comes behind the edited position", PATIENCE_SECONDS
            )
            task.terminate()
            assert task.wait(PATIENCE_SECONDS) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(task.pid, signal.SIGKILL)
            task.wait()
            run(f"DROP SCHEMA {name} CASCADE")
