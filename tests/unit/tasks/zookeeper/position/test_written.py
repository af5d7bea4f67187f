"""What a task has written itself, also as another version of cdcbus stores it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cdcbus.plugins.contracts import Mark, SentLog, Written
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import KafkaPosition, kafka_positions_to_json
from cdcbus.tasks.zookeeper.position.history import set_positions
from cdcbus.tasks.zookeeper.position.written import written_from_json, written_to_json
from cdcbus.tasks.zookeeper.position.znodes import position_path, written_path
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

TEXT = kafka_positions_to_json([KafkaPosition("t", 0, 5), KafkaPosition("t", 1, 7)])
WRITTEN = Written(TEXT, Mark(sent={"t": SentLog("id", 5)}))


def of_newer() -> dict[str, Any]:
    """What a newer cdcbus might write."""
    fields: dict[str, Any] = orjson.loads(written_to_json(WRITTEN))
    fields["sent"]["t"].append("more")
    return {**fields, "pace": 3}


def test_what_a_newer_cdcbus_has_written_is_read_and_a_command_keeps_it() -> None:
    zookeeper = MemoryZooKeeper()
    zookeeper.put("/datas/task/7", "")
    zookeeper.put(position_path("7", "t"), TEXT)
    zookeeper.put(written_path("7", "t"), of_newer())
    assert written_from_json(zookeeper.nodes[written_path("7", "t")], "here") == WRITTEN
    edit = kafka_positions_to_json([KafkaPosition("t", 0, 2), KafkaPosition("t", 1, 7)])
    set_positions(zookeeper, "7", {"t": edit}, {"t": TEXT}, "ann", "offset set", {0})
    after = orjson.loads(zookeeper.nodes[written_path("7", "t")])
    assert after["pace"] == 3
    assert after["position"] == kafka_positions_to_json([KafkaPosition("t", 1, 7)])


@pytest.mark.parametrize("damaged", [b"", b"[]", b'{"position":"x"}', b'{"isKept":true}'])
def test_what_cannot_be_read_is_first_taken_for_that_of_a_newer_cdcbus(damaged: bytes) -> None:
    with pytest.raises(PositionError, match="newer cdcbus: run that one"):
        written_from_json(damaged, "here")
