"""How a task is, of all that ZooKeeper says of it."""

from dataclasses import replace
from typing import Any

import pytest

from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.status import status_of
from cdcbus.tasks.zookeeper.tasks import DesiredState, Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import JsonNode


class Stat_:
    version = mzxid = czxid = ephemeralOwner = 1


class Known(TaskNodes):
    """Says what it is given."""

    def __init__(
        self,
        wanted: DesiredState | None,
        claim: str | None,
        run: Run | None,
        stat: Stat | None,
        lock: bytes | None,
    ) -> None:
        self._wanted, self._claim, self._run, self._stat, self._lock = (
            wanted,
            claim,
            run,
            stat,
            lock,
        )

    def wanted(self, task_id: str, watch: Any = None) -> DesiredState | None:
        return self._wanted

    def claimed_by(self, task_id: str, watch: Any = None) -> str | None:
        return self._claim

    def run(self, task_id: str, watch: Any = None) -> Run | None:
        return self._run

    def stat(self, task_id: str, watch: Any = None) -> Stat | None:
        return self._stat

    def open_dead_letters(self, task_id: str) -> int | None:
        return 3

    def locks(self, task_id: str) -> dict[str, JsonNode]:
        return {} if self._lock is None else {"swimlane": JsonNode("p", self._lock, Stat_)}


GO, HALT = DesiredState(is_working=True, order=5), DesiredState(is_working=False, order=5)
CHILD = b'{"processId":7,"nodeId":"n1"}'
HAND = b'{"processId":7,"nodeId":""}'
TOLD = Stat(State.WORKING, process_id=7)
LATER_BY_HAND = b'{"processId":7,"process":"boot/1/7/99","nodeId":""}'


@pytest.mark.parametrize(
    ("wanted", "claim", "run", "stat", "lock", "state"),
    [
        (None, None, None, None, None, State.NEW),
        (None, None, None, TOLD, None, State.NEW),  # run by hand once
        (None, None, None, TOLD, HAND, State.WORKING),
        # what an earlier process has told
        (None, None, None, Stat(State.WORKING, process_id=6), HAND, State.STARTING),
        # In a container that was started again its processes have the same ids.
        (None, None, None, replace(TOLD, process="boot/1/7/50"), LATER_BY_HAND, State.STARTING),
        (None, None, None, replace(TOLD, process="boot/1/7/99"), LATER_BY_HAND, State.WORKING),
        (GO, None, None, None, None, State.STARTING),
        (GO, None, Run(State.WORKING, order=5), None, None, State.STARTING),  # its node has died
        (GO, None, Run(State.ERROR, order=5), None, None, State.ERROR),
        (GO, None, Run(State.DONE, order=5), None, None, State.DONE),
        (GO, None, Run(State.ERROR, order=4), None, None, State.STARTING),  # started again since
        (GO, "n1", Run(State.WORKING, order=5, node_id="n1"), TOLD, CHILD, State.WORKING),
        (GO, "n1", Run(State.RETRYING, order=5, node_id="n1"), TOLD, CHILD, State.RETRYING),
        # a restart that its node has not seen yet
        (GO, "n1", Run(State.WORKING, order=4, node_id="n1"), TOLD, CHILD, State.STARTING),
        # Another node has just taken it, and its process is not there yet.
        (GO, "n2", Run(State.WORKING, order=5, node_id="n1"), TOLD, CHILD, State.STARTING),
        (HALT, "n1", Run(State.WORKING, order=4), TOLD, CHILD, State.WORKING),
        # its node is gone, its process not yet
        (HALT, None, Run(State.WORKING, order=4), TOLD, CHILD, State.WORKING),
        (HALT, None, Run(State.STOPPED, order=5), None, None, State.STOPPED),
        (HALT, None, None, None, None, State.STOPPED),
        (GO, None, None, None, b"junk", State.STARTING),
    ],
)
def test_the_state_follows_from_what_is_wanted_who_has_it_and_who_holds_the_lock(
    wanted: DesiredState | None,
    claim: str | None,
    run: Run | None,
    stat: Stat | None,
    lock: bytes | None,
    state: State,
) -> None:
    assert status_of(Known(wanted, claim, run, stat, lock), "1").state is state


@pytest.mark.parametrize(
    ("wanted", "claim", "run", "stat", "lock", "waits"),
    [
        (GO, None, Run(State.ERROR, order=5), None, None, True),
        (GO, "n1", Run(State.RETRYING, order=5, node_id="n1"), None, None, True),
        (GO, "n1", Run(State.RETRYING, order=5, node_id="n1"), TOLD, CHILD, False),
        (GO, "n1", Run(State.WORKING, order=5, node_id="n1"), TOLD, CHILD, False),
        (GO, None, Run(State.DONE, order=5), None, None, False),
        (HALT, "n1", Run(State.ERROR, order=4), None, None, False),
        (HALT, None, Run(State.ERROR, order=5), None, None, False),
        (GO, None, Run(State.ERROR, order=5), replace(TOLD, state=State.ERROR), HAND, False),
        (None, None, None, None, None, False),
    ],
)
def test_a_started_task_that_has_ended_by_an_error_waits_for_a_position(
    wanted: DesiredState | None,
    claim: str | None,
    run: Run | None,
    stat: Stat | None,
    lock: bytes | None,
    waits: bool,
) -> None:
    assert status_of(Known(wanted, claim, run, stat, lock), "1").waits is waits


def test_a_task_that_is_being_stopped_says_where() -> None:
    status = status_of(Known(HALT, "n1", Run(State.WORKING, order=4), TOLD, CHILD), "1")
    assert status.reason == "stopping on node n1"
