"""`cdcbus plugin list`: what other packages add to this installation."""

from __future__ import annotations

import sys
from dataclasses import asdict
from operator import attrgetter

import click

from cdcbus.ops.cli.output import json_option, print_json, print_table


@click.group()
def plugin() -> None:
    """List what other packages add: sources, formats, event processors, loaders, alarm
    channels."""


@plugin.command("list")
@json_option
def list_plugins(as_json: bool) -> None:
    """List the plug-ins that are installed beside cdcbus: kind, name in settings, package, and the
    object behind it. Imports each. Exits 1 when one of them cannot be used, and says why."""
    from cdcbus.plugins.added.entry_points import installed
    from cdcbus.plugins.registry import built_in_names

    found = installed(built_in_names)
    if as_json:
        print_json(list(map(asdict, found)))
    elif found:
        rows = list(map(attrgetter("kind", "name", "package", "value"), found))
        print_table(("kind", "name", "package", "what"), rows)
    else:
        click.echo("no package adds anything to cdcbus in this environment", err=True)
    # Several plug-ins of one package can have the same.
    troubles = dict.fromkeys(filter(None, map(attrgetter("trouble"), found)))
    for trouble in troubles:
        click.secho(trouble, fg="red", err=True)
    if troubles:
        sys.exit(1)
