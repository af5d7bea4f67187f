"""`cdcbus task list|status|logs`: state, progress and logs of tasks."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json, print_table
from cdcbus.ops.cli.task.progress import print_failures, print_progress
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.scheduling import explained
from cdcbus.ops.services.task_fields import as_fields
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.control.named_task import unknown_task
from cdcbus.tasks.runtime.occurrences import Occurrences
from cdcbus.tasks.runtime.throughput_history import Minute, ThroughputHistory, last_hour
from cdcbus.tasks.zookeeper.lock import described
from cdcbus.tasks.zookeeper.status import Status, seen_status, status_of
from cdcbus.tasks.zookeeper.tasks import Failure, TaskNodes

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.zookeeper.stat import Stat

HEADING = (
    "task",
    "state",
    "node",
    "lag records",
    "lag s",
    "rows/s",
    "last row (UTC)",
)
FOLLOW_SECONDS = 0.3


@click.command("list")
@json_option
@bus_options
def list_tasks(as_json: bool, bus: BusSettings) -> None:
    """List the tasks in ZooKeeper: state, node, lag, rows per second, time of the last row, last
    error.

    If there are open dead letters, a column counts them.
    """
    with bus_client(bus) as client:
        nodes = TaskNodes(client)
        found = [explained(client, seen_status(nodes, task_id)) for task_id in nodes.ids()]
    if as_json:
        print_json(list(map(as_fields, found)))
    elif found:
        _print_list(found)
    else:
        click.echo(
            f"there is no task at {bus.zookeeper}; add one: cdcbus task import FILE", err=True
        )


def _print_list(statuses: list[Status]) -> None:
    # Most buses have no dead letters, so the column is shown only where one has.
    has_letters = any(status.open_dead_letters for status in statuses)
    heading = [*HEADING, "last error"]
    if has_letters:
        heading.insert(-1, "letters")
    rows = []
    for status in statuses:
        row = [status.task_id, status.state, status.node_id, *_progress(status.stat)]
        if has_letters:
            row.append(_number(status.open_dead_letters or None))
        row.append(_first_line(status.reason))
        rows.append(row)
    print_table(heading, rows)


def _progress(stat: Stat | None) -> tuple[str, str, str, str]:
    if stat is None:
        return "", "", "", ""
    seconds = ""
    if stat.lag_seconds is not None:
        seconds = f"{stat.lag_seconds:.1f}"
    rate = f"{stat.rows_per_second:,.1f}"
    return _number(stat.lag_records), seconds, rate, stat.last_row


def _number(number: int | None) -> str:
    """Empty where the number is unknown."""
    if number is None:
        return ""
    return f"{number:,}"


def _first_line(text: str) -> str:
    first, _, rest = text.partition("\n")
    if rest:
        return f"{first} ..."
    return first


@click.command()
@task_argument()
@json_option
@bus_options
def status(task_id: str, as_json: bool, bus: BusSettings) -> None:
    """Show the state of task ID: lag, delays, the last hour, tables, failures. Exits 1 when the
    task waits for an operator."""
    from cdcbus.ops.alarms.store import AlarmNodes
    from cdcbus.tasks.verify.last import VerifyNodes, line_of

    with bus_client(bus) as client:
        nodes = TaskNodes(client)
        found = explained(client, _existing(nodes, task_id, bus))
        locks = {swimlane: described(lock) for swimlane, lock in nodes.locks(task_id).items()}
        minutes = ThroughputHistory(client).read(task_id)
        failures = nodes.errors(task_id)
        occurrences = Occurrences(client).read(task_id)
        alarms = AlarmNodes(client).get(task_id)[0].raised
        verified = VerifyNodes(client).last(task_id)
    if as_json:
        print_json(
            {
                **as_fields(found),
                "locks": locks,
                "minutes": list(map(asdict, minutes)),
                "failures": list(map(asdict, failures)),
                "occurrences": list(map(asdict, occurrences)),
                "alarms": list(alarms),
                "verify": verified.to_fields() if verified else None,
            }
        )
    else:
        _print_status(found, locks, minutes, failures)
        if verified is not None:
            click.echo(f"  {line_of(verified)}")
        for rule, alarm in alarms.items():
            click.echo(f"  alarm {rule}: {alarm.sentence}")
    if found.state is State.ERROR:
        sys.exit(1)


def _print_status(
    found: Status, locks: dict[str, str], minutes: list[Minute], failures: list[Failure]
) -> None:
    run, stat = found.run, found.stat
    sentence = f"task {found.task_id}: {found.state}"
    if found.node_id:
        sentence += f" on node {found.node_id}"
    # For a task that is run by hand, ZooKeeper can still hold what a node did with it before.
    if run and run.since and not found.is_by_hand:
        sentence += f", since {run.since} UTC"
    click.echo(sentence)
    if found.reason:
        click.echo(f"  {found.reason}")
    if run and run.all_restarts:
        click.echo(f"  started again after failures: {run.all_restarts}")
    for swimlane, holder in locks.items():
        click.echo(f"  {swimlane}: {holder}")
    if stat is not None:
        print_progress(stat, last_hour(minutes, time.time()))
    if found.open_dead_letters:
        click.echo(
            f"  open dead letters: {found.open_dead_letters:,}; cdcbus dlq list {found.task_id}"
        )
    if run and run.log:
        click.echo(f"  log: {run.host}:{run.log}")
    print_failures(failures)


def _existing(nodes: TaskNodes, task_id: str, bus: BusSettings) -> Status:
    ids = nodes.ids()
    if task_id not in ids:
        raise unknown_task(task_id, ids, bus.zookeeper)
    return status_of(nodes, task_id)


@click.command()
@task_argument()
@click.option(
    "--lines",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many lines from the end.",
)
@click.option("--follow", is_flag=True, help="Also print new lines, until Ctrl-C.")
@bus_options
def logs(task_id: str, lines: int, follow: bool, bus: BusSettings) -> None:
    """Print the end of the log that its node writes for task ID. Works on that node's host
    only."""
    with bus_client(bus) as client:
        run = _existing(TaskNodes(client), task_id, bus).run
    if run is None or not run.log:
        raise ConfigError(
            f"task {task_id} has no log: no node has run it yet; cdcbus task run prints its log "
            "itself"
        )
    file = Path(run.log)
    if run.host != socket.gethostname():
        raise ConfigError(
            f"the log of task {task_id} is {run.log} on {run.host}; it is not here, on "
            f"{socket.gethostname()}"
        )
    if not file.exists():
        raise ConfigError(
            f"the log of task {task_id} is missing: {run.log} was removed, or its node cannot "
            "write there; the log of the node says so"
        )
    log = _opened(file)
    # It reads the whole file, but keeps only the last lines.
    for line in deque(log, lines):
        click.echo(line, nl=False)
    if follow:
        _follow(file, log)
    log.close()


def _follow(file: Path, log: TextIO) -> NoReturn:
    """Prints what is written to the log, and each new log from its beginning whenever the node
    rotates it."""
    while True:
        with log:
            while _is_at(file, log):
                click.echo(log.read(), nl=False)
                time.sleep(FOLLOW_SECONDS)
            # Lines can have been written between the last read and the rotation.
            click.echo(log.read(), nl=False)
        log = _opened(file)


def _opened(file: Path) -> TextIO:
    return file.open(encoding="utf-8", errors="replace")


def _is_at(file: Path, log: TextIO) -> bool:
    """Whether the open log still has this name. For a moment of a rotation no file has it."""
    try:
        return file.stat().st_ino == os.fstat(log.fileno()).st_ino
    except FileNotFoundError:
        return True
