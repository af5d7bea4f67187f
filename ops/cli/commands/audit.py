"""`cdcbus audit`: what operators did."""

from __future__ import annotations

from dataclasses import asdict
from operator import attrgetter
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json, print_table
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.tasks.zookeeper import audit

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command("audit")
@click.option(
    "--lines",
    type=click.IntRange(1, audit.KEPT),
    default=50,
    show_default=True,
    help="How many of the newest.",
)
@json_option
@bus_options
def list_actions(lines: int, as_json: bool, bus: BusSettings) -> None:
    """List what operators did to tasks, positions, nodes and dead letters, the newest last: when,
    who and from where, what, on what.

    Commands and pages record each action in ZooKeeper before they take it; the newest 1,000 are
    kept.
    """
    with bus_client(bus) as client:
        actions = audit.actions(client, lines)
    if as_json:
        print_json(list(map(asdict, actions)))
    elif actions:
        cells = attrgetter("at", "by", "what", "on", "failed")
        rows = list(map(cells, actions))
        print_table(("time (UTC)", "who", "what", "on", "failed"), rows)
    else:
        click.echo(f"nobody has done anything yet at {bus.zookeeper}", err=True)
