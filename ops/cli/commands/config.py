"""`cdcbus config`: the bus-wide settings and where they come from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.group()
def config() -> None:
    """Look at the settings that all tasks and commands share."""


@config.command()
@json_option
@bus_options
def show(as_json: bool, bus: BusSettings) -> None:
    """Show each bus-wide setting, its value and where it comes from. Secrets stay hidden. Exits
    1 when one of them cannot be used."""
    if as_json:
        fields = []
        for name, setting in bus.settings.items():
            row = {"key": name, "value": setting.shown, "origin": setting.origin}
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


def _print_table(bus: BusSettings) -> None:
    rows = [("key", "value", "from", "")]
    for name, setting in bus.settings.items():
        answer = setting.key.answer if setting.written else ""
        rows.append((name, setting.shown or "-", setting.origin, answer))
    for key, value, origin in _sources(bus):
        rows.append((key, value, origin, ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(map(str.ljust, row, widths)).rstrip())


def _sources(bus: BusSettings) -> Iterator[tuple[str, str, str]]:
    for source in bus.sources.values():
        for key, value in source.shown().items():
            yield (
                f"porter.source.{source.name}.{key}",
                value,
                f"{source.where}:{source.entries[key].line}",
            )
