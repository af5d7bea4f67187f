"""Tasks that would commit to Kafka under one name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.lineage.kafka_names import (
    has_names,
    may_share_names,
    refuse_same_names,
)
from tests.unit.tasks.lineage import test_ways as tasks
from tests.unit.tasks.lineage.test_ways import Task


def fetch(task_id: str, database: str, topic: str = "out", servers: str = "k:1,k:2") -> Task:
    task = tasks.fetch(task_id, topic=topic)
    assert isinstance(task, FetchTask)
    name = f"cdcbus-{task_id}-{database}"
    return replace(
        task,
        publish=replace(task.publish, servers=servers, transactional_id=name),
        swimlane=database,
    )


def forward(task_id: str, *topics: str, servers: str = "k:2, k:3") -> Task:
    target = PublishConfig(servers, "out", "oggJson", transactional_id=f"cdcbus-{task_id}")
    return LoadTask(task_id, TopicConfig("k:2", topics), "oggJson", "KAFKA_SYNC", target)


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (
            forward("shop", "a", "eu-orders"),
            forward("shop-eu", "orders"),
            "cdcbus-shop-eu-orders-PARTITION",
        ),
        (fetch("shop", "eu-db"), fetch("shop-eu", "db"), "cdcbus-shop-eu-db"),
        (fetch("shop", "eu-orders-7"), forward("shop-eu", "orders"), "cdcbus-shop-eu-orders-7"),
        (fetch("shop", "eu", topic="orders"), forward("shop-eu", "orders"), "cdcbus-shop-eu"),
    ],
)
def test_two_tasks_of_one_name_are_refused(one: Task, other: Task, name: str) -> None:
    for own, another in ((one, other), (other, one)):
        with pytest.raises(ConfigError) as raised:
            refuse_same_names(own, [own, fetch("third", "db"), another])
        text = str(raised.value)
        assert text.startswith(f"tasks {own.task_id} and {another.task_id} would both be {name} to")
        assert "another taskId" in text
    assert may_share_names(one.task_id, other.task_id)
    assert may_share_names(other.task_id, one.task_id)


@pytest.mark.parametrize(
    "other",
    [
        forward("shop-eu", "orders", servers="k:3"),  # another cluster
        forward("shop-eu", "orders-2"),
        forward("shop-eu", "eu-orders"),
        forward("shop", "eu-orders"),  # the task itself, as it was stored
        fetch("shop-eu", "orders"),
        fetch("shop-eu", "orders-x"),
        tasks.load("shop-eu", topics="orders"),
        tasks.fetch("shop-eu"),  # without transactions
    ],
)
def test_others_run_beside_it(other: Task) -> None:
    refuse_same_names(forward("shop", "eu-orders", servers="k:1,k:2"), [other])


def test_a_group_is_shared_where_the_offsets_are_of_other_topics() -> None:
    """As in running installations: neither reads what the other commits."""
    refuse_same_names(fetch("shop", "eu", topic="out"), [forward("shop-eu", "orders")])


def test_tasks_whose_ids_do_not_begin_alike_share_no_name() -> None:
    assert not may_share_names("shop", "shops")
    assert not may_share_names("shop-eu", "shop-us")


def test_only_tasks_with_transactions_have_names() -> None:
    assert has_names(fetch("1", "db")) and has_names(forward("1", "a"))
    assert not has_names(tasks.fetch("1")) and not has_names(tasks.load("1"))
