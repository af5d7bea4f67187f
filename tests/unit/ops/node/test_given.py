"""What counts as given to a task that waits, on a ZooKeeper in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cdcbus.ops.node import given as given_module
from cdcbus.ops.node.given import given, is_anew
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

TASK = "/datas/task/7"
TEXT = {"consumer": {"source": {"sourceName": "shop-db"}}}


@pytest.fixture
def zookeeper() -> Any:
    found = MemoryZooKeeper()
    found.put("/datas/datesource/shop-db", {"code": "shop-db"})
    found.put("/datas/datesource/other", {"code": "other"})
    found.put(f"{TASK}/dist/lane", TEXT)
    saved(found)
    return found


def saved(zookeeper: Any) -> None:
    """A position by the task itself: both nodes in one transaction."""
    for kind in ("position", "written"):
        zookeeper.put(f"{TASK}/{kind}/lane", {})
    stats = zookeeper._stats
    stats[f"{TASK}/written/lane"].mzxid = stats[f"{TASK}/position/lane"].mzxid


@pytest.mark.parametrize(
    ("change", "is_given"),
    [
        (lambda zk: zk.put(f"{TASK}/dist/lane", TEXT), True),
        (lambda zk: zk.put(f"{TASK}/position/lane", {}), True),
        (lambda zk: zk.put(f"{TASK}/history/lane", {}), True),
        (lambda zk: zk.put(f"{TASK}/snapshot/direct", {}), True),
        (lambda zk: zk.put("/datas/datesource/shop-db", {}), True),
        (lambda zk: zk.put("/datas/datesource/other", {}), False),
        (saved, False),
        (lambda zk: zk.put(f"{TASK}/stat", {}), False),
        (lambda zk: None, False),
    ],
)
def test_texts_positions_and_sources_are_given_and_what_the_task_writes_is_not(
    zookeeper: Any, change: Callable[[Any], None], is_given: bool
) -> None:
    before = given(zookeeper, "7")
    change(zookeeper)
    assert is_anew(given(zookeeper, "7"), before) is is_given


def test_a_position_that_was_set_and_then_taken_over_is_not_given_again(zookeeper: Any) -> None:
    zookeeper.put(f"{TASK}/position/lane", {})
    before = given(zookeeper, "7")
    saved(zookeeper)
    assert not is_anew(given(zookeeper, "7"), before)


@pytest.mark.parametrize("deleted", ["snapshot/direct", "history/lane", "position/lane"])
def test_what_is_deleted_is_not_given(zookeeper: Any, deleted: str) -> None:
    zookeeper.put(f"{TASK}/history/lane", {})
    zookeeper.put(f"{TASK}/snapshot/direct", {})
    before = given(zookeeper, "7")
    del zookeeper.nodes[f"{TASK}/{deleted}"]
    assert not is_anew(given(zookeeper, "7"), before)
    zookeeper.put(f"{TASK}/{deleted}", {})
    assert is_anew(given(zookeeper, "7"), before)


@pytest.mark.parametrize(
    ("versions", "is_given"),
    [
        (("0.1.0", "0.2.0"), True),
        (("0.9.0", "0.10.0"), True),
        (("0.1.0", "0.1.0"), False),
        # Else two versions side by side would start the task in turn.
        (("0.2.0", "0.1.0"), False),
        (("0.2.0rc1", "0.2.0"), False),
    ],
)
def test_a_newer_cdcbus_is_given_and_an_older_one_is_not(
    zookeeper: Any, monkeypatch: pytest.MonkeyPatch, versions: tuple[str, str], is_given: bool
) -> None:
    texts = []
    for version in versions:
        monkeypatch.setattr(given_module, "__version__", version)
        texts.append(given(zookeeper, "7"))
    assert is_anew(texts[1], texts[0]) is is_given
