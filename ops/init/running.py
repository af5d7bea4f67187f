"""Both tasks as child processes, from their start to the first proof that source and target are
equal."""

from __future__ import annotations

import os
import shutil
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

from cdcbus.ops.demo.tasks import TaskProcess, stop_tasks
from cdcbus.ops.init.look import Tasks
from cdcbus.ops.services.snapshots import TableSnapshot, snapshots_of
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.producer.snapshot.progress import TableState
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.process_identity import PARENT_VARIABLE
from cdcbus.tasks.verify.compare import Options
from cdcbus.tasks.verify.report import TableReport, exit_code
from cdcbus.tasks.verify.run import opened, verify
from cdcbus.tasks.zookeeper.tasks import TaskNodes

LOOK_SECONDS: Final = 0.3
LINE_SECONDS: Final = 5.0  # between two lines where there is no terminal
ROUND_SECONDS: Final = 5.0  # for which one comparison waits for changes to arrive
OWN_LOG: Final = 0o640


@dataclass(slots=True)
class Progress:
    """One line that changes on a terminal, a line now and then elsewhere."""

    console: Console = field(default_factory=lambda: Console(stderr=True))
    said_at: float = 0.0
    said: str = ""

    @contextmanager
    def shown(self) -> Iterator[Progress]:
        self._status = self.console.status("") if self.console.is_terminal else None
        if self._status is None:
            yield self
            return
        with self._status:
            yield self

    _status: object = None

    def say(self, words: str) -> None:
        if self._status is not None:
            self._status.update(words)  # type: ignore[attr-defined]
        elif words != self.said and time.monotonic() - self.said_at >= LINE_SECONDS:
            self.said, self.said_at = words, time.monotonic()
            click.echo(words, err=True)


@contextmanager
def running(tasks: Tasks, bus: BusSettings, client: KazooClient) -> Iterator[list[TaskProcess]]:
    """Starts both tasks, but for one that runs already, here or on a node. At the end of the block
    those that were started are stopped; the kernel does so if this process is killed."""
    scratch = Path(tempfile.mkdtemp(prefix="cdcbus-init-"))
    started: list[TaskProcess] = []
    try:
        for task_id, file in (
            (tasks.fetch.task_id, tasks.fetch_file),
            (tasks.load.task_id, tasks.load_file),
        ):
            if holders := TaskNodes(client).locks(task_id):
                click.echo(f"✓ task {task_id} runs already: {', '.join(holders)}", err=True)
                continue
            log = file.with_suffix(".log")
            log.touch(OWN_LOG)
            task = TaskProcess(task_id, file, log, bus.zookeeper, scratch)
            task.environment |= {**bus.child_environment, PARENT_VARIABLE: str(os.getpid())}
            task.environment["TMPDIR"] = str(scratch)
            started.append(task)
            task.start()
            click.echo(f"✓ task {task_id} is started, its log: {log}", err=True)
        yield started
    finally:
        complaints = stop_tasks(started)
        shutil.rmtree(scratch, ignore_errors=True)
        for complaint in complaints:
            click.secho(complaint, fg="yellow", err=True)


def until_equal(
    tasks: Tasks,
    processes: Sequence[TaskProcess],
    bus: BusSettings,
    client: KazooClient,
    table_count: int,
    patience: float,
) -> list[TableReport]:
    """What `cdcbus verify` says once the tables have been copied, equal or not. Raises CdcError
    where a task ends by itself or a table cannot be read, and where nothing is known after
    `patience` seconds without progress."""
    with Progress().shown() as progress:
        _await_snapshot(tasks, processes, client, table_count, patience, progress)
        deadline = time.monotonic() + patience
        while True:
            for task in processes:
                task.check()
            reports = []
            with opened(str(tasks.load_file), bus, str(tasks.fetch_file)) as both:
                for report, _ in verify(
                    both,
                    Options(patience=ROUND_SECONDS),
                    told=lambda table, rows, of: progress.say(
                        f"comparing {table}: {rows:,} of about {max(of, rows):,} rows"
                    ),
                ):
                    reports.append(report)
            is_over = time.monotonic() > deadline
            if (
                exit_code(reports) == 0
                or is_over
                or any(report.result in ("different", "error") for report in reports)
            ):
                return reports
            progress.say("rows are on their way to the target")


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
        if failed := [each for each in tables if each.progress.state is TableState.FAILED]:
            each = failed[0]
            raise CdcError(
                f"the rows of table {each.table} cannot be read: {each.progress.reason}; once that "
                f"is cured: cdcbus snapshot start {tasks.fetch.task_id} --table {each.table}, then "
                "this command again"
            )
        done = [
            each for each in tables if each.progress.state in (TableState.DONE, TableState.DROPPED)
        ]
        if len(tables) >= table_count and len(done) == len(tables):
            return
        rows = sum(each.progress.rows for each in tables)
        if rows != moved:
            moved, moved_at = rows, time.monotonic()
        elif time.monotonic() - moved_at > patience:
            logs = " and ".join(str(task.log) for task in processes) or "its node's log"
            raise CdcError(
                f"for {patience:g} s no row has come from the source: {len(done)} of {table_count} "
                f"tables are read; see {logs}, or wait longer with --patience"
            )
        estimated = sum(max(each.progress.estimated_rows, each.progress.rows) for each in tables)
        progress.say(
            f"reading tables: {len(done)} of {table_count} done, {rows:,} of about {estimated:,} "
            "rows"
        )
        time.sleep(LOOK_SECONDS)


def _snapshots(client: KazooClient, task_id: str) -> Sequence[TableSnapshot]:
    try:
        return snapshots_of(client, task_id).tables
    except ConfigError:  # the task has not begun
        return ()


def stay(processes: Sequence[TaskProcess]) -> None:
    """Until Ctrl-C, or a task ends by itself, which raises CdcError."""
    while True:
        for task in processes:
            task.check()
        time.sleep(LOOK_SECONDS)
