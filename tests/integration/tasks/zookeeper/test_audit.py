"""The audit in a real ZooKeeper: what is noted, when, and how much of it is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.tasks.zookeeper import audit
from cdcbus.tasks.zookeeper.audit import actions, audited
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.history import set_positions

pytestmark = pytest.mark.integration


@pytest.fixture
def client(zookeeper: str, name: str) -> Iterator[KazooClient]:
    client = connect(f"{zookeeper}/{name}")
    yield client
    client.stop()
    client.close()


def test_an_action_is_noted_before_it_is_done(client: KazooClient) -> None:
    assert actions(client) == []
    with audited(client, "ada@h", "task start", "task 7"):
        (noted,) = actions(client)
    assert (noted.by, noted.what, noted.on, noted.failed) == ("ada@h", "task start", "task 7", "")
    assert noted.at
    assert actions(client) == [noted]


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (ConfigError("there is no such task"), "there is no such task"),
        (ValueError("s3cret"), "unexpected ValueError"),
    ],
)
def test_one_that_fails_says_why_and_nothing_that_is_no_sentence_of_ours(
    client: KazooClient, error: Exception, failed: str
) -> None:
    with pytest.raises(type(error)), audited(client, "ada@h", "task start", "task 7"):
        raise error
    assert [action.failed for action in actions(client)] == [failed]


def test_the_newest_are_kept_in_order(client: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "KEPT", 5)
    for number in range(9):
        with audited(client, "ada@h", f"offset set {number}", "task 7"):
            pass
    assert [action.what for action in actions(client)] == [
        f"offset set {number}" for number in range(4, 9)
    ]
    assert [action.what for action in actions(client, 2)] == ["offset set 7", "offset set 8"]


def test_many_at_once_are_all_noted(
    client: KazooClient, zookeeper: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "KEPT", 12)
    others = [connect(f"{zookeeper}/{name}") for _ in range(4)]

    def act(other: KazooClient, who: int) -> None:
        for number in range(3):
            with audited(other, f"p{who}@h", f"offset set {number}", "task 7"):
                pass

    threads = [threading.Thread(target=act, args=(other, who)) for who, other in enumerate(others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.stop()
        other.close()
    assert sorted((action.by, action.what) for action in actions(client)) == [
        (f"p{who}@h", f"offset set {number}") for who in range(4) for number in range(3)
    ]


def test_a_position_that_moved_meanwhile_is_noted_as_a_failure(client: KazooClient) -> None:
    set_positions(client, "7", {"t": "a"}, {}, "ada@h", "offset set")
    with pytest.raises(PositionConflict):
        set_positions(client, "7", {"t": "b"}, {"t": "z"}, "ada@h", "offset reset --to latest")
    assert [(action.what, bool(action.failed)) for action in actions(client)] == [
        ("offset set", False),
        ("offset reset --to latest", True),
    ]


def test_a_damaged_note_hides_no_other(client: KazooClient) -> None:
    with audited(client, "ada@h", "task start", "task 7"):
        pass
    client.create("/datas/audit/0000000077", b"\xff")
    assert [action.what for action in actions(client)] == ["task start", ""]
    assert "does not hold a JSON object" in actions(client)[1].failed
