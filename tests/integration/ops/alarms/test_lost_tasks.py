"""A real ZooKeeper that comes back without the tasks that a node ran."""

from __future__ import annotations

import pytest

from cdcbus.ops.alarms.lost_tasks import LostTasks
from cdcbus.tasks.zookeeper.connection import connected
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.support.servers.private_zookeeper import private_zookeeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def test_a_zookeeper_whose_files_are_gone_has_lost_the_tasks_that_ran() -> None:
    """As a container without its volume."""
    lost = LostTasks()
    with private_zookeeper() as server, connected(server.address, session_seconds=4) as client:
        DistNodes(client).put({"7": {"a": {}}, "8": {"a": {}}}, is_replacing=False)
        TaskNodes(client).want("7", True, "ada@h")
        lost.note("7")
        assert lost.look(client, 600.0) == ("", 0.0)
        server.kill()
        server.empty()
        server.start()
        wait_until(lambda: client.connected, "the client to be back")
        sentence, at = lost.look(client, 600.0)
        assert sentence.startswith("ZooKeeper holds nothing any more of task 7, which ran here")
        assert lost.look(client, 600.0) == (sentence, at)
        assert lost.look(client, 0.0) == ("", 0.0)
