"""`cdcbus offset history|undo`: list the positions that commands set, restore the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.offset.change import (
    dry_run_option,
    is_to_be_set,
    live_option,
    print_change,
    print_set,
    refuse_unknown,
    swimlane_of,
)
from cdcbus.ops.cli.options import bus_options, yes_option
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.zookeeper.position.history import (
    histories,
    positions_of,
    set_positions,
    undone,
)

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command()
@task_argument()
@json_option
@bus_options
def history(task_id: str, as_json: bool, bus: BusSettings) -> None:
    """Show the positions of task ID that commands have set, the newest last: when, by whom, and
    the position before."""
    with bus_client(bus) as client:
        found = histories(client, task_id)
        if not found:
            refuse_unknown(client, task_id, bus)
    if as_json:
        fields = {}
        for swimlane, changes in found.items():
            fields[swimlane] = [change.to_fields() for change in changes]
        print_json(fields)
        return
    for swimlane, changes in found.items():
        click.echo(swimlane)
        for change in changes:
            click.echo(f"  {change.at} UTC  {change.by}  {change.how}")
            click.echo(f"    {change.before or 'none'} -> {change.after or 'none'}")
    if not found:
        click.echo(f"no command has set a position of task {task_id}", err=True)


@click.command()
@task_argument()
@click.option("--swimlane", help="Which one, if several were set.")
@dry_run_option
@live_option
@yes_option
@json_option
@bus_options
def undo(
    task_id: str,
    swimlane: str | None,
    dry_run: bool,
    live: bool,
    yes: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Set the position of task ID to what it was before the last command set it. This can be
    undone in the same way."""
    with bus_client(bus) as client:
        found = histories(client, task_id)
        changed = [each for each, changes in found.items() if changes]
        if not changed:
            refuse_unknown(client, task_id, bus)
            raise ConfigError(
                f"no command has set a position of task {task_id}; there is nothing to undo"
            )
        swimlane = swimlane_of(swimlane, changed, task_id)
        if swimlane not in changed:
            raise ConfigError(
                f"no command has set the position {swimlane} of task {task_id}; there is nothing "
                "to undo"
            )
        last = found[swimlane][-1]
        before = positions_of(client, task_id)
        # Only the partitions that the change has set go back; the others have moved since, and
        # stay.
        text, partitions = undone(last, before.get(swimlane))
        texts = {swimlane: text}
        why = f", as before {last.how} by {last.by} at {last.at} UTC"
        print_change(texts, before, as_json, why)
        is_set = is_to_be_set(client, task_id, dry_run, live, yes)
        if is_set:
            # Refused where a position is no longer the one that was shown.
            set_positions(client, task_id, texts, before, operator(), "offset undo", partitions)
    print_set(task_id, texts, before, is_set, as_json, bus)
