"""The versions of a task's text, on a ZooKeeper in memory."""

from __future__ import annotations

import orjson
import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.editing.versions import Version, versions_of, versions_path, versions_to_json
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

STORED = {"at": "then", "by": "ann", "how": "task import", "text": "taskId=7\n", "reason": "r"}


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    found = MemoryZooKeeper()
    found.put("/datas/task/7", "")
    found.put(versions_path("7"), {"versions": [STORED]})
    return found


def test_versions_of_a_newer_cdcbus_are_read_and_another_text_keeps_them(
    zookeeper: MemoryZooKeeper,
) -> None:
    [stored] = versions_of(zookeeper, "7")
    assert stored == Version("then", "ann", "task import", "taskId=7\n")
    another = Version("now", "eve", "task edit", "a=b\n")
    written = orjson.loads(versions_to_json([stored, another]))["versions"]
    assert written == [STORED, {"at": "now", "by": "eve", "how": "task edit", "text": "a=b\n"}]


@pytest.mark.parametrize("damaged", [[5], [{"at": "then"}], 7])
def test_what_holds_no_versions_is_first_taken_for_that_of_a_newer_cdcbus(
    zookeeper: MemoryZooKeeper, damaged: object
) -> None:
    zookeeper.put(versions_path("7"), {"versions": damaged})
    with pytest.raises(ConfigError, match="newer cdcbus: run that one"):
        versions_of(zookeeper, "7")
