"""Positions that commands set, in a real ZooKeeper whose answer is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.tasks.zookeeper.audit import actions
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position import history
from cdcbus.tasks.zookeeper.position.history import histories, positions_of, set_positions
from cdcbus.tasks.zookeeper.znode import answer

pytestmark = pytest.mark.integration
POSITION = '[{"offset":41,"partition":0,"positionKey":"shop_0","topic":"shop"}]'


@pytest.fixture
def client(zookeeper: str, name: str) -> Iterator[KazooClient]:
    client = connect(f"{zookeeper}/{name}")
    yield client
    client.stop()
    client.close()


def set_it(client: KazooClient) -> None:
    set_positions(client, "7", {"shop": POSITION}, {}, "ada@h", "offset set")


def test_a_position_is_set_though_the_answer_is_lost(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(request: Any) -> Any:
        found = answer(request)
        if isinstance(found, list):  # of a transaction
            raise ConnectionLoss
        return found

    monkeypatch.setattr(history, "answer", lose)
    set_it(client)
    assert positions_of(client, "7") == {"shop": POSITION}
    [action] = actions(client)
    assert (action.what, action.failed) == ("offset set", "")


@pytest.mark.parametrize("is_away", [False, True])
def test_a_position_that_is_not_set_or_may_be_is_told_apart(
    client: KazooClient, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    transaction = client.transaction

    class Lost:
        """A transaction that does not reach the server."""

        def get(self, timeout: float) -> Any:
            if is_away:
                monkeypatch.setattr(client, "get_async", lambda *_, **__: self)
            raise ConnectionLoss

    def begin() -> Any:
        made = transaction()
        made.commit_async = Lost
        return made

    monkeypatch.setattr(client, "transaction", begin)
    monkeypatch.setattr(history, "ANSWER_SECONDS", 0.2)
    words = "not known whether the position of task 7 was set: cdcbus offset show 7"
    with pytest.raises(PositionUnavailable) as raised:
        set_it(client)
    assert (words in str(raised.value)) is is_away
    monkeypatch.undo()
    assert histories(client, "7") == {}
