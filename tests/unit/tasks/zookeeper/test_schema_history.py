"""Copies of schema histories, on a ZooKeeper in memory."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.tasks.zookeeper import schema_history
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas, copy_schemas, schema_path
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

FOLLOWED, TABLE, OTHER = '{"server":"1"}', '{"table":["s","a"]}', '{"table":["s","b%2E"]}'


@pytest.fixture
def zookeeper() -> Any:
    return MemoryZooKeeper()


def copied(zookeeper: Any) -> dict[str, str]:
    """Of task 7, by task 8."""
    copy_schemas(zookeeper, "7", "8", "lane")
    return ZooKeeperSchemas(zookeeper, "8", "lane").load()


def test_a_copy_has_all_tables_and_the_place_up_to_which_they_are_known(zookeeper: Any) -> None:
    entries = {"followed": FOLLOWED, "s.a": TABLE, "s.b%252E": OTHER}
    for name, text in entries.items():
        zookeeper.put(f"{schema_path('7', 'lane')}/{name}", text)
    assert copied(zookeeper) == entries


@pytest.mark.parametrize("entries", [{}, {"s.a": TABLE}])
def test_a_history_that_follows_nothing_yet_is_not_copied(
    zookeeper: Any, entries: dict[str, str]
) -> None:
    for name, text in entries.items():
        zookeeper.put(f"{schema_path('7', 'lane')}/{name}", text)
    assert copied(zookeeper) == {}
    assert not zookeeper.exists("/datas/task/8")


@pytest.mark.parametrize(
    ("followed", "expected"),
    [
        # The copy looks for the DDL between both places again, and finds what it has.
        ('{"server":"1","offset":9}', {"followed": FOLLOWED, "s.a": OTHER}),
        # Of another server, whose places say nothing about those read before.
        ('{"server":"2"}', {}),
    ],
)
def test_a_task_that_goes_on_meanwhile_is_known_up_to_where_it_was(
    zookeeper: Any, monkeypatch: pytest.MonkeyPatch, followed: str, expected: dict[str, str]
) -> None:
    def get_children(client: Any, path: str) -> list[str]:
        zookeeper.put(f"{path}/followed", followed)
        zookeeper.put(f"{path}/s.a", OTHER)
        return ["followed", "s.a"]

    zookeeper.put(f"{schema_path('7', 'lane')}/followed", FOLLOWED)
    zookeeper.put(f"{schema_path('7', 'lane')}/s.a", TABLE)
    monkeypatch.setattr(schema_history, "get_children", get_children)
    assert copied(zookeeper) == expected
