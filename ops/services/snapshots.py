"""The progress of a task's snapshots, or of its direct load, and operators' orders for them: what
`cdcbus snapshot`, the API and the console share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

from kazoo.client import KazooClient

from cdcbus.ops.services.offer import consumer_name
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.chunks import is_one_condition
from cdcbus.producer.snapshot.progress import UNFINISHED, TableProgress, TableState, Wish, WishKind
from cdcbus.tasks.first_of import first_of
from cdcbus.tasks.snapshots.direct import (
    NAME,
    DirectLoad,
    direct_load,
    direct_path,
    give_up_direct_load,
    state_of,
)
from cdcbus.tasks.snapshots.store import snapshot_path, tables_of, wish, wishes_of
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.lock import left_lock, live
from cdcbus.tasks.zookeeper.position.history import positions_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes

MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table and the progress of its snapshot."""

    table: TableId
    progress: TableProgress

    @property
    def share(self) -> float:
        """The share of the table that is done; its number of rows is the server's estimate."""
        if self.progress.state is TableState.DONE:
            return 1.0
        rows = self.progress.rows
        # The estimate can be too low: only a table that is done is shown as done.
        return min(0.99, rows / max(self.progress.estimated_rows, rows, 1))

    @property
    def rows_per_second(self) -> float:
        """The average since it began, pauses included."""
        seconds = (self.progress.updated_ms - self.progress.started_ms) / 1000
        if not self.progress.started_ms or seconds <= 0:
            return 0.0
        return self.progress.rows / seconds

    @property
    def seconds_left(self) -> int | None:
        """The estimated time left; None where it is unknown, or the snapshot does not run."""
        rate = self.rows_per_second
        if self.progress.state not in UNFINISHED or not rate:
            return None
        return round(max(self.progress.estimated_rows - self.progress.rows, 0) / rate)

    @property
    def remark(self) -> str:
        """Which of the table's rows are read, unless all are, and why it has failed."""
        where = self.progress.where
        only = f"only rows with {where}" if where else ""
        return "; ".join(filter(None, (only, self.progress.reason)))

    def to_fields(self) -> dict[str, Any]:
        """The fields for scripts of this machine: `after` and `until` are keys of rows."""
        return {
            "schema": self.table.schema,
            "table": self.table.table,
            **self.progress.to_fields(),
            "rowsPerSecond": round(self.rows_per_second, 1),
            "secondsLeft": self.seconds_left,
        }


@dataclass(frozen=True, slots=True)
class Snapshots:
    """All of a task. `direct`: they are those of its direct load, past Kafka; one that is void has
    no tables, as their progress no longer tells what the target has. `why`: why that load keeps the
    task from starting; empty where it does not. `wishes`: orders that the task has not seen yet."""

    tables: Sequence[TableSnapshot]
    wishes: Sequence[Wish]
    direct: DirectLoad | None
    why: str = ""

    @property
    def is_unfinished(self) -> bool:
        """Whether they are a direct load that a command can continue."""
        return self.direct is not None and not self.direct.is_done


@dataclass(frozen=True, slots=True)
class Ordered:
    """`is_running`: the task sees it within seconds. `gives_up`: it ended a direct load,
    immediately. `sentence`: what it means."""

    is_running: bool
    sentence: str
    gives_up: bool = False


def snapshots_of(client: KazooClient, task_id: str) -> Snapshots:
    """The snapshots of a task. Raises ConfigError for a task that cannot have any: a consumer task
    without a direct load, or an unknown one."""
    load = direct_load(client, task_id)
    # A direct load has a name in the place of a swimlane.
    path = snapshot_path(task_id, NAME if load else _swimlane(client, task_id))
    tables: list[TableSnapshot] = []
    if load is None or not load.is_void:
        tables += starmap(TableSnapshot, tables_of(client, path).items())
    why = ""
    if load and not load.is_done:
        why = state_of(client, task_id, load)
    return Snapshots(tables, list(wishes_of(client, path).values()), load, why)


