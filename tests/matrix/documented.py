"""The states and alarms that a cell must bring, and may bring, by `docs/alarms.md`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from cdcbus.plugins.kafka.producer import STUCK_SECONDS
from cdcbus.plugins.task_status import State
from tests.matrix.cells import Cell, Fault, Load, Victim

FETCH, LOAD = "fetch", "load"
TASKS = (FETCH, LOAD)
# A source that says nothing for 15 s is given up.
SILENT_SECONDS = 15.0
# After which another address of the source is read.
FAILOVER_SECONDS = 12.0
# Nodes look for alarms every 10 s, and a state takes a moment to arrive.
LOOK_SECONDS = 14.0
# Those that say that a task waits, or is behind. They end by themselves.
PASSING = frozenset(("retrying", "starting", "lag-records", "lag-seconds"))


@dataclass(frozen=True, slots=True)
class Seen:
    """Each with its task."""

    states: set[tuple[str, State]] = field(default_factory=set)
    alarms: set[tuple[str, str]] = field(default_factory=set)


def undocumented(
    cell: Cell, seconds: float, seen: Seen, late: Set[tuple[str, str]] = frozenset()
) -> Iterator[str]:
    """A sentence for each difference between what was seen and what is documented of a fault of
    this length. `late`: alarms that the cell before may bring, and may bring as late as now."""
    for task, state in sorted(seen.states):
        if state not in (State.STARTING, State.WORKING, State.RETRYING):
            yield f"{task} was {state}"
    if cell.victim is Victim.PRIMARY and cell.fault is not Fault.STOP:
        seconds = min(seconds, FAILOVER_SECONDS)
    for task, after_seconds in _waiting(cell):
        if after_seconds < seconds and (task, State.RETRYING) not in seen.states:
            yield f"{task} was never RETRYING"
        if after_seconds + LOOK_SECONDS < seconds and (task, "retrying") not in seen.alarms:
            yield f"{task} had no alarm retrying"
    came = {(task, alarm) for task, alarm in seen.alarms if alarm not in PASSING}
    must, may = lasting(cell)
    for task, alarm in sorted(must - came):
        yield f"{task} had no alarm {alarm}"
    for task, alarm in sorted(came - must - may - late):
        yield f"{task} had the alarm {alarm}"


def _waiting(cell: Cell) -> Iterator[tuple[str, float]]:
    """The tasks that must notice the fault, and after how many seconds at the latest. One that has
    nothing to send to a server notices nothing."""
    is_idle = cell.load is Load.IDLE
    match cell.victim, cell.fault:
        case (Victim.SOURCE, Fault.CUT) | (Victim.PRIMARY, Fault.CUT | Fault.KILL):
            yield FETCH, 2
        case Victim.SOURCE | Victim.PRIMARY, Fault.STOP:
            yield FETCH, SILENT_SECONDS + 2
        case Victim.KAFKA, Fault.CUT | Fault.STOP:
            if not is_idle:
                yield FETCH, STUCK_SECONDS + 5
            if cell.fault is Fault.CUT:
                # Executors wait for records.
                yield LOAD, 60 if cell.load is Load.GEARS else 2
        case Victim.TARGET, Fault.CUT if not is_idle:
            yield LOAD, 10


def lasting(cell: Cell) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The alarms about rows that a cell must bring, and those that it may bring besides."""
    must: set[tuple[str, str]] = set()
    may: set[tuple[str, str]] = set()
    if (cell.victim, cell.fault) == (Victim.TARGET, Fault.RESTORE):
        # where nothing was written, nothing is lost
        (may if cell.load is Load.IDLE else must).add((LOAD, "target-behind"))
    # It may send records after its lock is lost.
    is_away = cell.fault in (Fault.STOP, Fault.CUT, Fault.SLOW) or cell.victim is Victim.QUORUM
    if is_away and cell.victim in (
        Victim.FETCH,
        Victim.NODE,
        Victim.ZOOKEEPER,
        Victim.ZOOKEEPER_LEADER,
        Victim.QUORUM,
    ):
        may.add((LOAD, "late-records"))
    # Three of them within an hour are of several cells.
    if (cell.victim, cell.fault) == (Victim.FETCH, Fault.KILL):
        may.add((FETCH, "restarts"))
    # The process of consumer tasks is also restarted where it cannot prove its locks.
    if cell.victim in (
        Victim.CONSUMER,
        Victim.SPARK,
        Victim.ZOOKEEPER,
        Victim.ZOOKEEPER_LEADER,
        Victim.QUORUM,
    ):
        may.add((LOAD, "restarts"))
    return must, may
