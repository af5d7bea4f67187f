"""What it means that everybody may write to ZooKeeper."""

from __future__ import annotations

import pytest
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id

from cdcbus.ops.doctor.access import is_open, verdict
from cdcbus.tasks.control.bus_settings import read_bus_settings


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        (OPEN_ACL_UNSAFE, True),
        (READ_ACL_UNSAFE, False),
        (CREATOR_ALL_ACL, False),
        ([*CREATOR_ALL_ACL, ACL(8, Id("world", "anyone"))], True),  # deletes what is below
        ([], False),
    ],
)
def test_a_node_is_open_where_everybody_may_change_it(acls: list[ACL], expected: bool) -> None:
    assert is_open(acls) is expected


def test_the_verdict_names_what_is_open_and_what_is_missing() -> None:
    assert verdict([], read_bus_settings({}, None, {})).outcome == "ok"
    found = verdict(["/datas", "/datas/task"], read_bus_settings({}, None, {}))
    assert "may write /datas and 1 more znodes" in found.found
    limits = {"CDCBUS_NODE_FILES": "/a", "CDCBUS_NODE_MODULES": "none"}
    limited = verdict(["/datas"], read_bus_settings({}, None, limits))
    assert "import modules" not in limited.found
    assert "node.files" not in limited.remedy
    owned = read_bus_settings({}, None, {**limits, "CDCBUS_ZOOKEEPER_AUTH": "a:b"})
    assert verdict(["/datas"], owned).remedy == (
        "Give them to the user of zookeeper.auth: cdcbus config protect."
    )
