"""What the console sets, on a ZooKeeper in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from cdcbus.ops.web import actions
from cdcbus.plugins.positions import KafkaPosition, kafka_positions_to_json
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper


def at(**offsets: int) -> str:
    return kafka_positions_to_json(
        KafkaPosition("orders", int(name[1:]), offset) for name, offset in offsets.items()
    )


def test_a_live_reset_of_one_partition_leaves_the_others_where_they_are_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[dict[str, str]] = []
    monkeypatch.setattr(actions, "set_positions", lambda *given: taken.append(given[2]))
    zookeeper: Any = MemoryZooKeeper()
    zookeeper.put("/datas/task/7/dist/orders", {})
    zookeeper.put("/datas/task/7/lock/orders", {"processId": "1"})
    previewed, now = at(p0=400, p1=500), at(p0=800, p1=1000)
    zookeeper.put("/datas/task/7/position/orders", orjson.loads(now))
    shown = {"orders": {"position": at(p0=9, p1=500), "before": previewed, "numbers": [0]}}
    bus: Any = SimpleNamespace(client=zookeeper)
    actions.reset_as_shown(bus, "7", orjson.dumps(shown).decode(), "9", "somebody", live=True)
    [texts] = taken
    assert orjson.loads(texts["orders"]) == orjson.loads(at(p0=9, p1=1000))
