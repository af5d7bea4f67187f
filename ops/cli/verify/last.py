"""The result of a task's last verify: kept after each one of all rows, and shown again."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import click

from cdcbus.ops.cli.output import print_json
from cdcbus.plugins.errors import CdcError

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.verify.report import TableReport
    from cdcbus.tasks.verify.run import Opened

FAILED: Final = 2
"""The exit code where it could not find out; 1 stands for differences."""


def keep(both: Opened, reports: list[TableReport], begun: str) -> None:
    """Stores the result for --last, unless --source leaves out a fetch task that feeds the task,
    too. A failure to do so is a warning: the result stands."""
    from cdcbus.tasks.process_identity import operator
    from cdcbus.tasks.verify.last import VerifyNodes, last_verify
    from cdcbus.tasks.verify.run import may_belong, uncompared
    from cdcbus.tasks.zookeeper.znode import now

    if left_out := uncompared(both):
        click.secho(
            "the result is not kept for --last, as --source leaves out what fetch task "
            f"{', '.join(left_out)} sends",
            fg="yellow",
            err=True,
        )
        return
    nodes, task_id = VerifyNodes(both.zookeeper), both.task.task_id
    try:
        last = last_verify(
            reports, nodes.last(task_id), begun, now(), operator(), partial(may_belong, both)
        )
        nodes.put_last(task_id, last)
    except CdcError as error:
        click.secho(f"the result is not kept for --last: {error}", fg="yellow", err=True)


def show_last(word: str, bus: BusSettings, *, as_json: bool) -> NoReturn:
    """Prints the last result, and exits as that verify did."""
    from cdcbus.ops.services.zookeeper_client import bus_client
    from cdcbus.tasks.control.source_of import consumer_task
    from cdcbus.tasks.control.uses import Uses
    from cdcbus.tasks.verify.last import VerifyNodes, line_of

    task_id = consumer_task(word, bus, Uses.NOTHING).task_id
    with bus_client(bus) as client:
        last = VerifyNodes(client).last(task_id)
    if last is None:
        if as_json:
            print_json(None)
        else:
            click.echo(f"task {task_id} has not been verified yet", err=True)
        sys.exit(FAILED)
    if as_json:
        print_json(last.to_fields())
    else:
        click.echo(line_of(last))
        for each in last.tables:
            line = f"  {each.table}: {each.result}, {each.differences:,} rows"
            if each.since:
                line += f", since {each.since} UTC"
            if each.error:
                line += f": {each.error}"
            click.echo(line)
    # Any other result, such as an error, counts as one that could not find out.
    codes = {"equal": 0, "changing": 0, "different": 1, "behind": 1}
    sys.exit(codes.get(last.word, FAILED))
