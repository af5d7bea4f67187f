from __future__ import annotations

import struct

import pytest

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask, FilterConfig, HeartbeatConfig, SourceConfig
from cdcbus.producer.server import connection as server
from cdcbus.producer.source import heartbeat
from tests.support.waiting import wait_until

BEATS = HeartbeatConfig(TableId("ops", "beats"), 0.001)
TASK = FetchTask(
    "7",
    "shop",
    SourceConfig((("db", 3306),), "u", "p"),
    FilterConfig(),
    PublishConfig("kafka:9092", "shop", "canalRow"),
    heartbeat=BEATS,
)


def test_heartbeats_go_on_after_an_error_that_nobody_expects(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = []

    def connect(*_: object) -> None:
        tried.append(1)
        raise struct.error("unpack requires a buffer of 4 bytes")

    monkeypatch.setattr(server, "connect", connect)
    with heartbeat.beating(TASK):
        wait_until(lambda: len(tried) > 3, "further heartbeats", 10)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "no heartbeat of task 7: unexpected error, please report it."
    )
