"""`cdcbus task import --porter`: imports porter's whole tree into this ZooKeeper or into files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import javaproperties

from cdcbus.ops.cli.new_file import refuse_existing, write_new
from cdcbus.ops.cli.output import print_findings
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.named_sources import FOLDER, find_source_key, first_of
from cdcbus.tasks.config.parser import for_zookeeper
from cdcbus.tasks.config.read_task import Inspection, inspect_text
from cdcbus.tasks.foreign.porter import PorterTree, porter_tree
from cdcbus.tasks.local.state_file import state_file
from cdcbus.tasks.porter.dist_json import properties_text

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.tasks.control.bus_settings import BusSettings


def import_tree(
    where: str, output: Path | None, force: bool, strict: bool, bus: BusSettings
) -> None:
    """Imports porter's tree, which is left unchanged. Exits 1 where something could not be carried
    over that should have been."""
    if where == bus.zookeeper:
        raise ConfigError(f"--porter {where} is this ZooKeeper: it has these tasks already")
    if output is not None and not output.is_dir():
        raise click.UsageError("--output of a tree must be an existing folder")
    tree = porter_tree(where)
    is_good = print_findings(tree.found, where, strict)
    if output is None:
        if not is_good:
            raise ConfigError("nothing is stored; correct the errors above, or write files")
        _into_zookeeper(tree, force, strict, bus)
    elif not (_into_files(tree, output, force, strict, bus) and is_good):
        sys.exit(1)


def _inspected(tree: PorterTree, text: str, bus: BusSettings, severity: Severity) -> Inspection:
    # The tree's own sources win over those of this machine.
    lookup = first_of(tree.source, bus.local_source_lookup())
    return inspect_text(text, bus.filling, severity, lookup)


def _into_zookeeper(tree: PorterTree, force: bool, strict: bool, bus: BusSettings) -> None:
    from cdcbus.ops.cli.task.import_ import accepted, store
    from cdcbus.ops.cli.task.imported_positions import set_imported
    from cdcbus.tasks.process_identity import operator
    from cdcbus.tasks.zookeeper.source_registry import source_nodes, source_path

    read = []
    for task_id, dist in tree.tasks.items():
        inspection = _inspected(tree, properties_text(dist), bus, Severity.NOTE)
        read.append((f"task {task_id}", inspection))
    # All secrets are encrypted before anything is stored, so that a failure leaves no half import.
    sources: dict[str, dict[str, str]] = {}
    for name, source in tree.sources.items():
        pairs = {}
        try:
            for key, entry in source.entries.items():
                pairs[key] = for_zookeeper(key, find_source_key(key), entry.written, bus.filling)
        except ValueError as error:
            raise ConfigError(f"source {name}: {error}; nothing is stored") from error
        sources[name] = pairs
    with source_nodes(bus.zookeeper, bus.zookeeper_auth) as nodes:
        # Before the tasks, which would connect to what these sources say.
        if not force and (taken := sources.keys() & {*nodes.names()}):
            raise ConfigError(
                f"{source_path(min(taken))} is in ZooKeeper already; nothing is stored: overwrite "
                "all tasks and sources of the same names with --force, or write files with "
                "--output and rename"
            )

        def put_before(client: KazooClient) -> None:
            for name, pairs in sources.items():
                nodes.put(name, pairs, force, operator())
                click.echo(f"source {name} is in ZooKeeper")
            for task_id, texts in tree.positions.items():
                set_imported(client, task_id, texts)

        store(accepted(read, strict, bus), force, bus, put_before)


def _into_files(
    tree: PorterTree, folder: Path, force: bool, strict: bool, bus: BusSettings
) -> bool:
    """Writes the files. Returns whether all tasks are accepted."""
    from cdcbus.ops.cli.task.imported_positions import set_imported_in_file

    tasks, sources, positions = {}, {}, {}
    for task_id, dist in tree.tasks.items():
        tasks[folder / f"{task_id}.properties"] = properties_text(dist)
    for name, source in tree.sources.items():
        pairs = {key: entry.written for key, entry in source.entries.items()}
        file = folder / FOLDER / f"{name}.properties"
        sources[file] = javaproperties.dumps(pairs, timestamp=False)
    for task_id in tree.positions:
        positions[task_id] = folder / f"{task_id}.positions.json"
    # All files before the first is written.
    for file in (*tasks, *sources, *positions.values()):
        refuse_existing(file, force)
    if tree.sources:
        (folder / FOLDER).mkdir(exist_ok=True)
    _write(sources, force)
    for task_id, file in positions.items():
        with state_file(file, task_id) as state:
            set_imported_in_file(state, task_id, tree.positions[task_id])
        click.echo(f"{click.format_filename(file)} written", err=True)
    # Last: a task without its position would start by its start rule.
    _write(tasks, force)
    is_good = True
    for task_id, dist in tree.tasks.items():
        inspection = _inspected(tree, properties_text(dist), bus, Severity.NOTE)
        name = click.format_filename(folder / f"{task_id}.properties")
        is_good &= print_findings(inspection.diagnostics, name, strict)
    return is_good


def _write(texts: Mapping[Path, str], force: bool) -> None:
    for file, text in texts.items():
        # porter keeps passwords in plain text.
        write_new(file, text, force, is_secret=True)
        click.echo(f"{click.format_filename(file)} written", err=True)
