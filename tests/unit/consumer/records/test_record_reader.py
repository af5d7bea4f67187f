"""What clients that read records again are told."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.consumer.batch import kafka_reader
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import topic_logs
from cdcbus.consumer.records import record_reader
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.kafka.client.errors import Refusals


def test_every_client_takes_records_as_large_as_the_task_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a start could not compare a record of more than 100 MB that the task has applied."""
    told: list[dict[str, Any]] = []

    class Client:
        def __init__(self, options: dict[str, Any], **_: object) -> None:
            told.append(options)

        def close(self) -> None:
            pass

        def assign(self, _: object) -> None:
            pass

    for module in (kafka_reader, topic_logs, record_reader):
        monkeypatch.setattr(module, "Consumer", Client)
    task = LoadTask("7", TopicConfig("k:1", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget(""))
    kafka_reader.KafkaReader(task, {}, 1)
    topic_logs.TopicLogs(task)
    with record_reader.RecordReader({}, "k:1", Refusals()).consumer():
        pass
    assert [options["receive.message.max.bytes"] for options in told] == [1 << 30] * 3
