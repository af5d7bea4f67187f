"""The demo from its first server to its verdict."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient
from rich.console import Console, RenderableType
from rich.table import Table

from cdcbus.consumer.jvm.maven import java
from cdcbus.ops.cli.interrupts import uninterrupted
from cdcbus.ops.demo.course import Course
from cdcbus.ops.demo.first_copy import Verified, make_tables, verified
from cdcbus.ops.demo.fresh import (
    binlog_end,
    empty_shop,
    empty_topic,
    forget_offsets,
    forget_tasks,
    no_shop,
)
from cdcbus.ops.demo.measure import Meter
from cdcbus.ops.demo.screen import Screen
from cdcbus.ops.demo.shop.compare import compare_shops
from cdcbus.ops.demo.shop.load import Load
from cdcbus.ops.demo.shop.schema import SCHEMA, TABLES
from cdcbus.ops.demo.task_files import FETCH, TARGETS, Target, write_task_files
from cdcbus.ops.demo.tasks import TaskProcess, scratch_folder, stop_tasks
from cdcbus.ops.demo.verdict import Comparisons
from cdcbus.ops.demo.words import shown
from cdcbus.ops.stack import stack
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.demo_tasks import stop_leftovers
from cdcbus.ops.stack.processes import umask
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.snapshot.progress import TableState
from cdcbus.tasks.snapshots.store import snapshot_path, tables_of
from cdcbus.tasks.zookeeper.connection import connected


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asks for."""

    home: Path
    seconds: float
    targets: Sequence[Target]
    seed: int
    keep: bool = False
    snapshot: bool = False

    @property
    def folder(self) -> Path:
        """Where the demo's own files are."""
        return self.home / stack.DEMO


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: the comparison of each target, or the result of `cdcbus verify`, and a scene of
    the course for a picture."""

    comparisons: Comparisons | Verified
    scene: Sequence[RenderableType]


def run(options: Options, addresses: Addresses, console: Console) -> Outcome:
    """Runs the demo on started servers, up to the comparison. With `keep` the tasks keep running
    after it, else they have ended.

    Raises CdcError when something fails on the way; Ctrl-C ends the tasks in any case.
    """
    with connected(addresses.zookeeper) as client:
        tasks = prepare(options, addresses, client, console)
        with _running(list(tasks.values()), options.keep, console):
            scene: list[RenderableType] = [_files_table(tasks), ""]
            scene += _take_course(options, addresses, client, tasks, console)
            with console.status("comparing source and targets, row by row"):
                return Outcome(_compared(options, addresses, tasks), scene)


def _compared(
    options: Options, addresses: Addresses, tasks: Mapping[str, TaskProcess]
) -> Comparisons | Verified:
    if options.snapshot:
        reports = {}
        for target in options.targets:
            reports[target] = verified(tasks[target.task_id].file, addresses.zookeeper)
        return Verified(reports)
    comparisons = {}
    for target in options.targets:
        database = target.database(addresses)
        comparisons[target] = compare_shops(addresses.source, target.server, database)
    return comparisons


def prepare(
    options: Options, addresses: Addresses, client: KazooClient, console: Console
) -> Mapping[str, TaskProcess]:
    """Creates the empty shop, the empty topic and the task files; the tasks are not started."""
    _prepare_servers(options, addresses, client, console)
    files = write_task_files(
        options.folder,
        addresses,
        # After the tables were created, so the task begins with an empty shop.
        binlog_end(addresses.source),
        options.targets,
        snapshot=options.snapshot,
    )
    if options.snapshot:
        for target in options.targets:
            with console.status(f"cdcbus schema apply {shown(files[target.task_id])} --schemas"):
                make_tables(files[target.task_id], addresses.zookeeper)
    tasks = _processes(options, addresses, files)
    console.print(_files_table(tasks), "")
    return tasks


def _prepare_servers(
    options: Options, addresses: Addresses, client: KazooClient, console: Console
) -> None:
    where = "at the source and at the targets"
    make = empty_shop
    if options.snapshot:
        # Its target tables are made from the source's, as an operator would.
        where = "at the source"
        make = no_shop
    with console.status(f"making an empty shop {where}"):
        options.folder.mkdir(parents=True, exist_ok=True)
        # First, as tasks of an earlier demo may still be writing.
        if count := stop_leftovers(options.folder):
            console.print(f"stopped {count} tasks of an earlier demo", highlight=False)
        forget_tasks(client, [FETCH, *(target.task_id for target in TARGETS)])
        empty_topic(addresses.kafka)
        for target in options.targets:
            make(target.server, target.database(addresses))
            if target.server == "postgresql":
                forget_offsets(target.database(addresses), target.task_id)
        empty_shop("source", addresses.source)


def _processes(
    options: Options, addresses: Addresses, files: Mapping[str, Path]
) -> dict[str, TaskProcess]:
    """The tasks, not started, each with an empty log."""
    logs, scratch = options.folder / "logs", scratch_folder(options.folder)
    for folder in (logs, scratch):
        folder.mkdir(exist_ok=True)
    tasks = {}
    for task_id, file in files.items():
        log = logs / f"{task_id}.log"
        # Logs are appended to, and the last lines of an earlier demo would be taken for this one's.
        log.write_bytes(b"")
        tasks[task_id] = TaskProcess(task_id, file, log, addresses.zookeeper, scratch)
    return tasks


def _files_table(tasks: Mapping[str, TaskProcess]) -> Table:
    table = Table.grid(padding=(0, 2))
    heading = "task files"
    for task in tasks.values():
        table.add_row(heading, f"[cyan]{shown(task.file)}[/]")
        heading = ""  # only before the first
    return table


def _take_course(
    options: Options,
    addresses: Addresses,
    client: KazooClient,
    tasks: Mapping[str, TaskProcess],
    console: Console,
) -> Sequence[RenderableType]:
    with (
        Load(addresses.source, options.seed) as load,
        Meter(addresses, client, load, options.targets) as meter,
        Screen(console) as screen,
    ):
        is_copied = None
        if options.snapshot:
            is_copied = partial(_is_copied, client)
        course = Course(tasks, load, meter, screen, is_copied)
        course.run(options.seconds, options.seed)
        return course.scene


def _is_copied(client: KazooClient) -> bool:
    """Whether each of the shop's tables has been sent completely."""
    tables = tables_of(client, snapshot_path(FETCH, SCHEMA)).values()
    return len(tables) == len(TABLES) and all(each.state is TableState.DONE for each in tables)


