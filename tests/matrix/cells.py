"""The cells of the fault matrix: which part is hurt, how, and under which load. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Victim(StrEnum):
    """A process of ours, of Spark, or a server."""

    FETCH = "fetch task"
    CONSUMER = "consumer task"
    SPARK = "Spark driver"
    NODE = "node"
    KAFKA = "Kafka"
    ZOOKEEPER = "ZooKeeper"
    SOURCE = "source"
    TARGET = "target"


class Fault(StrEnum):
    """KILL is SIGKILL, after which a server is restarted, and a task by its node. STOP is SIGSTOP,
    and SIGCONT after a while. CUT ends all connections to a server and refuses new ones for a
    while; SLOW lets little through."""

    KILL = "killed"
    STOP = "stopped"
    CUT = "cut off"
    SLOW = "slow"


class Load(StrEnum):
    """STEADY: rows that change all the time; it continues beside HUGE (one large transaction), DDL
    and SNAPSHOT. GEARS: bursts, between which a consumer task changes its gear."""

    IDLE = "idle"
    STEADY = "steady load"
    HUGE = "a huge transaction"
    DDL = "DDL"
    SNAPSHOT = "a snapshot"
    GEARS = "change of gear"


SERVERS = frozenset((Victim.KAFKA, Victim.ZOOKEEPER, Victim.SOURCE, Victim.TARGET))
# brokers tell clients their own address, past the line that the tests could cut
WITH_A_LINE = SERVERS - {Victim.KAFKA}


@dataclass(frozen=True, slots=True)
class Cell:
    victim: Victim
    fault: Fault
    load: Load

    def __str__(self) -> str:
        return f"{self.victim} {self.fault}, {self.load}"

    @property
    def makes_sense(self) -> bool:
        return self.fault in (Fault.KILL, Fault.STOP) or self.victim in WITH_A_LINE


@dataclass(frozen=True, slots=True)
class Outcome:
    """`wrong`: a sentence for each broken promise. `seconds`: from the end of the fault until
    source and target were equal and both tasks worked."""

    cell: Cell
    seconds: float
    wrong: tuple[str, ...] = ()


# The ten that are most likely to break: each has a part of what keeps rows that others lack.
LIKELY = (
    # a transaction that is half in Kafka, and read again
    Cell(Victim.FETCH, Fault.KILL, Load.HUGE),
    # chunks and the binlog meet at a watermark
    Cell(Victim.FETCH, Fault.STOP, Load.SNAPSHOT),
    # an exact offset between two readers
    Cell(Victim.CONSUMER, Fault.KILL, Load.GEARS),
    # a process that wakes up when another one has its task
    Cell(Victim.CONSUMER, Fault.STOP, Load.STEADY),
    Cell(Victim.SPARK, Fault.KILL, Load.GEARS),
    # columns that are added while nobody reads
    Cell(Victim.NODE, Fault.KILL, Load.DDL),
    # records that are sent and not acknowledged
    Cell(Victim.KAFKA, Fault.KILL, Load.STEADY),
    # locks and positions
    Cell(Victim.ZOOKEEPER, Fault.CUT, Load.HUGE),
    # a reader that waits for a server that says nothing
    Cell(Victim.SOURCE, Fault.STOP, Load.STEADY),
    # a commit of which nobody knows whether it was done
    Cell(Victim.TARGET, Fault.CUT, Load.HUGE),
)


def all_cells() -> Iterator[Cell]:
    for victim in Victim:
        for fault in Fault:
            for load in Load:
                cell = Cell(victim, fault, load)
                if cell.makes_sense:
                    yield cell


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as Markdown: a row for each victim and fault, a column for each load."""
    found = {outcome.cell: outcome for outcome in outcomes}
    lines = [
        f"| | {' | '.join(Load)} |",
        f"|---|{'---|' * len(Load)}",
    ]
    for victim in Victim:
        for fault in Fault:
            row = [found.get(Cell(victim, fault, load)) for load in Load]
            if any(row):
                lines.append(f"| {victim} {fault} | {' | '.join(map(_shown, row))} |")
    return "\n".join(lines) + "\n"


def _shown(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    if outcome.wrong:
        return "; ".join(outcome.wrong)
    return f"equal after {outcome.seconds:.0f} s"
