"""Tables that a direct load leaves out are not lost without a word."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.direct.left_out import LeftOut, check_records, left_out

ORDERS = TableId("shop", "orders")
LOAD = LoadTask(
    "7", TopicConfig("k:9092", ("shop", "logs")), "canalRow", "JdbcBatch", JdbcTarget("")
)


class Logs:
    """`bounds_of`: by topic; `records`: where the first record is."""

    def __init__(self, bounds: dict[str, tuple[int, int]], record: int | None) -> None:
        self._bounds, self._record = bounds, record

    def partitions(self, _: str) -> list[int]:
        return [0]

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        return self._bounds.get(partition.topic, (0, 0))

    def next_record(self, _: TopicPartition, __: int) -> tuple[int, int, bytes] | None:
        return None if self._record is None else (self._record, 0, b"")


def others(tables: dict[str, str], *further: str) -> LeftOut:
    """Of a load of orders. `tables`: those that are not wanted -> their topics; `further`: other
    fetch tasks."""
    source = SimpleNamespace(
        feed=SimpleNamespace(fetch=SimpleNamespace(task_id="fetch")),
        tables={ORDERS: None},
        others={TableId("shop", name): topic for name, topic in tables.items()},
    )
    fetches = [SimpleNamespace(task_id=each) for each in further]
    opened: Any = SimpleNamespace(load=LOAD, sources=[source], further=fetches)
    return left_out(opened)


def test_the_command_for_tables_that_are_left_out_names_task_and_tables() -> None:
    found = others({"parts": "shop", "log": "logs"})
    assert found.names == "shop.log, shop.parts"
    assert found.commands == "cdcbus snapshot start fetch --table shop.log --table shop.parts"
    assert others({}) == LeftOut({}, frozenset())


def test_of_many_tables_some_are_named() -> None:
    many = others({f"t{number}": "shop" for number in range(7)})
    assert many.names.endswith("shop.t4 and 2 more")
    assert many.commands.endswith("--table shop.t4 and so on")


def test_other_fetch_tasks_are_named_as_a_whole() -> None:
    found = others({}, "second")
    assert (found.names, found.commands) == (
        "those of fetch task second",
        "cdcbus snapshot start second",
    )
    assert found.topics == {"shop", "logs"}


@pytest.mark.parametrize(
    ("bounds", "record", "is_refused"),
    [
        ({"logs": (0, 3)}, 0, True),
        ({"logs": (5, 9)}, 8, True),
        ({"logs": (5, 5)}, None, False),
        # The markers of transactions only; a record that has come since.
        ({"logs": (0, 3)}, None, False),
        ({"logs": (0, 3)}, 3, False),
        # Of tables that are loaded.
        ({"shop": (0, 3)}, 0, False),
    ],
)
def test_a_load_is_refused_where_kafka_has_records_of_tables_that_it_leaves_out(
    bounds: dict[str, tuple[int, int]], record: int | None, is_refused: bool
) -> None:
    logs: Any = Logs(bounds, record)
    refusal = pytest.raises(ConfigError, match=r"logs.* --others-later.* --table shop\.log")
    with refusal if is_refused else nullcontext():
        check_records(LOAD, others({"log": "logs"}), logs)
