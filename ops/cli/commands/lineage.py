"""`cdcbus lineage`: where rows come from and where they go."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text
from rich.tree import Tree

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.rows import wide_console
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import Inspection, inspect_dist, inspect_task
from cdcbus.tasks.lineage.ways import Way, ways
from cdcbus.tasks.porter.dist_json import parse_dist

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings

Task = FetchTask | LoadTask


@click.command("lineage")
@click.argument("word", required=False, default="")
@click.option(
    "--tasks",
    "paths",
    multiple=True,
    metavar="FILE|FOLDER",
    type=click.Path(exists=True, path_type=Path),
    help="A task file, or a folder of them; repeatable. Default: tasks/*.properties and "
    "*.properties.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[,...][/CHROOT]",
    help="Also the tasks that this ZooKeeper holds in dist znodes.",
)
@json_option
def lineage(word: str, paths: tuple[Path, ...], zookeeper: str | None, as_json: bool) -> None:
    """Show which source table goes through which topic and task to which target table.

    With WORD, only lines with this text in a table, topic or target, in any case. Files without a
    task, or with errors, are left out and named on standard error.
    """
    from cdcbus.tasks.control.bus_settings import read_bus_settings

    if zookeeper:
        bus = read_bus_settings({"zookeeper": zookeeper}, None)
        lookup = bus.source_lookup
    else:
        bus = read_bus_settings({}, None)
        lookup = bus.local_source_lookup
    tasks: list[Task] = []
    for file in _files(paths):
        inspect = partial(inspect_task, file, bus.filling, sources=lookup(file))
        tasks += _task(click.format_filename(file), inspect)
    if zookeeper:
        # Files win over stored tasks of the same id.
        known = {task.task_id for task in tasks}
        for task in _stored(bus):
            if task.task_id not in known:
                tasks.append(task)
    found = ways(tasks, word)
    if as_json:
        print_json(list(map(dataclasses.asdict, found)))
    elif found:
        wide_console().print(tree(found))
    elif word and tasks:
        click.echo(f"none of {len(tasks)} tasks has {word} in a table, topic or target")
    else:
        click.echo("no tasks found")


def tree(found: Iterable[Way]) -> Tree:
    """The ways as a tree; ways with a common beginning share its branches."""
    root = Tree("rows", hide_root=True)
    branches: dict[tuple[str, ...], Tree] = {}
    for way in found:
        branch = root
        path: tuple[str, ...] = ()
        for step in _steps(way):
            path = (*path, step.plain)
            if path not in branches:
                branches[path] = branch.add(step)
            branch = branches[path]
    return root


def _steps(way: Way) -> Iterator[Text]:
    yield _named("", way.source, _at(way.server))
    writer = "no known task"
    if way.fetch_task:
        writer = f"task {way.fetch_task}"
    yield _named("topic ", way.topic, f", written by {writer}")
    while way.onward:
        yield _named("task ", way.load_task)
        yield _named("", way.target, f" in topic {way.onward.topic}")
        way = way.onward
    if way.load_task:
        yield _named("task ", way.load_task)
        yield _named("", way.target, _at(way.database))
    else:
        yield Text("no known task reads it", "dim")


def _at(server: str) -> str:
    if not server:
        return ""
    return f" at {server}"


def _named(before: str, name: str, after: str = "") -> Text:
    return Text.assemble((before, "dim"), (name or "?", "bold"), (after, "dim"))


def _files(paths: tuple[Path, ...]) -> list[Path]:
    files: list[Path] = []
    for path in paths or (Path("tasks"), Path()):
        if path.is_dir():
            files += _task_files(path)
        elif path.exists():
            files.append(path)
    return files


def _task_files(folder: Path) -> list[Path]:
    from cdcbus.tasks.control.bus_settings import FILE_NAME

    found = set(folder.glob("*.properties"))
    # It holds settings of the bus, which read as a task file would be full of errors.
    return sorted(found - {folder / FILE_NAME})


def _task(name: str, inspect: Callable[[], Inspection]) -> Iterator[Task]:
    """The task, or a line on standard error that says why there is none."""
    try:
        inspection = inspect()
    except ConfigError as error:
        _leave_out(name, str(error))
        return
    if inspection.task is not None:
        yield inspection.task
        return
    # Without an error the first finding says best why it is no task.
    found = inspection.diagnostics.of(Severity.ERROR) or inspection.diagnostics.found
    if found:
        _leave_out(name, found[0].located(name))
    else:
        _leave_out(name, "no task")


def _leave_out(name: str, reason: str) -> None:
    click.echo(f"{name} left out: {reason.removeprefix(f'{name}: ')}", err=True)


def _stored(bus: BusSettings) -> Iterator[Task]:
    from cdcbus.tasks.zookeeper.dist_nodes import stored_dists

    with bus_client(bus) as client:
        stored = stored_dists(client)
    for path, text in stored.items():
        yield from _task(path, partial(_inspect_stored, text, bus))


def _inspect_stored(text: str, bus: BusSettings) -> Inspection:
    return inspect_dist(parse_dist(text), bus.filling, Severity.NOTE, bus.source_lookup())
