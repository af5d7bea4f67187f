"""`cdcbus doctor`: checks this installation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from cdcbus.tasks.control.bus_settings import BusSettings


SLOW_SECONDS = 2.0


@contextmanager
def _said_if_slow(name: str, console: Console) -> Iterator[None]:
    """Where no terminal shows it, a line says at which check the block waits."""
    if console.is_terminal:
        yield
        return
    timer = Timer(SLOW_SECONDS, click.echo, (f"looking at {name}",), {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@click.command()
@click.argument("words", nargs=-1, metavar="[FILE|ID]...")
@json_option
@bus_options
def doctor(words: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Check each part of this installation, and say what is wrong, why, and what to do.

    Checks this machine, ZooKeeper, nodes, clocks, and each Kafka cluster, source and target of the
    tasks: the given task files or ids, by default all tasks in ZooKeeper. Changes nothing. Exits 1
    when something would stop a task.
    """
    from rich.console import Console

    from cdcbus.ops.cli.task.check import print_results
    from cdcbus.ops.doctor.installation import steps
    from cdcbus.tasks.preflight.result import has_failed

    found = []
    console = Console(stderr=True)
    with console.status("") as status:
        for name, look in steps(bus, words):
            status.update(f"looking at {name}")
            with _said_if_slow(name, console):
                found += look()
    if as_json:
        rows = []
        for seen in found:
            row = {"outcome": seen.outcome, "subject": seen.subject, "found": seen.found}
            rows.append({**row, "cure": seen.remedy})  # the name that scripts know
        print_json(rows)
    else:
        print_results("installation", found)
    if has_failed(found):
        sys.exit(1)
