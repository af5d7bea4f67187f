"""What is too large for a request to ZooKeeper."""

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.tasks import FAILURES_KEPT, Run, TaskNodes

pytestmark = pytest.mark.integration


@pytest.fixture
def client(zookeeper: str, name: str) -> Iterator[KazooClient]:
    client = connect(f"{zookeeper}/{name}")
    yield client
    client.stop()
    client.close()


def test_failures_that_name_huge_gtid_sets_are_stored_without_their_middle(
    client: KazooClient,
) -> None:
    nodes = TaskNodes(client)
    for number in range(FAILURES_KEPT + 1):
        nodes.add_failure("shop", "node n1", f"purged {number}: {'7' * 300_000}; reset it")
    sentence = nodes.errors("shop")[-1].sentence
    assert sentence.startswith(f"purged {FAILURES_KEPT}: 7")
    assert sentence.endswith("7; reset it")
    assert len(sentence) < 5000


def test_the_state_of_a_task_with_a_huge_reason_is_reported(client: KazooClient) -> None:
    nodes = TaskNodes(client)
    reason = f"purged {'7' * 1_100_000}; reset it"
    nodes.put_stat("shop", Stat(State.ERROR, reason))
    nodes.put_run("shop", Run(State.ERROR, reason, node_id="n1"))
    run, stat = nodes.run("shop"), nodes.stat("shop")
    assert run is not None
    assert stat is not None
    assert run.reason == stat.reason
    assert run.reason.endswith("7; reset it")
