"""`cdcbus task import`: puts tasks from task files, or from porter's JSON, into ZooKeeper; or makes
task files of porter's JSON, and of other tools' settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.new_file import refuse_existing, write_new
from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import print_findings
from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.named_sources import Lookup, NamedSource, first_of
from cdcbus.tasks.config.read_task import Inspection, inspect_task, inspect_text
from cdcbus.tasks.porter.dist_json import properties_text, read_dist
from cdcbus.tasks.zookeeper.task_configs import Dist, dists_of, has_inline_secret, texts_of

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command("import")
@click.argument("files", nargs=-1, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--output",
    metavar="FILE.properties|FOLDER",
    # Not as a Path, which would forget a slash at the end.
    type=click.Path(),
    help="Write one JSON file as this task file instead. For another tool's settings: where to "
    "write the task files; default: ID.properties in the current folder.",
)
@click.option(
    "--offsets",
    metavar="WHERE",
    help="Start at the other tool's position. canal: its ZooKeeper, HOST:PORT[,...], or meta.dat; "
    "Debezium: TOPIC@BROKERS of Kafka Connect's offsets, or its file; auto: as the settings say, "
    "Maxwell always.",
)
@click.option(
    "--porter",
    metavar="HOST:PORT[,...]/CHROOT",
    help="Import all tasks of porter's ZooKeeper instead of files, with positions and shared "
    "sources: into this bus's ZooKeeper, or with --output FOLDER into files in it.",
)
@click.option("--force", is_flag=True, help="Overwrite existing tasks.")
@click.option(
    "--strict",
    is_flag=True,
    help="Warnings are errors, so an inline secret is refused.",
)
@bus_options
def import_task(
    files: tuple[Path, ...],
    output: str | None,
    offsets: str | None,
    porter: str | None,
    force: bool,
    strict: bool,
    bus: BusSettings,
) -> None:
    """Put the tasks of FILES into ZooKeeper, all or none, at /datas/task/ID/dist/SWIMLANE.

    A FILE is a task file, or porter's JSON from such a znode. Placeholders stay as they are
    written. An inline secret is encrypted with the key of the setting secret.keyFile; without a key
    it is refused. Errors and warnings are printed on standard error, as by `cdcbus task check`, and
    a task with errors is refused; with --output it is written nevertheless, and the exit code is 1.

    Settings of canal (canal.properties and instance.properties, in one command), Debezium (Kafka
    Connect's JSON, Debezium Server's properties) and Maxwell (config.properties) become task files
    that list what could not be carried over; nothing goes to ZooKeeper then.
    """
    from cdcbus.tasks.foreign.files import foreign_settings

    if porter is not None:
        from cdcbus.ops.cli.task.porter_tree import import_tree

        if files or offsets is not None:
            raise click.UsageError("--porter imports all tasks; give no files and no --offsets")
        import_tree(porter, None if output is None else Path(output), force, strict, bus)
        return
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.")
    if found := foreign_settings(files):
        from cdcbus.ops.cli.task.foreign import write_task_files

        write_task_files(found, output, offsets, force, strict, bus)
    elif offsets is not None:
        raise click.UsageError("--offsets is for settings of canal, Debezium or Maxwell")
    elif output is not None:
        _make_file(files, Path(output), force, strict, bus)
    else:
        _import_files(files, force, strict, bus)


def _import_files(files: tuple[Path, ...], force: bool, strict: bool, bus: BusSettings) -> None:
    # All are read before the first is stored: all are stored, or none.
    read = []
    for file in files:
        inspection = inspect_task(file, bus.filling, sources=bus.source_lookup(file))
        read.append((click.format_filename(file), inspection))
    store(accepted(read, strict, bus), force, bus)


def _make_file(
    files: tuple[Path, ...], output: Path, force: bool, strict: bool, bus: BusSettings
) -> None:
    if len(files) != 1:
        raise click.UsageError("--output makes a task file of one JSON file")
    refuse_existing(output, force)
    text = properties_text(read_dist(files[0]))
    inspection = inspect_text(text, bus.filling, Severity.NOTE, _sources(output, bus))
    name = click.format_filename(output)
    # porter keeps passwords in plain text.
    write_new(output, text, force, is_secret=has_inline_secret(inspection.entries))
    click.echo(f"{name} written", err=True)
    if not print_findings(inspection.diagnostics, name, strict):
        sys.exit(1)


def _sources(output: Path, bus: BusSettings) -> Lookup:
    """A lookup of named sources. A file is also made without a ZooKeeper that answers: then it is
    checked without the sources there."""
    anywhere = bus.source_lookup(output)

    def in_zookeeper(name: str) -> NamedSource | None:
        try:
            return anywhere(name)
        except (ConfigError, PositionUnavailable):
            return None

    return first_of(bus.local_source_lookup(output), in_zookeeper)


def accepted(
    read: list[tuple[str, Inspection]], strict: bool, bus: BusSettings
) -> dict[str, dict[str, Dist]]:
    """The tasks by id and swimlane, as ZooKeeper keeps them. Raises ConfigError where one of them
    is refused."""
    is_refused = False
    # Not only to the first refused one, so that all errors are printed.
    for name, inspection in read:
        if not print_findings(inspection.diagnostics, name, strict):
            is_refused = True
    if is_refused:
        raise ConfigError("nothing is stored; correct the errors above")
    tasks: dict[str, dict[str, Dist]] = {}
    for name, inspection in read:
        task = inspection.ready(name).task
        if task.task_id in tasks:
            raise ConfigError(
                f"{name}: task {task.task_id} is also in another of the files; expected each id "
                "once; nothing is stored"
            )
        tasks[task.task_id] = dists_of(task, texts_of(inspection.entries, name, bus.filling))
    return tasks


def store(
    tasks: Mapping[str, Mapping[str, Dist]],
    force: bool,
    bus: BusSettings,
    put_before: Callable[[KazooClient], None] = lambda _: None,
) -> None:
    """Puts tasks into ZooKeeper, as `put_tasks` does. `put_before`: stores what they need to start,
    once no task is refused: a task that is there already could be started without it."""
    from cdcbus.ops.cli.task.imported_positions import HOW
    from cdcbus.ops.services.zookeeper_client import bus_client
    from cdcbus.tasks.editing.versions import put_tasks
    from cdcbus.tasks.process_identity import operator
    from cdcbus.tasks.zookeeper.dist_nodes import DistNodes, dist_path

    with bus_client(bus) as client:
        if not force:
            DistNodes(client).refuse_existing(tasks)
        put_before(client)
        put_tasks(client, tasks, force, operator(), HOW)
    for task_id in tasks:
        click.echo(f"task {task_id} is in ZooKeeper, {dist_path(task_id)} at {bus.zookeeper}")