@contextmanager
def alone(options: Options) -> Iterator[None]:
    """One demo at a time per home: a second one would stop the tasks of the first. Raises
    ConfigError where one runs, and where Java is missing, before anything is started."""
    java()
    try:
        with umask(0o022):  # as of `stack.up`, so that the databases' account can enter it
            options.home.mkdir(parents=True, exist_ok=True)
        options.folder.mkdir(exist_ok=True)
        # The tasks do not inherit it: those that --keep leaves running are no demo.
        lock = os.open(options.folder, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"cannot use {options.folder} ({error.strerror}): choose another folder with --home"
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"another demo runs in {options.home}: wait for its end, or press Ctrl-C where it "
                "runs; or start this one beside it with a --home of its own"
            ) from error
        yield
    finally:
        os.close(lock)


@contextmanager
def servers(options: Options, console: Console) -> Iterator[Addresses]:
    """The started stack; it is stopped at the end unless it must be kept or was running before."""
    was_running = all(server.running for server in stack.status(options.home))
    is_kept = options.keep or was_running
    try:
        yield stack.up(options.home, console)
    finally:
        # Also where only some of them have started.
        if not is_kept:
            with uninterrupted():
                if stack.has_running(options.home):
                    stack.down(options.home, purge=False, console=console)


@contextmanager
def _running(tasks: Sequence[TaskProcess], keep: bool, console: Console) -> Iterator[None]:
    """Stops the tasks that still run at the end, unless they must be kept; Ctrl-C stops them in any
    case."""
    try:
        yield
    except BaseException as error:
        # With --keep an error leaves the tasks running, to be looked at; Ctrl-C never does.
        if not keep or isinstance(error, KeyboardInterrupt):
            stop_tasks(tasks)
        raise
    if not keep:
        with console.status("stopping the tasks"):
            complaints = stop_tasks(tasks)
        for complaint in complaints:
            console.print(f"[yellow]{complaint}[/]", highlight=False)
