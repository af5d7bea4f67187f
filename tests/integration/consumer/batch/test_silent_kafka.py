"""What a task says while executors wait for a Kafka that does not answer."""

from __future__ import annotations

from time import monotonic

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcbus.consumer.batch import silent_kafka
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.silent_kafka import SilentKafka
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.task_status import State, TaskStatus
from tests.support.servers.private_broker import private_broker
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def test_a_batch_that_waits_for_kafka_makes_its_task_retrying(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silent_kafka, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(silent_kafka, "ANSWER_SECONDS", 1.0)
    with private_broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        create_topics(admin, NewTopic(name, 1, 1))
        task = LoadTask(
            "7", TopicConfig(broker.address, (name,)), "canalRow", "JdbcBatch", JdbcTarget("")
        )
        progress = Progress(goals={TopicPartition(name, 0): 9})
        status = TaskStatus("7")
        status.reading(name)
        watch = SilentKafka(task, progress, status)

        def is_retrying() -> bool:
            watch.look()
            status.observe(is_behind=False)
            return status.now[0] is State.RETRYING

        broker.kill()
        # without a batch nobody waits for Kafka here
        assert not is_retrying()
        progress.batch_since = monotonic()
        wait_until(is_retrying, "the state")
        assert status.now[1].startswith(f"task 7 waits for Kafka at {broker.address}, which says")
        assert f"{name}[0]" in status.now[1]
        progress.batch_since = 0.0
        assert not is_retrying()
        progress.batch_since = monotonic()
        wait_until(is_retrying, "the state again")
        broker.start()
        wait_until(lambda: not is_retrying(), "its end")
