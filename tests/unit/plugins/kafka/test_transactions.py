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


def test_a_writer_is_renewed_only_once_the_group_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next attempt would take its new client for one that is ready."""
    renewed: list[bool] = []
    writer: Any = SimpleNamespace(
        connecting={},
        is_fenced=False,
        is_stuck=True,
        start=lambda: None,
        renew=lambda: renewed.append(True),
    )
    transaction = Transaction(writer, PublishConfig("nowhere:1", "t", "canalRow"), "g", "t", 0)

    def fail() -> None:
        raise BusUnavailable("certificates are being renewed")

    monkeypatch.setattr(transaction, "_new_group", fail)
    with pytest.raises(BusUnavailable, match="being renewed"):
        transaction.take_over()
    assert not renewed
