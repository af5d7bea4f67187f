"""What Kafka says of a transaction's last commit; the rest is in tests/integration/producer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable
from cdcbus.plugins.kafka import producer as writers
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.transactions import Transaction


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (KafkaError.UNSTABLE_OFFSET_COMMIT, BusUnavailable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BusRejected),
    ],
)
def test_an_error_of_the_partition_is_not_taken_for_no_commit(
    monkeypatch: pytest.MonkeyPatch, code: int, raised: type[BusError]
) -> None:
    writer: Any = SimpleNamespace(connecting={})
    config = PublishConfig("nowhere:1", "t", "canalRow")
    transaction = Transaction(writer, config, "g", "t", 0)
    transaction._group.close()
    answer = SimpleNamespace(offset=-1001, metadata=None, error=KafkaError(code))
    group: Any = SimpleNamespace(committed=lambda *_, **__: [answer])
    transaction._group = group
    monkeypatch.setattr(writers, "CONNECT_SECONDS", 0.0)
    with pytest.raises(raised):
        transaction.committed()
