"""The cells of the fault matrix: which part is hurt, how, and under which load; and why there is no
cell for the rest. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Victim(StrEnum):
    """A process of ours, of Spark, or a server. EXECUTOR is that of a standalone cluster; of
    QUORUM, one of three servers is left."""

    FETCH = "fetch task"
    CONSUMER = "consumer task"
    SPARK = "Spark driver"
    EXECUTOR = "Spark executor"
    NODE = "node"
    KAFKA = "Kafka"
    BROKER_LEADER = "leader of three brokers"
    ZOOKEEPER = "ZooKeeper"
    ZOOKEEPER_LEADER = "leader of three ZooKeepers"
    QUORUM = "quorum of three ZooKeepers"
    SOURCE = "source"
    PRIMARY = "source with a replica"
    TARGET = "target"


class Fault(StrEnum):
    """KILL is SIGKILL, after which a server is restarted, and a task by its node; one of several
    servers after a while. STOP is SIGSTOP, and SIGCONT after a while. CUT ends all connections to a
    server and refuses new ones for a while; SLOW lets little through. RESTORE: the server is
    killed, and started with the files that it had before the load. The replica of a killed or
    stopped PRIMARY is promoted."""

    KILL = "killed"
    STOP = "stopped"
    CUT = "cut off"
    SLOW = "slow"
    RESTORE = "restored from a backup"


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
# Several servers in place of one.
OF_THREE = frozenset((Victim.BROKER_LEADER, Victim.ZOOKEEPER_LEADER, Victim.QUORUM))
RESTORED = frozenset((Victim.ZOOKEEPER, Victim.TARGET))


@dataclass(frozen=True, slots=True)
class Cell:
    victim: Victim
    fault: Fault
    load: Load

    def __str__(self) -> str:
        return f"{self.victim} {self.fault}, {self.load}"

    @property
    def why_not(self) -> str:
        """Why it is left out; empty if it is not."""
        victim = self.victim
        match self.fault:
            case Fault.CUT | Fault.SLOW if victim not in SERVERS:
                if victim in OF_THREE:
                    return (
                        "cut off from tasks it is as one server, and cut off from the others as "
                        "one that is stopped"
                    )
                if victim is not Victim.PRIMARY:
                    return "its connections are those to servers, which have rows of their own"
                if self.fault is Fault.SLOW:
                    return "a slow source is not left for its replica: as without one"
            case Fault.RESTORE if victim not in RESTORED:
                if victim in (Victim.KAFKA, Victim.SOURCE, Victim.PRIMARY):
                    return (
                        "nobody has what it loses: source and target differ, and a task that "
                        "notices stops"
                    )
                if victim in OF_THREE:
                    return "it takes what it lacks from the others; all together are as one server"
                return "it keeps no files"
        if victim is Victim.EXECUTOR and self.load not in (Load.STEADY, Load.GEARS):
            return "it has work in a backlog only: as under steady load"
        return ""


# The ten that are most likely to break: each has a part of what keeps rows that others lack.
LIKELY = (
    # a transaction that is half in Kafka, and read again
    Cell(Victim.FETCH, Fault.KILL, Load.HUGE),
    # chunks and the binlog meet at a watermark
    Cell(Victim.FETCH, Fault.STOP, Load.SNAPSHOT),
    # an exact offset between two readers
    Cell(Victim.CONSUMER, Fault.KILL, Load.GEARS),
    Cell(Victim.SPARK, Fault.KILL, Load.GEARS),
    # a process that wakes up when another one has its task
    Cell(Victim.CONSUMER, Fault.STOP, Load.STEADY),
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


def every_combination() -> Iterator[Cell]:
    """Also those that are left out."""
    for victim in Victim:
        for fault in Fault:
            for load in Load:
                yield Cell(victim, fault, load)


def all_cells() -> Iterator[Cell]:
    return (cell for cell in every_combination() if not cell.why_not)
