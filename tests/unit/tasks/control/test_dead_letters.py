"""Replays of dead letters beside each other, and while ZooKeeper is away."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.exceptions import ConnectionLoss

from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.tasks.control import dead_letters
from cdcbus.tasks.control.dead_letters import replay_letters
from cdcbus.tasks.zookeeper.audit import actions
from cdcbus.tasks.zookeeper.znode import take_node
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

LETTER = SimpleNamespace(dead_letter=SimpleNamespace(record="t/0/7"))


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()


class Topic:
    """The open letters of a task; `on_replay` is called by a replay."""

    def __init__(self, on_replay: Callable[[], None] = lambda: None) -> None:
        self._on_replay = on_replay
        self.replayed = 0

    def dead_letters(self) -> list[Any]:
        return [LETTER]

    def replay(self, letters: list[Any]) -> None:
        self.replayed += len(letters)
        self._on_replay()


def replay(zookeeper: MemoryZooKeeper, task_id: str, topic: Topic) -> None:
    replay_letters(
        cast(Any, zookeeper), cast(Any, topic), task_id, [cast(Any, LETTER)], "ada", force=True
    )


def is_held(zookeeper: MemoryZooKeeper, task_id: str) -> bool:
    return f"/datas/task/{task_id}/replaying" in zookeeper.nodes


def test_a_task_has_one_replay_at_a_time_and_holds_up_no_other(zookeeper: MemoryZooKeeper) -> None:
    other = Topic()

    def beside() -> None:
        with pytest.raises(ConfigError, match="are being replayed by somebody else"):
            replay(zookeeper, "7", other)
        replay(zookeeper, "8", other)

    replay(zookeeper, "7", Topic(beside))
    assert other.replayed == 1
    replay(zookeeper, "7", other)
    assert other.replayed == 2


def test_a_replay_of_no_session_keeps_nobody_from_replays(zookeeper: MemoryZooKeeper) -> None:
    """As after the tree was copied by a tool that makes each znode a persistent one."""
    zookeeper.put("/datas/task/7/replaying", {"by": "bob"})
    topic = Topic()
    replay(zookeeper, "7", topic)
    assert (topic.replayed, is_held(zookeeper, "7")) == (1, False)


def test_a_replay_at_whose_end_zookeeper_is_away_has_succeeded_and_the_next_one_begins(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LET_GO_SECONDS", 0.0)

    def goes_away() -> None:
        zookeeper.refusal = ConnectionLoss()

    replay(zookeeper, "7", Topic(goes_away))
    zookeeper.refusal = None
    assert [action.failed for action in actions(cast(Any, zookeeper))] == [""]
    assert is_held(zookeeper, "7")
    again = Topic()
    replay(zookeeper, "7", again)
    assert (again.replayed, is_held(zookeeper, "7")) == (1, False)


def test_others_may_replay_once_zookeeper_is_back(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def goes_away() -> None:
        zookeeper.refusal = ConnectionLoss()

    def comes_back(_: float) -> None:
        zookeeper.refusal = None

    monkeypatch.setattr("time.sleep", comes_back)
    replay(zookeeper, "7", Topic(goes_away))
    assert not is_held(zookeeper, "7")


def test_a_lost_answer_to_the_beginning_locks_nobody_out(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(client: Any, path: str, fields: Any) -> bool:
        take_node(client, path, fields)
        raise PositionUnavailable("the answer is lost")

    monkeypatch.setattr(dead_letters, "take_node", take)
    with pytest.raises(PositionUnavailable, match="the answer is lost"):
        replay(zookeeper, "7", Topic())
    assert not is_held(zookeeper, "7")
