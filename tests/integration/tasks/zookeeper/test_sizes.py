"""What is too large for a request to ZooKeeper."""

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.plugins.positions import KafkaPosition, kafka_positions_to_json
from cdcbus.plugins.task_status import State
from cdcbus.tasks.editing.versions import put_tasks, versions_of
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.position.history import (
    has_moved,
    histories,
    history_path,
    positions_of,
    set_positions,
)
from cdcbus.tasks.zookeeper.position.znodes import position_path
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


def texts(task_id: str, topics: int, change: str) -> dict[str, dict[str, Any]]:
    """A task of 20 KB a topic."""
    dist = {"taskId": task_id, "mapper": change * 20_000}
    return {task_id: {f"topic-{number}": dist for number in range(topics)}}


def test_tasks_that_are_too_large_together_are_stored_with_all_their_versions(
    client: KazooClient,
) -> None:
    for change in ("a", "b", "c"):
        tasks: dict[str, dict[str, Any]] = {}
        for number in range(30):
            tasks |= texts(str(number), 1, change)
        put_tasks(client, tasks, True, "somebody", "task import")
    stored = DistNodes(client).get("29")
    assert stored is not None
    assert stored["mapper"] == "c" * 20_000
    assert {len(versions_of(client, task_id)) for task_id in tasks} == {3}
    with pytest.raises(ConfigError, match="task 29 is in ZooKeeper already"):
        put_tasks(client, texts("new", 1, "a") | texts("29", 1, "a"), False, "somebody", "import")
    assert DistNodes(client).get("new") is None


def test_a_task_of_too_many_topics_is_refused_with_its_size(client: KazooClient) -> None:
    # With versions of its text beside it, of which the older ones have no room.
    for change in ("a", "b", "c", "d"):
        put_tasks(client, texts("1", 47, change), True, "somebody", "task import")
    assert len(versions_of(client, "1")) < 4
    with pytest.raises(ConfigError, match=r"texts of task 2 have 1,2\d\d,\d{3} bytes.*maxbuffer"):
        put_tasks(client, texts("2", 60, "a"), True, "somebody", "task import")
    assert DistNodes(client).get("2") is None


def positions(topics: int, partitions: int, offset: int, of: str = "orders") -> dict[str, str]:
    """Of as many topics, by swimlane."""
    names = [f"topic-of-{of}-{number}" for number in range(topics)]
    return {
        name: kafka_positions_to_json(
            KafkaPosition(name, each, offset) for each in range(partitions)
        )
        for name in names
    }


def test_positions_of_many_partitions_are_set_again_and_again(client: KazooClient) -> None:
    """Their histories go with them, in one request."""
    before: dict[str, str | None] = {}
    for offset in range(14):
        texts = positions(10, 50, 10**9 + offset)
        set_positions(client, "7", texts, before, "ada@h", "offset reset")
        before = {**texts}
    assert positions_of(client, "7") == before
    assert {len(changes) > 5 for changes in histories(client, "7").values()} == {True}
    # Also those that have no room any more.
    for swimlane in before:
        assert not has_moved(client.get(history_path("7", swimlane))[0])
    swimlane = next(iter(before))
    changes = histories(client, "7")[swimlane]
    client.set(position_path("7", swimlane), b"the task's own")
    set_positions(client, "7", {swimlane: "x"}, {swimlane: "the task's own"}, "ada@h", "offset set")
    assert [change.at for change in histories(client, "7")[swimlane]][:-1] == [
        change.at for change in changes
    ]
    assert has_moved(client.get(history_path("7", swimlane))[0])


def test_a_topic_of_many_partitions_leaves_less_room_for_the_histories_of_others(
    client: KazooClient,
) -> None:
    before: dict[str, str | None] = {}
    for offset in range(12):
        texts = positions(1, 1000, 10**9 + offset, "pages") | positions(9, 50, 10**9 + offset)
        set_positions(client, "7", texts, before, "ada@h", "offset reset")
        before = {**texts}
    assert positions_of(client, "7") == before
    assert {len(changes) > 5 for changes in histories(client, "7").values()} == {True, False}


@pytest.mark.parametrize(("kilobytes", "fits"), [(330, True), (350, False)])
def test_one_position_is_set_again_with_the_former_beside_it(
    client: KazooClient, kilobytes: int, fits: bool
) -> None:
    """A fetch task has no topics to set one by one."""
    first, second = ("a" * kilobytes * 1000, "b" * kilobytes * 1000)
    set_positions(client, "7", {"db": first}, {}, "ada@h", "offset set")
    if fits:
        set_positions(client, "7", {"db": second}, {"db": first}, "ada@h", "offset set")
    else:
        with pytest.raises(PositionError, match=r"the position of task 7 .*: raise jute") as raised:
            set_positions(client, "7", {"db": second}, {"db": first}, "ada@h", "offset set")
        assert "--topic" not in str(raised.value)
    assert positions_of(client, "7") == {"db": second if fits else first}


def test_positions_that_do_not_fit_into_one_request_are_refused_with_what_to_do(
    client: KazooClient,
) -> None:
    texts = positions(60, 100, 10**9)
    with pytest.raises(PositionError, match=r"task 7 .* too large for one .*--topic.*maxbuffer"):
        set_positions(client, "7", texts, {}, "ada@h", "offset reset")
    assert positions_of(client, "7") == {}
