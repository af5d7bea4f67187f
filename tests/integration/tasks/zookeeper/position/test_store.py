"""ZooKeeperPositions on a real ZooKeeper, over a line that can be cut at the worst moment."""

import itertools
import os
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.plugins.contracts import NO_MARK, Written
from cdcbus.plugins.errors import PositionConflict, PositionError, PositionUnavailable
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.contract.position_store import PositionStoreContract, eventually
from tests.support.servers.line import Line

pytestmark = pytest.mark.integration
numbers = itertools.count()


class ZooKeeperHand:
    """An operator with a session of their own, at a node nobody used before."""

    def __init__(self, client: KazooClient, hand: KazooClient) -> None:
        self._client, self._hand = client, hand
        self._task_id = f"{os.getpid()}-{next(numbers)}"

    def store(self, patience_seconds: float = 15.0) -> ZooKeeperPositions:
        store = ZooKeeperPositions(self._client, self._task_id, "T_ORDER", patience_seconds)
        self.path = store.path
        return store

    def set(self, text: str) -> None:
        path = f"/datas/task/{self._task_id}/position/T_ORDER"
        try:
            self._hand.set(path, text.encode())
        except NoNodeError:
            self._hand.create(path, text.encode(), makepath=True)

    def delete(self) -> None:
        self._hand.delete(self.path)

    def text(self) -> str:
        return str(self._hand.get(self.path)[0].decode())

    def version(self) -> int:
        return int(self._hand.get(self.path)[1].version)


@pytest.fixture(scope="module")
def hand(zookeeper: str) -> Iterator[KazooClient]:
    client = connect(f"{zookeeper}/cdcbus/positions-test")
    yield client
    client.stop()
    client.close()


@pytest.fixture(scope="module")
def client(zookeeper: str) -> Iterator[KazooClient]:
    client = connect(f"{zookeeper}/cdcbus/positions-test")
    yield client
    client.stop()
    client.close()


class TestZooKeeperPositions(PositionStoreContract):
    @pytest.fixture
    def node(self, client: KazooClient, hand: KazooClient) -> ZooKeeperHand:
        return ZooKeeperHand(client, hand)


@pytest.fixture
def line(zookeeper: str) -> Iterator[Line]:
    line = Line(zookeeper)
    yield line
    line.close()


@pytest.fixture
def node(line: Line, hand: KazooClient) -> Iterator[ZooKeeperHand]:
    client = connect(f"{line.address}/cdcbus/positions-test")
    yield ZooKeeperHand(client, hand)
    line.mend()
    client.stop()
    client.close()


def save_with_lost_answer(
    store: ZooKeeperPositions, text: str, node: ZooKeeperHand, line: Line
) -> threading.Thread:
    """Saves in a thread; returns when the server has written it but the answer is lost for ever."""
    line.loses_answers_from = text.encode()
    before = node.version()
    saving = threading.Thread(target=store.save, args=(text,))
    saving.start()
    assert eventually(lambda: node.version() == before + 1)
    line.cut()
    return saving


def test_a_write_whose_answer_was_lost_is_recognised_as_ours(
    node: ZooKeeperHand, line: Line
) -> None:
    store = node.store()
    store.load()
    store.save("first")
    saving = save_with_lost_answer(store, "second", node, line)
    line.mend()
    saving.join(20)
    assert not saving.is_alive()
    assert node.version() == 1, "it was not written twice"
    assert (store.written, store.is_own) == (Written("second", NO_MARK), True)
    assert not eventually(store.is_edited, within_seconds=0.5)
    store.save("third")
    assert node.text() == "third"


def test_an_edit_behind_a_lost_answer_wins(node: ZooKeeperHand, line: Line) -> None:
    store = node.store(patience_seconds=0.5)
    store.load()
    store.save("first")
    line.loses_answers_from = b"second"
    with pytest.raises(PositionUnavailable):
        store.save("second")
    line.cut()
    assert eventually(lambda: node.text() == "second")
    node.set("edited")
    line.mend()
    assert eventually(store.is_edited, within_seconds=20)
    with pytest.raises(PositionConflict):
        store.save("third")
    assert node.text() == "edited"


def test_a_save_that_gave_up_can_be_repeated(node: ZooKeeperHand, line: Line) -> None:
    store = node.store(patience_seconds=0.5)
    store.load()
    store.save("first")
    line.loses_answers_from = b"second"
    with pytest.raises(
        PositionUnavailable, match=r"does not answer for /datas/task/.*/position/T_ORDER"
    ):
        store.save("second")
    line.cut()
    line.mend()
    assert eventually(lambda: node._client.connected, within_seconds=20)
    store.save("third")
    assert (node.text(), node.version()) == ("third", 2)


def test_a_write_that_never_arrived_is_written_after_reconnecting(
    node: ZooKeeperHand, line: Line
) -> None:
    store = node.store()
    store.load()
    store.save("first")
    line.cut()
    saving = threading.Thread(target=store.save, args=("second",))
    saving.start()
    line.mend()
    saving.join(20)
    assert (node.text(), node.version()) == ("second", 1)


def test_an_edit_made_while_the_line_was_cut_is_told_after_reconnecting(
    node: ZooKeeperHand, line: Line
) -> None:
    store = node.store()
    store.load()
    store.save("first")
    line.cut()
    node.set("edited")
    line.mend()
    assert eventually(store.is_edited, within_seconds=20)
    assert store.load() == "edited"


def test_bytes_that_are_no_text_are_a_position_error(
    node: ZooKeeperHand, hand: KazooClient
) -> None:
    store = node.store()
    hand.create(store.path, b"\xff\xfe", makepath=True)
    with pytest.raises(PositionError, match="UTF-8"):
        store.load()


def test_nodes_made_with_digest_auth_belong_to_that_user(zookeeper: str) -> None:
    chroot = f"{zookeeper}/cdcbus/auth-{os.getpid()}"
    owner = connect(chroot, auth="operator:right")
    stranger = connect(zookeeper, auth="operator:wrong")
    try:
        store = ZooKeeperPositions(owner, "1", "T_ORDER")
        store.load()
        store.save("first")
        stranger.chroot = f"/cdcbus/auth-{os.getpid()}"
        with pytest.raises(PositionError, match="ACL"):
            ZooKeeperPositions(stranger, "1", "T_ORDER").load()
    finally:
        for client in (owner, stranger):
            client.stop()
            client.close()


def test_a_position_larger_than_a_request_may_be_is_refused_with_its_size(
    client: KazooClient, hand: KazooClient
) -> None:
    node = ZooKeeperHand(client, hand)
    store = node.store()
    store.load()
    store.save("first")
    with pytest.raises(
        PositionError, match=r"600,000 bytes, .* 1,200,\d{3}, .*jute\.maxbuffer"
    ) as no:
        store.save("2" * 600_000)
    assert not isinstance(no.value, PositionUnavailable), "it would be tried again for ever"
    assert node.text() == "first"
    store.save("third")
    assert node.text() == "third"
