"""What `cdcbus init` prints at its end: how to continue."""

from __future__ import annotations

from shlex import quote

import click

from cdcbus.ops.init.look import Tasks
from cdcbus.tasks.config.keys.bus import BUS_KEYS
from cdcbus.tasks.control.bus_settings import BusSettings, variable_of


def commands(tasks: Tasks, bus: BusSettings, variables: list[str]) -> list[str]:
    """Lines to paste, in order, each with what it does."""
    fetch = quote(str(tasks.fetch_file))
    load = quote(str(tasks.load_file))
    lines = [f"export {name}=..." for name in variables]
    # Commands and nodes must find the same ZooKeeper.
    if bus.zookeeper != BUS_KEYS["zookeeper"].default:
        lines.append(f"export {variable_of('zookeeper')}={quote(bus.zookeeper)}")
    return [
        *lines,
        f"cdcbus task import {fetch} {load}",
        "cdcbus node run   # in another terminal with the same lines before it, or under systemd",
        f"cdcbus task start {tasks.fetch.task_id} {tasks.load.task_id}",
        f"cdcbus verify {load}   # are source and target equal?",
    ]


def print_how_to_go_on(tasks: Tasks, bus: BusSettings, variables: list[str]) -> None:
    click.echo("\nTo continue later:", err=True)
    for line in commands(tasks, bus, variables):
        click.echo(f"  {line}", err=True)
