"""`cdcbus snapshot start|pause|resume|stop|status`: snapshots of the rows that a fetch task's
tables already have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json, print_table
from cdcbus.ops.cli.task.direct_load import run
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.snapshots import (
    lost_progress,
    order_snapshot,
    rows_twice,
    snapshots_of,
)
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.snapshot.progress import TableState, Wish, WishKind
from cdcbus.tasks.process_identity import operator

if TYPE_CHECKING:
    from cdcbus.ops.services.snapshots import TableSnapshot
    from cdcbus.tasks.control.bus_settings import BusSettings

BAR = 20
_tables = click.option(
    "--table", "tables", multiple=True, metavar="SCHEMA.TABLE", help="Only this table; repeatable."
)


@click.group()
def snapshot() -> None:
    """Send the rows that a fetch task's tables already have, while it follows the binlog.

    A running task sees a command within seconds, a stopped one when it starts.
    """


@snapshot.command()
@task_argument()
@_tables
@click.option("--where", default="", metavar="SQL", help="Only rows for which this holds.")
@click.option("--yes", is_flag=True, help="Do not ask, where rows would come twice.")
@json_option
@bus_options
def start(
    task_id: str, tables: tuple[str, ...], where: str, yes: bool, as_json: bool, bus: BusSettings
) -> None:
    """Start the snapshots of task ID's tables, also of those that are done. One in progress
    continues.

    Asks where the rows of a table without a key would come twice.
    """
    if where and not tables:
        raise ConfigError("--where is about columns of a table: name it with --table SCHEMA.TABLE")
    what = Wish(WishKind.START, tables, where, is_confirmed=yes)
    if not yes:
        with bus_client(bus) as client:
            twice = rows_twice(client, task_id, what)
        if twice:
            click.confirm(f"{twice}. Start it all the same?", abort=True, err=True)
            what = replace(what, is_confirmed=True)
    _wish(task_id, what, as_json, bus)


@snapshot.command()
@task_argument()
@_tables
@json_option
@bus_options
def pause(task_id: str, tables: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Pause snapshots of task ID."""
    _wish(task_id, Wish(WishKind.PAUSE, tables), as_json, bus)


@snapshot.command()
@task_argument()
@_tables
@json_option
@bus_options
def resume(task_id: str, tables: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Resume paused snapshots of task ID."""
    _wish(task_id, Wish(WishKind.RESUME, tables), as_json, bus)


@snapshot.command()
@task_argument()
@_tables
@click.option("--yes", is_flag=True, help="Do not ask, where a direct load is given up.")
@json_option
@bus_options
def stop(task_id: str, tables: tuple[str, ...], yes: bool, as_json: bool, bus: BusSettings) -> None:
    """End snapshots of task ID that are not done; rows that were sent stay.

    For a consumer task: give up its interrupted direct load. Asks, as its progress is lost.
    """
    what = Wish(WishKind.STOP, tables, is_confirmed=yes)
    if not yes:
        with bus_client(bus) as client:
            lost = lost_progress(client, task_id, what)
        if lost:
            click.confirm(f"{lost}. Give it up?", abort=True, err=True)
            what = replace(what, is_confirmed=True)
    _wish(task_id, what, as_json, bus)


@snapshot.command()
@task_argument()
@_tables
@json_option
@bus_options
def status(task_id: str, tables: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Show how far the snapshots of task ID are. Exits 1 when one has failed."""
    with bus_client(bus) as client:
        found = snapshots_of(client, task_id)
    # Tables are chosen as an order chooses them; none: all.
    chosen = Wish(WishKind.START, tables)
    shown = [each for each in found.tables if chosen.is_for(each.table)]
    if as_json:
        print_json(
            {
                "tables": [each.to_fields() for each in shown],
                "wishes": [each.to_fields() for each in found.wishes],
                "why": found.why,
            }
        )
    elif found.direct and found.direct.is_void:
        click.echo(found.why)
    else:
        _print(task_id, tables, shown, found.wishes)
    if any(each.progress.state is TableState.FAILED for each in shown):
        raise click.exceptions.Exit(1)


snapshot.add_command(run)


def _wish(task_id: str, what: Wish, as_json: bool, bus: BusSettings) -> None:
    with bus_client(bus) as client:
        ordered = order_snapshot(client, task_id, what, operator())
    if as_json:
        print_json({"task": task_id, **what.to_fields(), "isRunning": ordered.is_running})
    else:
        click.echo(ordered.sentence)


def _print(
    task_id: str, tables: Sequence[str], shown: Sequence[TableSnapshot], wished: Sequence[Wish]
) -> None:
    known = {str(each.table).lower() for each in shown}
    if unknown := [each for each in tables if each.lower() not in known]:
        click.echo(
            f"task {task_id} has no snapshot of {', '.join(unknown)}: none was started, or the "
            "task's filter lets no such table through, which its log then says"
        )
    elif not shown:
        click.echo(f"task {task_id} has no snapshots")
    rows = []
    for each in shown:
        progress = each.progress
        left = ""
        if each.seconds_left is not None:
            left = f"{each.seconds_left:,} s"
        rows.append(
            (
                str(each.table),
                progress.state,
                _bar(each.share),
                f"{progress.rows:,}",
                f"{progress.estimated_rows:,}",
                f"{progress.bytes / 1e6:,.1f}",
                f"{each.rows_per_second:,.0f}",
                left,
                each.remark,
            )
        )
    if rows:
        heading = ("table", "state", "", "rows", "of about", "MB", "rows/s", "left", "why")
        print_table(heading, rows)
    for each_wish in wished:
        tables = ", ".join(each_wish.tables) or "all tables"
        click.echo(f"ordered, and not seen by the task yet: {each_wish.kind} {tables}")


def _bar(share: float) -> str:
    """A bar on a terminal, elsewhere a percentage."""
    if not sys.stdout.isatty():
        return f"{share:.0%}"
    done = int(share * BAR)
    return "█" * done + "░" * (BAR - done)
