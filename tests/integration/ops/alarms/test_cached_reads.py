"""Reads that are kept until the node changes."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.ops.alarms.cached_reads import CachedReads
from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.znode import get_children, get_node
from tests.support.servers.line import Line
from tests.support.servers.private_zookeeper import PrivateZooKeeper, private_zookeeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateZooKeeper]:
    with private_zookeeper() as server:
        yield server


@pytest.fixture
def line(server: PrivateZooKeeper) -> Iterator[Line]:
    with closing(Line(server.address)) as line:
        yield line


class Counting:
    """A client that counts its reads."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client
        self.reads = 0

    def __getattr__(self, name: str) -> object:
        if name in ("get_async", "get_children_async", "exists_async"):
            self.reads += 1
        return getattr(self.client, name)


@pytest.fixture
def counting(line: Line, name: str) -> Iterator[Counting]:
    client = connect(f"{line.address}/{name}", session_seconds=6)
    yield Counting(client)
    client.stop()
    client.close()


@pytest.fixture
def other(server: PrivateZooKeeper, counting: Counting, name: str) -> Iterator[KazooClient]:
    other = connect(f"{server.address}/{name}", session_seconds=60)
    yield other
    other.stop()
    other.close()


def word(cached: CachedReads, path: str = "/a") -> str | None:
    node = get_node(cached, path)
    return None if node is None else node.text("word")


def test_a_node_is_read_again_only_after_a_change(counting: Counting, other: KazooClient) -> None:
    cached = CachedReads(counting)
    other.create("/a", b'{"word":"one"}')
    assert [word(cached) for _ in range(5)] == ["one"] * 5
    assert counting.reads == 1
    for text in ("two", "three"):  # more than one change
        other.set("/a", f'{{"word":"{text}"}}'.encode())
        wait_until(lambda: word(cached) == text, "the change")
    other.delete("/a")
    wait_until(lambda: word(cached) is None, "the end of the node")


def test_that_there_is_no_node_is_kept_until_there_is_one(
    counting: Counting, other: KazooClient
) -> None:
    cached = CachedReads(counting)
    assert word(cached) is None
    assert [word(cached) for _ in range(5)] == [None] * 5
    assert counting.reads == 2  # of the node, and whether it exists
    other.create("/a", b'{"word":"one"}')
    wait_until(lambda: word(cached) == "one", "the new node")


def test_children_are_asked_for_again_after_a_change(
    counting: Counting, other: KazooClient
) -> None:
    cached = CachedReads(counting)
    assert get_children(cached, "/a") == []
    other.create("/a/b", makepath=True)
    wait_until(lambda: get_children(cached, "/a") == ["b"], "the first child")
    other.create("/a/c")
    wait_until(lambda: get_children(cached, "/a") == ["b", "c"], "the second child")


def test_nothing_is_kept_over_a_lost_connection(
    counting: Counting, other: KazooClient, line: Line
) -> None:
    cached = CachedReads(counting)
    other.create("/a", b'{"word":"one"}')
    assert word(cached) == "one"
    line.cut()
    wait_until(lambda: not counting.client.connected, "the end of the connection")
    other.set("/a", b'{"word":"two"}')
    with pytest.raises(PositionUnavailable):
        word(cached)
    line.mend()
    wait_until(lambda: counting.client.connected, "the connection")
    assert word(cached) == "two"


def test_what_is_written_goes_to_the_server(counting: Counting, other: KazooClient) -> None:
    cached = CachedReads(counting)
    other.create("/a", b'{"word":"one"}')
    assert word(cached) == "one"
    cached.set("/a", b'{"word":"two"}')
    assert other.get("/a")[0] == b'{"word":"two"}'
    wait_until(lambda: word(cached) == "two", "the change")
    with pytest.raises(NoNodeError):
        cached.delete("/b")
