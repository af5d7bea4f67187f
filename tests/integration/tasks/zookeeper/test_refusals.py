"""What ZooKeeper refuses, or a process lacks for a connection to it, is said, and nothing is final
that passes."""

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Thread

import pytest
from kazoo.client import KazooClient
from kazoo.security import READ_ACL_UNSAFE

from cdcbus.plugins.errors import PositionError, PositionUnavailable, QuotaUsedUp
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.position.history import set_positions
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.position.znodes import position_path
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas
from cdcbus.tasks.zookeeper.source_registry import SourceNodes
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import drop_tree, get_node, put_node
from tests.support.servers.line import Line
from tests.support.servers.private_zookeeper import private_zookeeper

pytestmark = pytest.mark.integration

# Its limit keeps every file descriptor from being opened, until the look-up of the server's name
# has failed once.
STARVED = textwrap.dedent(
    """
    import logging, resource, socket, sys
    from threading import Event

    from cdcbus.tasks.zookeeper.connection import connect

    failed = Event()

    class Seen(logging.Handler):
        def emit(self, record):
            failed.set()

    logging.getLogger("cdcbus.tasks.zookeeper.connection").addHandler(Seen())
    client = connect(sys.argv[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    client._connection._socket.shutdown(socket.SHUT_RDWR)
    while not failed.wait(0.01) and not client._connection.connection_stopped.is_set():
        pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(client.get_async("/").get(timeout=20)[1].version)
    client.stop()
    """
)


def test_a_client_comes_back_after_its_process_could_open_no_files(zookeeper: str) -> None:
    address = zookeeper.replace("127.0.0.1", "localhost")
    ran = subprocess.run(
        [sys.executable, "-c", STARVED, address], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr


# Longer than any of these may wait for an answer.
ANSWERED_SECONDS = 30.0


def test_a_request_that_zookeeper_does_not_answer_ends(zookeeper: str, name: str) -> None:
    """Its client only connects again and again: what has no limit waits for ever."""
    with closing(Line(zookeeper)) as line:
        client = connect(f"{line.address}/{name}")
        sources, dists = SourceNodes(client), DistNodes(client)
        line.cut()
        requests: dict[str, Callable[[], object]] = {
            "names": sources.names,
            "get": lambda: sources.get("shop"),
            "put": lambda: sources.put("shop", {}, True, "ann"),
            "store": lambda: dists.put({"7": {"shop": {}}}, True),
            "task": lambda: TaskNodes(client).remove("7"),
            "node": lambda: BusNodes(client).remove("n1", "ann"),
            "tree": lambda: drop_tree(client, "/datas/task/7"),
        }
        ended: dict[str, type[BaseException] | None] = {}

        def ask(what: str, request: Callable[[], object]) -> None:
            try:
                request()
                ended[what] = None
            except BaseException as error:
                ended[what] = type(error)

        asking = [Thread(target=ask, args=each, daemon=True) for each in requests.items()]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(ANSWERED_SECONDS)
        assert ended == dict.fromkeys(requests, PositionUnavailable)
        client.stop()
        client.close()


def test_a_tree_is_deleted_with_all_below_it(zookeeper: str, name: str) -> None:
    client = connect(f"{zookeeper}/{name}")
    for path in ("/datas/task/7/a/b", "/datas/task/7/c", "/datas/task/70"):
        client.create(path, makepath=True)
    drop_tree(client, "/datas/task/7")
    drop_tree(client, "/datas/task/7")
    assert client.get_children("/datas/task") == ["70"]
    client.stop()
    client.close()


@pytest.fixture(scope="module")
def limited() -> Iterator[KazooClient]:
    """Of a server that keeps everything below /limited to 300 bytes."""
    with private_zookeeper({"enforceQuota": "true"}) as server:
        operator = connect(server.address)
        quota = "/zookeeper/quota/limited"
        operator.create(f"{quota}/zookeeper_limits", b"byteHardLimit=300", makepath=True)
        operator.create(f"{quota}/zookeeper_stats", b"count=0,bytes=0")
        client = connect(f"{server.address}/limited")
        yield client
        for each in (operator, client):
            each.stop()
            each.close()


def test_a_quota_that_is_used_up_is_said_and_the_task_waits_until_it_is_raised(
    limited: KazooClient,
) -> None:
    positions = ZooKeeperPositions(limited, "7", "shop")
    positions.load()
    positions.save("mysql-bin.000001:4")
    with pytest.raises(QuotaUsedUp, match=r"/7/position/shop, as a quota .* raise it"):
        positions.save("x" * 500)
    with pytest.raises(QuotaUsedUp, match="as a quota"):
        ZooKeeperSchemas(limited, "7", "shop").save({"orders": "x" * 500})
    with pytest.raises(QuotaUsedUp, match="as a quota"):
        put_node(limited, "/datas/task/7/stat", {"text": "x" * 500})
    positions.save("mysql-bin.000001:5")
    assert positions.load() == "mysql-bin.000001:5"


def test_a_position_that_may_not_be_written_is_not_said_to_have_moved(
    zookeeper: str, name: str
) -> None:
    client = connect(f"{zookeeper}/{name}")
    path = client.create(position_path("7", "shop"), b"1", makepath=True)
    client.set_acls(path, READ_ACL_UNSAFE)
    with pytest.raises(PositionError, match="does not let this user use") as refused:
        set_positions(client, "7", {"shop": "2"}, {"shop": "1"}, "ann", "offset set")
    assert type(refused.value) is PositionError
    client.stop()
    client.close()


def test_a_server_that_wants_a_login_is_named_with_the_setting_for_it() -> None:
    wanted = {"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest"}
    with private_zookeeper(wanted) as server:
        with pytest.raises(PositionError, match=r"set zookeeper\.auth") as refused:
            connect(f"{server.address}/bus")
        assert not isinstance(refused.value, PositionUnavailable)
        client = connect(server.address)
        with pytest.raises(PositionError, match=r"set zookeeper\.auth") as refused:
            get_node(client, "/datas")
        assert not isinstance(refused.value, PositionUnavailable)
        known = connect(f"{server.address}/bus", auth="ann:secret")
        assert get_node(known, "/datas") is None
        for each in (client, known):
            each.stop()
            each.close()