def rows_twice(client: KazooClient, task_id: str, what: Wish) -> str:
    """A sentence on tables without a key whose rows another snapshot would add once more; empty if
    there is none. Raises ConfigError."""
    if what.kind is not WishKind.START:
        return ""
    path = snapshot_path(task_id, _swimlane(client, task_id))
    named = []
    for table, progress in tables_of(client, path).items():
        if progress.would_come_twice and what.is_for(table):
            named.append(str(table))
    if not named:
        return ""
    return (
        f"task {task_id}: Kafka may have rows of {', '.join(named)} already, and without a key "
        "nothing tells them apart: targets would get these twice, unless the table is emptied "
        "there first"
    )


def lost_progress(client: KazooClient, task_id: str, what: Wish) -> str:
    """A sentence on the progress that giving up a direct load deletes; empty where `what` gives
    none up, or it has none that counts. Raises ConfigError where it cannot be given up."""
    load = _to_give_up(client, task_id, what)
    if load is None:
        return ""
    _refuse_giving_up(client, task_id, what)
    return _lost(client, task_id, load)


def _to_give_up(client: KazooClient, task_id: str, what: Wish) -> DirectLoad | None:
    if what.kind is not WishKind.STOP:
        return None
    load = direct_load(client, task_id)
    return load if load and not load.is_done else None


def _lost(client: KazooClient, task_id: str, load: DirectLoad) -> str:
    if load.is_void:
        return ""
    tables = tables_of(client, direct_path(task_id))
    done = sum(progress.state is TableState.DONE for progress in tables.values())
    rows = sum(progress.rows for progress in tables.values())
    begun = [(progress.rows, str(table)) for table, progress in tables.items() if progress.rows]
    named = [f"{table} {count:,}" for count, table in sorted(begun, reverse=True)]
    of_tables = f" ({first_of(named, MOST_NAMES)})" if named else ""
    return (
        f"this gives up the direct load of task {task_id}, and its progress is lost: {done} of "
        f"{len(tables)} tables done, {rows:,} rows{of_tables}. Until then cdcbus snapshot run "
        f"{task_id} --direct continues it"
    )


def order_snapshot(client: KazooClient, task_id: str, what: Wish, who: str) -> Ordered:
    """Orders it of the task; STOP also gives up a direct load that was interrupted. Recorded in the
    audit. Raises ConfigError for what is not possible, and, unless confirmed, for `rows_twice` and
    `lost_progress`."""
    # A direct load is no work of the task, which could not see the order: it is given up here.
    if load := _to_give_up(client, task_id, what):
        return _give_up(client, task_id, load, what, who)
    for table in what.tables:
        # As a pattern it would be for no table, and nothing would be started or paused.
        if table.count(".") != 1 or not all(table.split(".")) or "*" in table:
            raise ConfigError(
                f"{table}: expected SCHEMA.TABLE, such as shop.orders; all tables where none is "
                "named"
            )
    if what.where and not (what.tables and what.kind is WishKind.START):
        raise ConfigError(
            "a condition is for the start of tables that are named, as it is about their columns"
        )
    if what.where and not is_one_condition(what.where):
        raise ConfigError(
            "a condition is one expression in SQL, such as id > 1000: close its quotes and "
            "parentheses, and leave out comments and semicolons"
        )
    swimlane = _swimlane(client, task_id)
    if not what.is_confirmed and (twice := rows_twice(client, task_id, what)):
        raise ConfigError(
            f"{twice}; then: cdcbus snapshot start {task_id} --table SCHEMA.TABLE --yes (in the "
            'API: "force": true)'
        )
    if what.kind is not WishKind.START:
        _need_known(client, task_id, swimlane, what)
    is_running = bool(live(TaskNodes(client).locks(task_id)))
    wish(client, task_id, swimlane, what, who)
    of = ", ".join(what.tables) or "all its tables"
    when = "when it starts: it does not run now"
    if is_running:
        when = "within seconds"
    return Ordered(
        is_running,
        f"task {task_id}: snapshot {what.kind} of {of} is ordered; the task sees it {when}",
    )


