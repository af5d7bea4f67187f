"""The lock of a swimlane on a real ZooKeeper: who gets it, who waits, and that its holder stops
in time."""

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType

import pytest
from kazoo.client import KazooClient

from cdcbus.plugins.errors import PositionConflict
from cdcbus.tasks.zookeeper import epochs, znode
from cdcbus.tasks.zookeeper.connection import connect, connected
from cdcbus.tasks.zookeeper.epochs import bus_identity, epoch_path, next_epoch
from cdcbus.tasks.zookeeper.lock import LockTimes, held, lock_path
from cdcbus.tasks.zookeeper.node_registry import NODES, BusNodes
from tests.support.servers.line import Line
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

IDENTITY = (
    "import json; from cdcbus.tasks.process_identity import identity; print(json.dumps(identity()))"
)


@pytest.fixture
def client(zookeeper: str, name: str) -> Iterator[KazooClient]:
    client = connect(f"{zookeeper}/{name}")
    yield client
    client.stop()
    client.close()


@pytest.fixture
def line(zookeeper: str) -> Iterator[Line]:
    line = Line(zookeeper)
    yield line
    line.close()


@pytest.fixture
def other(zookeeper: str, name: str) -> Iterator[KazooClient]:
    with connected(f"{zookeeper}/{name}") as other:
        yield other


@pytest.fixture
def gone(zookeeper: str, name: str) -> Iterator[KazooClient]:
    """Of a process that has ended; its session lasts."""
    with connected(f"{zookeeper}/{name}", session_seconds=30) as gone:
        yield gone


def dead_identity() -> bytes:
    """Of a process of this machine that has ended."""
    return subprocess.run([sys.executable, "-c", IDENTITY], capture_output=True, check=True).stdout


def lost_never() -> None:
    raise AssertionError


