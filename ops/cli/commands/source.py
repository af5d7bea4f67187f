"""`cdcbus source`: named sources, which several tasks can share, in files and in ZooKeeper."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.task_argument import read_names
from cdcbus.plugins.errors import CdcError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from cdcbus.tasks.config.named_sources import Lookup, NamedSource
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.zookeeper.source_registry import SourceNodes


def _read_pairs(
    _context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]
) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals):
            # Not repeated: the word may be a secret.
            raise click.BadParameter("expected KEY=VALUE, as in url=jdbc:mysql://db1/shop")
        pairs[key] = value
    return pairs


_name = click.argument("name", callback=read_names)


@click.group()
def source() -> None:
    """Add, list, show and test named sources.

    A task names one by `loader.source.sourceName` or `consumer.source.sourceName`; its keys are
    those of `loader.source.` and `consumer.source.`, without that prefix.
    """


@source.command()
@_name
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...", callback=_read_pairs)
@click.option("--file", "is_file", is_flag=True, help="Write the properties file, not the znode.")
@click.option("--replace", "is_replacing", is_flag=True, help="Overwrite an existing one.")
@bus_options
def add(
    name: str, pairs: dict[str, str], is_file: bool, is_replacing: bool, bus: BusSettings
) -> None:
    """Store the source NAME.

    For a secret write '${env:NAME}', '${file:/path}' or '${file:/path:key}', which each task
    resolves where it runs. An inline secret is encrypted for ZooKeeper with the key of the setting
    secret.keyFile; without a key it is refused.
    """
    from cdcbus.tasks.config.named_sources import (
        check_pairs,
        pairs_for_zookeeper,
        source_file,
        write_source_file,
    )
    from cdcbus.tasks.process_identity import operator
    from cdcbus.tasks.zookeeper.source_registry import source_path

    check_pairs(pairs)
    if is_file:
        # A task looks into this folder first.
        file = source_file(_folders(bus)[0], name)
        write_source_file(file, pairs, is_replacing)
        click.echo(f"source {name} is in {file}")
        return
    kept = pairs_for_zookeeper(pairs, bus.filling)
    with _nodes(bus) as nodes:
        nodes.put(name, kept, is_replacing, operator())
    click.echo(f"source {name} is in ZooKeeper, {source_path(name)} at {bus.zookeeper}")


@source.command("list")
@json_option
@bus_options
def list_sources(as_json: bool, bus: BusSettings) -> None:
    """List all sources, and where they are stored. A task prefers a file to a znode of the same
    name."""
    failures: list[str] = []
    found = list(_rows(bus, failures))
    if as_json:
        print_json(found)
    else:
        for row in found:
            click.echo(f"{row['name']}  {row['kind'] or '-'}  {row['where']}")
    if not found and not failures and not as_json:
        click.echo(f"no source is stored at {bus.zookeeper} or in a file", err=True)
    for failure in failures:
        click.secho(failure, fg="red", err=True)
    if failures:
        sys.exit(1)


def _rows(bus: BusSettings, failures: list[str]) -> Iterator[dict[str, str]]:
    """The readable sources. Appends to `failures` why others cannot be read."""
    from cdcbus.tasks.config.named_sources import in_folders, names_in

    folders = _folders(bus)
    yield from _readable(names_in(folders), in_folders(folders), failures)
    yield from _readable(bus.sources, bus.sources.get, failures)
    try:
        with _nodes(bus) as nodes:
            yield from _readable(nodes.names(), nodes.get, failures)
    except CdcError as error:
        # The sources in files are listed nevertheless.
        failures.append(str(error))


def _readable(names: Iterable[str], look: Lookup, failures: list[str]) -> Iterator[dict[str, str]]:
    for name in names:
        try:
            found = look(name)
        except ConfigError as error:
            failures.append(str(error))
            continue
        if found is not None:
            yield {"name": name, "kind": found.kind, "where": found.where}


@source.command()
@_name
@json_option
@bus_options
def show(name: str, as_json: bool, bus: BusSettings) -> None:
    """Show the keys of source NAME as a task gets them. Secrets stay hidden."""
    found = _found(name, bus)
    shown = found.shown()
    if as_json:
        print_json({"name": name, "kind": found.kind, "where": found.where, "keys": shown})
        return
    click.echo(f"{name}: {found.kind or 'unknown kind'}, {found.where}")
    for key, value in shown.items():
        click.echo(f"  {key}={value}")


@source.command()
@_name
@json_option
@bus_options
def test(name: str, as_json: bool, bus: BusSettings) -> None:
    """Connect to source NAME, as a task would. Exits 1 when that fails."""
    from cdcbus.tasks.preflight.named_source import check_source

    found = _found(name, bus)
    failure = ""
    try:
        check_source(found, bus.filling)
    except CdcError as error:
        if not as_json:
            raise
        failure = str(error)
    if as_json:
        fields = {"name": name, "kind": found.kind, "where": found.where}
        print_json({**fields, "ok": not failure, "failure": failure})
    else:
        click.echo(f"{name}: ok, {found.kind} answers ({found.where})")
    if failure:
        sys.exit(1)


def _found(name: str, bus: BusSettings) -> NamedSource:
    from cdcbus.tasks.zookeeper.source_registry import source_path

    found = bus.source_lookup()(name)
    if found is None:
        places = ", ".join(map(str, _folders(bus)))
        raise ConfigError(
            f"no source is called {name}: no file in {places}, and no {source_path(name)} at "
            f"{bus.zookeeper}"
        )
    return found


def _folders(bus: BusSettings) -> tuple[Path, ...]:
    from cdcbus.tasks.config.named_sources import source_folders

    return source_folders(bus.sources_directory)


@contextmanager
def _nodes(bus: BusSettings) -> Iterator[SourceNodes]:
    from cdcbus.tasks.zookeeper.source_registry import source_nodes

    with source_nodes(bus.zookeeper, bus.zookeeper_auth) as nodes:
        yield nodes
