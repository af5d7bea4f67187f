"""A task whose records become dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cdcbus.consumer.config import DeadLetterConfig, LoadTask, OnError, TopicConfig
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.ops.cli.main import main
from cdcbus.plugins.contracts import JdbcTarget
from tests.support.topics.kafka_producer import kafka_producer


@pytest.fixture
def task(name: str, kafka: str, make_topic: Callable[..., str]) -> LoadTask:
    """Reads a topic of two partitions with three records: two in the first one, one of them with
    headers and bytes that are no text."""
    make_topic(name, 2)
    producer = kafka_producer(kafka)
    producer.produce(name, b"first", b"k_", partition=0)
    producer.produce(name, b"\xff\x00", b"\xfe", partition=0, headers=[("from", b"outside")])
    producer.produce(name, b"other", partition=1)
    assert producer.flush(30) == 0
    config = DeadLetterConfig(f"{name}-dead", limit=2)
    return LoadTask(
        name,
        TopicConfig(kafka, (name,)),
        "canalRow",
        "JdbcBatch",
        JdbcTarget(""),
        on_error=OnError.DEADLETTER,
        dead_letters=config,
    )


@pytest.fixture
def topic(task: LoadTask) -> Iterator[DeadLetterTopic]:
    with DeadLetterTopic(task) as topic:
        topic.open()
        yield topic


@pytest.fixture
def run(task: LoadTask, tmp_path: Path, zookeeper: str) -> Callable[..., Result]:
    """Runs `cdcbus dlq COMMAND FILE ...`."""
    file = tmp_path / "task.properties"
    lines = {
        "taskId": task.task_id, "consumer.consumerName": "KafkaFetch", "consumer.source.servers": task.source.servers,
        "consumer.source.topics": task.task_id, "loader.loaderName": "JdbcBatch", "loader.source.url": "jdbc:postgresql://db/shop",
        "loader.onError": "deadletter", "loader.deadletterTopic": task.dead_letters.topic,
    }  # fmt: skip
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    runner = CliRunner(env={"CDCBUS_ZOOKEEPER": zookeeper})
    return lambda command, *words, **options: runner.invoke(
        main, ["dlq", command, str(file), *words], **options
    )
