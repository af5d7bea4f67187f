"""`cdcbus snapshot start|pause|resume|stop|status`: the rows that a fetch task's tables have
already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json, print_table
from cdcbus.ops.cli.task.direct_load import run
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.snapshot.progress import UNFINISHED, TableProgress, TableState, Wish, WishKind
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.snapshots.direct import NAME, direct_load, forget_direct_load
from cdcbus.tasks.snapshots.store import snapshot_path, tables_of, wish, wishes_of
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.position_history import positions_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.plugins.rowchange import TableId
    from cdcbus.tasks.control.bus_settings import BusSettings

BAR = 20
_tables = click.option(
    "--table", "tables", multiple=True, metavar="SCHEMA.TABLE", help="Only this table; repeatable."
)


@click.group()
def snapshot() -> None:
    """Send rows that a fetch task's tables have already, while it follows the binlog.

    The running task sees within a second what is wished; one that does not run, when it starts.
    """


@snapshot.command()
@task_argument()
@_tables
@click.option("--where", default="", metavar="SQL", help="Only rows for which this holds.")
@json_option
@bus_options
def start(
    task_id: str, tables: tuple[str, ...], where: str, as_json: bool, bus: BusSettings
) -> None:
    """Begin the snapshots of task ID's tables, also of those that are done. One that is under way
    goes on."""
    if where and not tables:
        raise ConfigError("--where is about columns of a table: name it by --table SCHEMA.TABLE")
    _wish(task_id, Wish(WishKind.START, tables, where), as_json, bus)


@snapshot.command()
@task_argument()
@_tables
@json_option
@bus_options
def pause(task_id: str, tables: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Let snapshots of task ID rest where they are."""
    _wish(task_id, Wish(WishKind.PAUSE, tables), as_json, bus)