def _need_known(client: KazooClient, task_id: str, swimlane: str, what: Wish) -> None:
    """Raises ConfigError for a table that the task has no snapshot of, if it has any."""
    path = snapshot_path(task_id, swimlane)
    known = {str(table).lower() for table in tables_of(client, path)}
    for ordered in wishes_of(client, path).values():
        # One for all tables may be for this one.
        if not ordered.tables:
            return
        known.update(name.lower() for name in ordered.tables)
    unknown = [name for name in what.tables if name.lower() not in known]
    if known and unknown:
        raise ConfigError(
            f"task {task_id} has no snapshot of {', '.join(unknown)} to {what.kind}; those that it "
            f"has: cdcbus snapshot status {task_id}"
        )


def _give_up(client: KazooClient, task_id: str, load: DirectLoad, what: Wish, who: str) -> Ordered:
    """Gives up a direct load that was interrupted. Raises ConfigError where it cannot be given up,
    and, unless confirmed, where its progress is lost."""
    _refuse_giving_up(client, task_id, what)
    if not what.is_confirmed and (lost := _lost(client, task_id, load)):
        raise ConfigError(
            f"{lost}; to give it up all the same: cdcbus snapshot stop {task_id} --yes (in the "
            'API: "force": true)'
        )
    with audited(client, who, "snapshot stop", f"task {task_id}"):
        give_up_direct_load(client, task_id, load)
    given_up = replace(load, is_void=True, is_given_up=True)
    return Ordered(False, state_of(client, task_id, given_up), gives_up=True)


def _refuse_giving_up(client: KazooClient, task_id: str, what: Wish) -> None:
    """Raises ConfigError while the task's direct load runs, for some of its tables only, and for a
    task that nodes are to run."""
    if what.tables:
        raise ConfigError(f"the direct load of task {task_id} is given up whole: name no table")
    nodes = TaskNodes(client)
    # A direct load holds the task's locks while it runs.
    locks = nodes.locks(task_id)
    if live(locks):
        raise ConfigError(f"the direct load of task {task_id} runs: end it by Ctrl-C first")
    if left := left_lock(task_id, locks):
        raise ConfigError(left)
    desired = nodes.wanted(task_id)
    # Only the unfinished load keeps nodes from starting it.
    if desired is not None and desired.is_working:
        raise ConfigError(
            f"task {task_id} is started: without its direct load, a node would run it on target "
            f"tables that hold some of the rows; stop it first, cdcbus task stop {task_id}"
        )


def _swimlane(client: KazooClient, task_id: str) -> str:
    """The swimlane of a fetch task, which has one. Raises ConfigError for any other task."""
    nodes, stored = TaskNodes(client), positions_of(client, task_id)
    locks = nodes.locks(task_id)
    # Positions and locks of no session can be of former swimlanes, as of a renamed source. A task
    # that runs from a file is not imported: only these name it while it does not run.
    swimlanes = nodes.swimlanes(task_id) or [*live(locks)] or list({**stored, **locks})
    if not swimlanes:
        raise ConfigError(
            f"task {task_id} is not known: it was neither imported nor has it run; "
            "cdcbus task list names those that are"
        )
    # The position of a consumer task names a topic, also where its text is not in ZooKeeper.
    reads_topics = any('"topic"' in (text or "") for text in stored.values())
    name = _consumer_name(client, task_id)
    if len(swimlanes) > 1 or reads_topics or name == "KafkaFetch":
        raise ConfigError(
            f"task {task_id} reads topics: a snapshot is made by the fetch task that fills them"
        )
    if name not in ("", "CanalFetch"):
        raise ConfigError(
            f"task {task_id} reads from {name}, a source of another package, which has no snapshots"
        )
    return swimlanes[0]


def _consumer_name(client: KazooClient, task_id: str) -> str:
    """The consumer that its text names: a task that has not run yet has no position to go by."""
    return consumer_name(DistNodes(client).get(task_id) or {})
