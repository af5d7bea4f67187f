"""What clients that read records again are told."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cdcbus.consumer.batch import kafka_reader
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import topic_logs
from cdcbus.consumer.records import record_reader
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.positions import TopicPartition


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
    with record_reader.RecordReader({}, "k:1").consumer():
        pass
    assert [options["receive.message.max.bytes"] for options in told] == [1 << 30] * 3


def test_what_a_former_client_was_refused_for_is_no_reason_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have had a certificate that was renewed since."""
    callbacks: list[Any] = []

    class Client:
        def __init__(self, options: dict[str, Any]) -> None:
            callbacks.append(options["error_cb"])

        def get_watermark_offsets(self, *_: object, **__: object) -> None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

        def poll(self, _: float) -> None:
            pass

        def close(self) -> None:
            pass

    monkeypatch.setattr(record_reader, "Consumer", Client)
    reader = record_reader.RecordReader({}, "k:1")
    with reader.consumer():
        callbacks[-1](KafkaError(KafkaError._SSL, "certificate has expired"))
    with reader.consumer() as consumer, pytest.raises(BusUnavailable):
        reader.bounds(consumer, TopicPartition("orders", 0))