@snapshot.command()
@task_argument()
@_tables
@json_option
@bus_options
def resume(task_id: str, tables: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Go on with snapshots of task ID that were paused."""
    _wish(task_id, Wish(WishKind.RESUME, tables), as_json, bus)


@snapshot.command()
@task_argument()
@_tables
@json_option
@bus_options
def stop(task_id: str, tables: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """End snapshots of task ID that are not done; rows that were sent stay."""
    with bus_client(bus) as client:
        if (load := direct_load(client, task_id)) and not load.is_done:
            _give_up(client, task_id)
            return
    _wish(task_id, Wish(WishKind.STOP, tables), as_json, bus)


@snapshot.command()
@task_argument()
@_tables
@json_option
@bus_options
def status(task_id: str, tables: tuple[str, ...], as_json: bool, bus: BusSettings) -> None:
    """Show how far the snapshots of task ID are. Ends with 1 where one has failed."""
    with bus_client(bus) as client:
        is_direct = direct_load(client, task_id) is not None
        path = snapshot_path(task_id, NAME if is_direct else _swimlane(client, task_id))
        found = tables_of(client, path)
        wished = list(wishes_of(client, path).values())
    shown = {
        table: each for table, each in found.items() if Wish(WishKind.START, tables).is_for(table)
    }
    if as_json:
        print_json(
            {
                "tables": [_fields(*each) for each in shown.items()],
                "wishes": [each.to_fields() for each in wished],
            }
        )
    else:
        _print(task_id, shown, wished)
    if any(each.state is TableState.FAILED for each in shown.values()):
        raise click.exceptions.Exit(1)


snapshot.add_command(run)


def _wish(task_id: str, what: Wish, as_json: bool, bus: BusSettings) -> None:
    for table in what.tables:
        if table.count(".") != 1:
            raise ConfigError(f"--table {table}: expected SCHEMA.TABLE, such as shop.orders")
    with bus_client(bus) as client:
        swimlane = _swimlane(client, task_id)
        is_running = bool(TaskNodes(client).locks(task_id))
        wish(client, task_id, swimlane, what, operator())
    if as_json:
        print_json({"task": task_id, **what.to_fields(), "isRunning": is_running})
        return
    of = ", ".join(what.tables) or "all its tables"
    when = "within a second" if is_running else "when it starts: it does not run now"
    click.echo(f"task {task_id}: snapshot {what.kind} of {of} is wished; the task sees it {when}")


def _give_up(client: KazooClient, task_id: str) -> None:
    """A direct load that was interrupted. Raises ConfigError while it runs."""
    if TaskNodes(client).locks(task_id):
        raise ConfigError(f"the direct load of task {task_id} runs: end it by Ctrl-C first")
    with audited(client, operator(), "snapshot stop", f"task {task_id}"):
        forget_direct_load(client, task_id)
    click.echo(
        f"the direct load of task {task_id} is given up: its target tables hold some of the rows. "
        f"Empty them, and set the task's position (cdcbus offset reset {task_id}) before it is "
        "started: it would go on from where the load began"
    )


def _swimlane(client: KazooClient, task_id: str) -> str:
    """Of a fetch task, which has one. Raises ConfigError for any other."""
    nodes, stored = TaskNodes(client), positions_of(client, task_id)
    swimlanes = list(dict.fromkeys([*stored, *nodes.swimlanes(task_id), *nodes.locks(task_id)]))
    if not swimlanes:
        raise ConfigError(
            f"task {task_id} is not known: it was neither imported nor has it run; "
            "cdcbus task list names those that are"
        )
    if len(swimlanes) > 1 or any('"topic"' in (text or "") for text in stored.values()):
        raise ConfigError(
            f"task {task_id} reads topics: a snapshot is made by the fetch task that fills them"
        )
    return swimlanes[0]


def _fields(table: TableId, progress: TableProgress) -> dict[str, Any]:
    rate = _rows_per_second(progress)
    return {
        "schema": table.schema,
        "table": table.table,
        **progress.to_fields(),
        "rowsPerSecond": round(rate, 1),
        "secondsLeft": _seconds_left(progress, rate),
    }


def _print(task_id: str, found: dict[TableId, TableProgress], wished: list[Wish]) -> None:
    if not found:
        click.echo(f"task {task_id} has no snapshots")
    rows = []
    for table, each in found.items():
        rate = _rows_per_second(each)
        left = _seconds_left(each, rate)
        rows.append(
            (
                str(table),
                each.state,
                _bar(each),
                f"{each.rows:,}",
                f"{each.estimated_rows:,}",
                f"{each.bytes / 1e6:,.1f}",
                f"{rate:,.0f}",
                "" if left is None else f"{left:,} s",
                each.reason,
            )
        )
    if rows:
        heading = ("table", "state", "", "rows", "of about", "MB", "rows/s", "left", "why")
        print_table(heading, rows)
    for each_wish in wished:
        click.echo(
            f"wished, and not seen by the task yet: {each_wish.kind} "
            f"{', '.join(each_wish.tables) or 'all tables'}"
        )


def _share(progress: TableProgress) -> float:
    """What of the table is done; the server only guesses how many rows it has."""
    if progress.state is TableState.DONE:
        return 1.0
    return min(0.99, progress.rows / max(progress.estimated_rows, progress.rows, 1))


def _bar(progress: TableProgress) -> str:
    """In percent where nobody looks at a terminal."""
    share = _share(progress)
    if not sys.stdout.isatty():
        return f"{share:.0%}"
    done = int(share * BAR)
    return "█" * done + "░" * (BAR - done)


def _rows_per_second(progress: TableProgress) -> float:
    """Since it began; also while it was paused."""
    seconds = (progress.updated_ms - progress.started_ms) / 1000
    return progress.rows / seconds if progress.started_ms and seconds > 0 else 0.0


def _seconds_left(progress: TableProgress, rate: float) -> int | None:
    if progress.state not in UNFINISHED or not rate:
        return None
    left = max(progress.estimated_rows - progress.rows, 0) / rate
    return round(left)
