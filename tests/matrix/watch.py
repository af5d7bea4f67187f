"""Which states and alarms the tasks have while something is hurt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

from cdcbus.ops.alarms.store import AlarmNodes
from cdcbus.tasks.zookeeper.status import status_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.matrix.documented import Seen

PAUSE_SECONDS = 0.5


# Raised for an hour, so a second loss within that time only changes its sentence.
LONG = "target-behind"


def raised(tasks: TaskNodes, ids: Sequence[str]) -> dict[tuple[str, str], str]:
    """The alarms that are raised now: task and alarm, and the sentence of one that stays long."""
    alarms = AlarmNodes(tasks.client)
    found = {}
    for task in ids:
        for alarm, each in alarms.get(task)[0].raised.items():
            found[task, alarm] = each.sentence if alarm == LONG else ""
    return found


@contextmanager
def watching(tasks: TaskNodes, ids: Sequence[str]) -> Iterator[Seen]:
    """Looks twice a second, as often as ZooKeeper answers. Alarms that were raised before do not
    count."""
    seen, over = Seen(), Event()
    before = raised(tasks, ids)

    def look() -> None:
        while not over.wait(PAUSE_SECONDS):
            with suppress(Exception):  # ZooKeeper may be down
                seen.states.update((task, status_of(tasks, task).state) for task in ids)
                now = raised(tasks, ids)
                seen.alarms.update(key for key in now if before.get(key) != now[key])

    thread = Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
