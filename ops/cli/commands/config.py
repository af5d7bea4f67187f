"""`cdcbus config`: the bus-wide settings and where they come from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options, yes_option
from cdcbus.ops.cli.output import aligned, json_option, print_json

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.group()
def config() -> None:
    """Show the settings that all tasks and commands share, and protect what ZooKeeper holds."""


@config.command()
@json_option
@bus_options
def show(as_json: bool, bus: BusSettings) -> None:
    """Show each bus-wide setting, its value and where it comes from. Secrets stay hidden. Exits
    1 when one of them cannot be used."""
    if as_json:
        fields = []
        for name, setting in bus.settings.items():
            value, origin = bus.in_force(name)
            row = {"key": name, "value": value, "origin": origin}
            fields.append({**row, "answer": setting.key.answer})
        for key, value, origin in _sources(bus):
            fields.append({"key": key, "value": value, "origin": origin, "answer": ""})
        print_json(fields)
    else:
        _print_table(bus)
    errors = bus.errors()
    for error in errors:
        click.secho(error, fg="red", err=True)
    if errors:
        sys.exit(1)


@config.command()
@yes_option
@json_option
@bus_options
def protect(yes: bool, as_json: bool, bus: BusSettings) -> None:
    """Give everything that the bus keeps in ZooKeeper to the user of zookeeper.auth.

    For an installation that began without zookeeper.auth: znodes made before are open to anyone.
    Set it on every node first, and restart them: a process without it has no access afterwards.
    """
    from cdcbus.ops.services.zookeeper_client import bus_client
    from cdcbus.plugins.errors import ConfigError
    from cdcbus.tasks.control.protect import protect as protect_nodes
    from cdcbus.tasks.process_identity import operator

    if bus.zookeeper_auth is None:
        raise ConfigError(
            "zookeeper.auth is not set, so there is no user to give them to; set it to "
            "user:password in cdcbus.properties"
        )
    user = bus.zookeeper_auth.partition(":")[0]
    with bus_client(bus) as client:
        if not yes:
            click.confirm(
                f"Let only user {user} read and write what the bus keeps at {bus.zookeeper}? "
                "Processes without zookeeper.auth have no access then.",
                abort=True,
                err=True,
            )
        count = protect_nodes(client, operator())
    if as_json:
        print_json({"user": user, "nodes": count})
    else:
        click.echo(f"{count} znodes in ZooKeeper belong to user {user}")


def _print_table(bus: BusSettings) -> None:
    rows = [("key", "value", "from", "")]
    for name, setting in bus.settings.items():
        answer = ""
        if setting.written:
            answer = setting.key.answer
        value, origin = bus.in_force(name)
        rows.append((name, value or "-", origin, answer))
    for key, value, origin in _sources(bus):
        rows.append((key, value, origin, ""))
    for line in aligned(rows):
        click.echo(line)


def _sources(bus: BusSettings) -> Iterator[tuple[str, str, str]]:
    for source in bus.sources.values():
        for key, value in source.shown().items():
            yield (
                f"porter.source.{source.name}.{key}",
                value,
                f"{source.where}:{source.entries[key].line}",
            )
