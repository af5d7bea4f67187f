"""A node's settings, and a task that it has claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cdcbus.ops.node.spark_process import SparkTask
from cdcbus.ops.node.task_process import TaskProcess
from cdcbus.ops.services.offer import Offer
from cdcbus.tasks.control.bus_settings import log_of
from cdcbus.tasks.zookeeper.tasks import Run
from cdcbus.tasks.zookeeper.znode import Watch


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """`environment`: variables of the child processes. `logs`: the folder of their logs.
    `bus_environment`: of the tasks that it runs, `prod` for example."""

    node_id: str
    work_limit: int
    logs: Path
    environment: Mapping[str, str]
    bus_environment: str = ""

    def log_of(self, name: str) -> Path:
        """The log file of a task, or of a process of the node."""
        return log_of(self.logs, name)


@dataclass(slots=True)
class HeldTask:
    """A task of this node. `process` None: it waits until `start_at`. `stop_by`: it was asked to
    stop, and is killed at that time; 0: it was not asked. `last_run`: the state in which it is
    given back, None: another node has it. `listed_since`: a failure that is listed since then is
    the one that it has now. `is_commanded`: operators may want something else of it by now, or
    another node may have it; `is_reported`: it has reported its state. `lost_at`: since when the
    command by which it runs is gone, 0 while it is there. `made`: which task of this id it is, see
    `TaskNodes.made`, 0 until its command was seen. `is_unwritten`: ZooKeeper does not have `run`,
    as the claim was lost."""

    offer: Offer
    run: Run
    start_at: float = 0.0
    started_at: float = 0.0
    process: TaskProcess | SparkTask | None = None
    worked_since: float = 0.0
    lost_at: float = 0.0
    made: int = 0
    is_unwritten: bool = False
    stop_by: float = 0.0
    last_run: Run | None = None
    listed_since: str = ""
    # True at first, so that the first look reads ZooKeeper and sets the watches.
    is_commanded: bool = True
    is_reported: bool = True
    on_command: Watch = lambda _: None
    on_report: Watch = lambda _: None

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do for it."""
        if self.is_commanded or self.is_reported or self.stop_by > 0 or self.process is None:
            return True
        return self.process.ended() is not None
