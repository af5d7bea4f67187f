"""`cdcbus doctor`: checks this installation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


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
    with Console(stderr=True).status("") as status:
        for name, look in steps(bus, words):
            status.update(f"looking at {name}")
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
