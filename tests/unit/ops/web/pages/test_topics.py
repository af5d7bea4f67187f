"""The clusters that the page of topics shows, without Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.ops.web.pages import topics
from cdcbus.ops.web.pages.topics import clusters
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.producer.config import FetchTask


def task(task_id: str, servers: str) -> LoadTask:
    own = {"client.id": task_id}
    source = TopicConfig(servers, ("shop",), look_up_options=own)
    return LoadTask(task_id, source, "canalRow", "JdbcBatch", JdbcTarget(""))


def test_a_cluster_is_reached_as_a_task_does_whose_secrets_are_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def topic_log(access: Any) -> None:
        asked.append(access.options["client.id"])
        raise BusUnavailable("away")

    def lacking(each: FetchTask | LoadTask) -> str:
        return f"task {each.task_id} lacks X" if each.task_id in ("1", "3") else ""

    monkeypatch.setattr(topics, "TopicLog", topic_log)
    found = clusters([task("1", "k1:9092"), task("2", "k1:9092"), task("3", "k2:9092")], lacking)
    assert asked == ["2"]
    assert [each.away for each in found] == ["away", "task 3 lacks X"]
