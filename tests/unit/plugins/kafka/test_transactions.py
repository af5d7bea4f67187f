"""What Kafka says of a transaction's last commit; the rest is in tests/integration/producer."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError, KafkaException

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable
from cdcbus.plugins.files.taken_texts import begin_task
from cdcbus.plugins.kafka import producer as writers
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.transactions import Transaction
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.registry import make_converter
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.tasks.config.placeholders import interpolate


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


def opened() -> tuple[KafkaPublisher, Transaction]:
    """With brokers that do not answer."""
    config = PublishConfig("127.0.0.1:1", "shop", "canalRow", transactional_id="cdcbus-shop")
    publisher = KafkaPublisher(config, make_converter("canalRow"), Event())
    return publisher, Transaction(publisher, config, "cdcbus-shop", "shop", 0)


def test_a_request_without_records_that_nobody_answers_needs_a_new_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writers, "STUCK_SECONDS", 0.6)
    publisher, transaction = opened()
    with pytest.raises(
        BusUnavailable,
        match=r"has not answered transactions cdcbus-shop for 0\.6 s; the last error: .+refused",
    ):
        transaction.take_over()
    assert publisher.is_stuck


def test_a_login_that_is_refused_within_a_request_is_said_to_be_and_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "STUCK_SECONDS", 0.0)
    password = tmp_path / "password"
    password.write_text("former")
    begin_task()
    interpolate(f"${{file:{password}}}", {})
    publisher, transaction = opened()

    def ask(_seconds: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=True))

    def refuse(_seconds: float) -> int:
        publisher._on_error(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
        publisher._on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        return 0

    client = MagicMock(init_transactions=ask, poll=refuse)
    monkeypatch.setattr(publisher, "client", client)
    monkeypatch.setattr(publisher, "renew", lambda: None)
    with pytest.raises(BusUnavailable, match=r"it refuses the login \(wrong password\): check"):
        transaction.take_over()
    password.write_text("present")
    with pytest.raises(BusRejected, match=f"needs another start, as {password} "):
        transaction.take_over()


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


def test_a_request_with_a_time_limit_finds_the_task_at_work() -> None:
    _, transaction = opened()
    found: list[str] = []
    token = TASK_AT_WORK.set("shop")
    try:
        transaction._in_time(lambda: found.append(TASK_AT_WORK.get()))
    finally:
        TASK_AT_WORK.reset(token)
    assert found == ["shop"]
