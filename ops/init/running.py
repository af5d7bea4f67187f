"""Both tasks as child processes, from their start to the first proof that source and target are
equal."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click
from kazoo.client import KazooClient
from rich.console import Console
from rich.status import Status

from cdcbus.ops.cli.interrupts import uninterrupted
from cdcbus.ops.demo.tasks import TaskProcess, stop_tasks
from cdcbus.ops.init.look import CHECK, Tasks
from cdcbus.ops.services.snapshots import TableSnapshot, snapshots_of
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.producer.snapshot.progress import TableState
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.process_identity import PARENT_VARIABLE
from cdcbus.tasks.verify.compare import Options
from cdcbus.tasks.verify.report import TableReport
from cdcbus.tasks.verify.run import Opened, opened, verify
from cdcbus.tasks.zookeeper.lock import left_lock, live, without_gone
from cdcbus.tasks.zookeeper.position.znodes import stored_positions
from cdcbus.tasks.zookeeper.tasks import TaskNodes

LOOK_SECONDS: Final = 0.3
# Between two lines where there is no terminal.
LINE_SECONDS: Final = 5.0
OWN_LOG: Final = 0o640
ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Progress:
    """One line that changes on a terminal, a line now and then elsewhere."""

    console: Console = field(default_factory=lambda: Console(stderr=True))
    status: Status | None = None
    said: str = ""
    said_at: float = 0.0

    @contextmanager
    def shown(self) -> Iterator[Progress]:
        if not self.console.is_terminal:
            yield self
            return
        with self.console.status("the tasks begin") as self.status:
            yield self

    def say(self, words: str) -> None:
        if self.status is not None:
            self.status.update(words)
        elif words != self.said and time.monotonic() - self.said_at >= LINE_SECONDS:
            self.said, self.said_at = words, time.monotonic()
            click.echo(words, err=True)

    def compared(self, table: str, rows: int, of: int) -> None:
        """`of`: an estimate, which can be too small."""
        self.say(f"comparing {table}: {rows:,} of about {max(of, rows):,} rows")


@contextmanager
def running(tasks: Tasks, bus: BusSettings, client: KazooClient) -> Iterator[list[TaskProcess]]:
    """Starts both tasks, except one that runs already, here or on a node. At the end of the block
    those that were started are stopped; the kernel does so if this process is killed. Raises
    ConfigError, and starts none, where a lock of no session may be of a process that runs one."""
    files = {tasks.fetch.task_id: tasks.fetch_file, tasks.load.task_id: tasks.load_file}
    holders = {task_id: _holder(client, task_id) for task_id in files}
    # The tasks' temporary folder, so that what a killed one leaves is removed.
    scratch = Path(tempfile.mkdtemp(prefix="cdcbus-init-"))
    started: list[TaskProcess] = []
    before = {ending: signal.getsignal(ending) for ending in ENDINGS}
    try:
        # These end the tasks as Ctrl-C does.
        for ending in ENDINGS:
            if before[ending] is not signal.SIG_IGN:  # as under nohup
                signal.signal(ending, signal.default_int_handler)  # as Ctrl-C
        for task_id, file in files.items():
            if holder := holders[task_id]:
                click.echo(f"{CHECK} task {task_id} runs already, on {holder}", err=True)
                continue
            task = _process(task_id, file, bus, scratch)
            # Before the start, so that one which is interrupted is stopped as well.
            started.append(task)
            task.start()
            click.echo(f"{CHECK} task {task_id} is started, its log: {task.log}", err=True)
        yield started
    finally:
        try:
            if started:
                click.echo("stopping the tasks; Ctrl-C kills them", err=True)
            complaints = stop_tasks(started)
        finally:
            with uninterrupted():
                for task in started:
                    task.kill()
                shutil.rmtree(scratch, ignore_errors=True)
            # Last, so that until the tasks have ended these signals still count as Ctrl-C.
            for ending, handler in before.items():
                signal.signal(ending, handler)
        for complaint in complaints:
            click.secho(complaint, fg="yellow", err=True)


def _process(task_id: str, file: Path, bus: BusSettings, scratch: Path) -> TaskProcess:
    log = file.with_suffix(".log")
    # With these rights before the task opens it: a log names tables, hosts and users.
    log.touch(OWN_LOG)
    task = TaskProcess(task_id, file, log, bus.zookeeper, scratch)
    # With this variable the kernel ends the task if this process is killed.
    task.environment |= {**bus.child_environment, PARENT_VARIABLE: str(os.getpid())}
    task.environment["TMPDIR"] = str(scratch)
    return task


def _holder(client: KazooClient, task_id: str) -> str:
    """The machine on which a task runs; empty where it does not, even if a killed process has left
    its lock. Raises ConfigError where there are only locks of no session."""
    held = without_gone(TaskNodes(client).locks(task_id))
    running = live(held)
    if not running and (left := left_lock(task_id, held)):
        raise ConfigError(f"task {task_id}: {left}")
    # Each once, in order.
    return ", ".join(dict.fromkeys(node.text("hostName") or "?" for node in running.values()))


def until_equal(
    tasks: Tasks,
    processes: Sequence[TaskProcess],
    bus: BusSettings,
    client: KazooClient,
    table_count: int,
    patience: float,
) -> list[TableReport]:
    """What `cdcbus verify` reports once the rows have been copied, equal or not. Raises CdcError
    where a task ends on its own, a table cannot be read, or nothing moves for `patience`
    seconds."""
    with Progress().shown() as progress:
        _await_snapshot(tasks, processes, client, table_count, patience, progress)
        with opened(str(tasks.load_file), bus, str(tasks.fetch_file)) as both:
            while True:
                _await_target(both, tasks, processes, client, patience, progress)
                reports = [
                    report for report, _ in verify(both, Options(), on_progress=progress.compared)
                ]
                results = {report.result for report in reports if not report.is_equal}
                # Tables that are only behind may still become equal.
                if results != {"behind"}:
                    return reports


def _await_target(
    both: Opened,
    tasks: Tasks,
    processes: Sequence[TaskProcess],
    client: KazooClient,
    patience: float,
    progress: Progress,
) -> None:
    """Waits until the target has what the source has now."""
    moment = both.lag.now()
    moved: dict[str, str] = {}
    moved_at = time.monotonic()
    while not both.lag.has_passed(moment):
        for task in processes:
            task.check()
        # A position that moves is progress, whichever task has stored it.
        stored = stored_positions(client, tasks.fetch.task_id)
        stored |= stored_positions(client, tasks.load.task_id)
        if stored != moved:
            moved, moved_at = stored, time.monotonic()
        elif time.monotonic() - moved_at > patience:
            raise CdcError(
                f"the target has made no progress for {patience:g} s, and does not have all rows "
                f"yet; see {_logs(processes)}, or wait longer with --patience"
            )
        progress.say("the target applies rows")
        time.sleep(LOOK_SECONDS)


def _await_snapshot(
    tasks: Tasks,
    processes: Sequence[TaskProcess],
    client: KazooClient,
    table_count: int,
    patience: float,
    progress: Progress,
) -> None:
    moved, moved_at = -1, time.monotonic()
    while True:
        for task in processes:
            task.check()
        tables = _snapshots(client, tasks.fetch.task_id)
        done = rows = estimated = 0
        for each in tables:
            state = each.progress.state
            if state is TableState.FAILED:
                raise CdcError(
                    f"the rows of table {each.table} cannot be read: {each.progress.reason}; "
                    f"{_mended(tasks.fetch.task_id, each)}, then this command again"
                )
            done += state in (TableState.DONE, TableState.DROPPED)
            rows += each.progress.rows
            estimated += max(each.progress.estimated_rows, each.progress.rows)
        # Tables appear one by one, so at first there are fewer than will be copied.
        if len(tables) >= table_count and done == len(tables):
            return
        if rows != moved:
            moved, moved_at = rows, time.monotonic()
        elif time.monotonic() - moved_at > patience:
            raise CdcError(
                f"no row has come from the source for {patience:g} s: {done} of {table_count} "
                f"tables are read; see {_logs(processes)}, or wait longer with --patience"
            )
        progress.say(
            f"reading tables: {done} of {table_count} done, {rows:,} of about {estimated:,} rows"
        )
        time.sleep(LOOK_SECONDS)


def _mended(task_id: str, failed: TableSnapshot) -> str:
    # Some reasons name the command, with --yes: another one would contradict it.
    if "cdcbus snapshot start" in failed.progress.reason:
        return "do so"
    return f"once the cause is fixed: cdcbus snapshot start {task_id} --table {failed.table}"


def _logs(processes: Sequence[TaskProcess]) -> str:
    return " and ".join(str(task.log) for task in processes) or "the log of the node that runs it"


def _snapshots(client: KazooClient, task_id: str) -> Sequence[TableSnapshot]:
    try:
        return snapshots_of(client, task_id).tables
    except ConfigError:  # the task has not begun
        return ()


def stay(processes: Sequence[TaskProcess]) -> None:
    """Waits until Ctrl-C, or until a task ends on its own, which raises CdcError."""
    while True:
        for task in processes:
            task.check()
        time.sleep(LOOK_SECONDS)