def test_who_comes_second_waits_and_says_for_whom(
    client: KazooClient, zookeeper: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    other, stop = connect(f"{zookeeper}/{name}"), threading.Event()
    got = []

    def wait() -> None:
        with held(other, "1", ["a", "b"], "n2", stop, lost_never) as is_held:
            got.append(is_held)

    with (
        caplog.at_level(logging.WARNING),
        held(client, "1", ["b"], "n1", threading.Event(), lost_never) as is_held,
    ):
        assert is_held
        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_until(
            lambda: f"{lock_path('1', 'b')} is held by process " in caplog.text,
            "the second to say it",
        )
        assert ("(node n1); waiting until it is released" in caplog.text, got) == (True, [])
    waiting.join(30)
    assert (got, client.get_children(lock_path("1"))) == ([True], [])
    other.stop()
    other.close()


def test_a_lock_of_a_process_that_has_ended_on_this_machine_is_taken_at_once(
    client: KazooClient, gone: KazooClient
) -> None:
    gone.create(lock_path("1", "a"), dead_identity(), ephemeral=True, makepath=True)
    begun = time.monotonic()
    with held(client, "1", ["a"], "", threading.Event(), lost_never) as is_held:
        assert is_held
        assert json.loads(client.get(lock_path("1", "a"))[0])["swimlaneId"] == "a"
    assert time.monotonic() - begun < 15


def meanwhile(
    monkeypatch: pytest.MonkeyPatch,
    question: str,
    act: Callable[[], object],
    module: ModuleType = znode,
) -> None:
    """Has something happen between a look at a holder, where the question is asked of it, and what
    follows from the answer, which is yes."""

    def answer(*_: object) -> bool:
        monkeypatch.undo()
        act()
        return True

    monkeypatch.setattr(module, question, answer)


def test_of_two_who_see_that_a_holder_has_ended_one_gets_its_lock(
    client: KazooClient, other: KazooClient, gone: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of the first is as new as that of the one which has ended."""
    path, stop = lock_path("1", "a"), threading.Event()
    gone.create(path, dead_identity(), ephemeral=True, makepath=True)
    with ExitStack() as first:

        def take() -> None:
            assert first.enter_context(held(client, "1", ["a"], "", threading.Event(), lost_never))
            stop.set()

        meanwhile(monkeypatch, "is_gone", take)
        with held(other, "1", ["a"], "", stop, lost_never) as is_held:
            assert not is_held
            assert client.get(path)[1].ephemeralOwner == client.client_id[0]


def test_of_two_who_see_that_a_nodes_process_has_ended_one_is_the_node(
    client: KazooClient, other: KazooClient, gone: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{NODES}/n1/lock"
    gone.create(path, dead_identity(), ephemeral=True, makepath=True)
    found = []
    meanwhile(monkeypatch, "is_gone", lambda: found.append(BusNodes(client).register("n1")))
    holder = BusNodes(other).register("n1")
    assert found == [None]
    assert holder is not None and holder.owner == client.client_id[0]


def test_who_gives_its_lock_up_late_leaves_that_of_the_next_holder_alone(
    client: KazooClient, other: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lock_path("1", "a")
    assert znode.take_free(client, path, {}) is None

    def replace() -> None:
        client.delete(path)  # as ZooKeeper does when the session is over
        assert znode.take_free(other, path, {}) is None

    meanwhile(monkeypatch, "is_own", replace)
    znode.give_up(client, path)
    assert client.get(path)[1].ephemeralOwner == other.client_id[0]


def test_porters_lock_is_respected_and_told_of(
    client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.create(
        lock_path("1", "a"),
        b'{"taskId":"1","nodeId":"5","hostName":"h","processId":"77"}',
        makepath=True,
    )
    stop, got = threading.Event(), []

    def wait() -> None:
        with held(client, "1", ["a"], "", stop, lost_never) as is_held:
            got.append(is_held)

    waiting = threading.Thread(target=wait)
    with caplog.at_level(logging.WARNING):
        waiting.start()
        wait_until(
            lambda: "delete it if porter does not run this task any more" in caplog.text,
            "the sentence",
        )
    stop.set()
    waiting.join(30)
    assert (got, client.exists(lock_path("1", "a")) is None) == ([False], False)


def test_a_lock_that_somebody_deletes_is_noticed(client: KazooClient) -> None:
    lost = threading.Event()
    with held(client, "1", ["a"], "", threading.Event(), lost.set):
        client.delete(lock_path("1", "a"))
        assert lost.wait(30)


def test_who_is_cut_off_stops_before_anybody_else_can_have_the_lock(
    client: KazooClient, line: Line, name: str
) -> None:
    there: list[bool] = []
    lost = threading.Event()

    def on_lost() -> None:
        there.append(client.exists(lock_path("1", "a")) is not None)
        lost.set()

    cut_off = connect(f"{line.address}/{name}", session_seconds=LockTimes().session_seconds)
    with held(cut_off, "1", ["a"], "", threading.Event(), on_lost) as is_held:
        assert is_held
        line.cut()
        begun = time.monotonic()
        assert lost.wait(30)
        seconds = time.monotonic() - begun
        wait_until(lambda: client.exists(lock_path("1", "a")) is None, "ZooKeeper to give it away")
        assert time.monotonic() - begun > seconds
        assert there == [True]
        assert seconds > LockTimes().lease_seconds / 2
        line.mend()
    cut_off.stop()
    cut_off.close()


def test_each_holder_has_a_higher_epoch_also_where_its_node_is_lost_and_who_lost_the_lock_has_none(
    client: KazooClient,
) -> None:
    found = []
    for _ in range(3):
        with held(client, "1", ["a"], "", threading.Event(), lost_never):
            found += [next_epoch(client, "1", "a"), next_epoch(client, "1", "a")]
    client.set(epoch_path("1", "a"), b"9000000000000")  # of a machine whose clock was ahead
    with held(client, "1", ["a"], "", threading.Event(), lost_never):
        found.append(next_epoch(client, "1", "a"))
        assert found[-1] == 9000000000001
    # as where the task is removed and stored again
    client.delete(epoch_path("1", "a"))
    with held(client, "1", ["a"], "", threading.Event(), lost_never):
        assert next_epoch(client, "1", "a") > found[-1]
    assert found == sorted({*found})
    with pytest.raises(PositionConflict, match="not held by this process any longer"):
        next_epoch(client, "1", "a")


def test_who_has_lost_its_lock_meanwhile_gets_no_epoch_above_its_successors(
    client: KazooClient, other: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor's lock has as many changes as that of the former holder had."""
    path = lock_path("1", "a")
    assert znode.take_free(client, path, {}) is None
    next_epoch(client, "1", "a")
    found = []

    def replace() -> None:
        client.delete(path)  # as ZooKeeper does when the session is over
        assert znode.take_free(other, path, {}) is None
        found.append(next_epoch(other, "1", "a"))

    meanwhile(monkeypatch, "is_own", replace, epochs)
    with pytest.raises(PositionConflict):
        next_epoch(client, "1", "a")
    assert client.get(epoch_path("1", "a"))[0] == str(found[0]).encode()


def test_each_bus_has_an_identity_that_stays(
    client: KazooClient, zookeeper: str, name: str
) -> None:
    other = connect(f"{zookeeper}/{name}-other")
    known = []
    for each in (client, other):
        with held(each, "1", ["a"], "", threading.Event(), lost_never):
            known.append(bus_identity(each))
            assert bus_identity(each) == known[-1]
        each.delete("/datas/task/1", recursive=True)
        assert bus_identity(each) == known[-1]
    assert known[0] != known[1]
    other.stop()
    other.close()


def test_a_holder_that_another_one_follows_gets_no_higher_epoch(
    client: KazooClient, zookeeper: str, name: str
) -> None:
    other = connect(f"{zookeeper}/{name}")
    with held(client, "1", ["a"], "", threading.Event(), lost_never):
        client.delete(lock_path("1", "a"))  # as ZooKeeper does when the session is over
        with held(other, "1", ["a"], "", threading.Event(), lost_never):
            epoch = next_epoch(other, "1", "a")
            with pytest.raises(PositionConflict):
                next_epoch(client, "1", "a")
            assert client.get(epoch_path("1", "a"))[0] == str(epoch).encode()
    other.stop()
    other.close()
