"""`cdcbus task start|stop|restart`: write the desired state, and wait until it is reached."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options, timeout_option
from cdcbus.ops.cli.output import json_option, print_json
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.task_status import State
from cdcbus.tasks.control.commands import by_hand, order_start, refuse_by_hand
from cdcbus.tasks.control.named_task import unknown_task
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.status import Status, status_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.tasks.control.bus_settings import BusSettings

LOOK_SECONDS = 0.2
AT_WORK = (State.WORKING, State.DONE)

_ids = task_argument("task_ids", "ID...", nargs=-1, required=True)


@click.command()
@_ids
@timeout_option
@json_option
@bus_options
def start(
    task_ids: tuple[str, ...], timeout_seconds: float, as_json: bool, bus: BusSettings
) -> None:
    """Start tasks on nodes. Returns when they are at work; otherwise says what is missing, and
    exits 1.

    Tasks stay started even if no node runs yet.
    """
    _start(task_ids, timeout_seconds, as_json, bus, is_restart=False)


@click.command()
@_ids
@timeout_option
@json_option
@bus_options
def restart(
    task_ids: tuple[str, ...], timeout_seconds: float, as_json: bool, bus: BusSettings
) -> None:
    """Stop tasks and start them again with their current text. Returns when they are at work."""
    _start(task_ids, timeout_seconds, as_json, bus, is_restart=True)


@click.command()
@_ids
@timeout_option
@json_option
@bus_options
def stop(
    task_ids: tuple[str, ...], timeout_seconds: float, as_json: bool, bus: BusSettings
) -> None:
    """Stop tasks. Returns when their positions are stored and no process runs them; otherwise says
    what is missing, and exits 1."""
    with bus_client(bus) as client:
        nodes = TaskNodes(client)
        # First: an order for an unknown task would create its znode.
        ids = nodes.ids()
        if unknown := set(task_ids) - set(ids):
            raise unknown_task(min(unknown), ids, bus.zookeeper)
        for task_id in task_ids:
            nodes.want(task_id, is_working=False, by=operator())
        # Any stopped state will do: a task that has stopped already does not stop again.
        orders = dict.fromkeys(task_ids, 0)
        ends = _await(nodes, orders, (State.STOPPED,), (), timeout_seconds, as_json)
    missing = {}
    for status, is_good in ends:
        if not is_good:
            missing[status.task_id] = by_hand(status) if status.is_by_hand else status.reason
    _report_failures(ends, "has not stopped", missing, as_json)


def _start(
    task_ids: tuple[str, ...],
    timeout_seconds: float,
    as_json: bool,
    bus: BusSettings,
    is_restart: bool,
) -> None:
    with bus_client(bus) as client:
        nodes = TaskNodes(client)
        before = {}
        # All tasks before the first order is given.
        for task_id in task_ids:
            before[task_id] = _existing(nodes, task_id, bus)
        for status in before.values():
            refuse_by_hand(status)
        orders = {}
        for task_id, status in before.items():
            orders[task_id] = order_start(nodes, status, operator(), is_restart)
        if not any(info.is_there for info in BusNodes(client).all()):
            # Otherwise the command would only say so once its time is over.
            sentence = f"no node runs, waiting up to {timeout_seconds:g} s for one: cdcbus node run"
            click.secho(sentence, fg="yellow", err=True)
        # A retry can succeed later, but its reason is worth more to the operator than a longer
        # wait.
        bad = (State.RETRYING, State.ERROR)
        ends = _await(nodes, orders, AT_WORK, bad, timeout_seconds, as_json)
        missing = {}
        for status, is_good in ends:
            if not is_good:
                missing[status.task_id] = _missing(client, status)
    _report_failures(ends, "", missing, as_json)


def _report_failures(
    ends: list[tuple[Status, bool]], verb: str, missing: dict[str, str], as_json: bool
) -> None:
    """Prints failures and exits 1 if there are any; as JSON prints all tasks. `verb`: what the
    sentence says about a failed task; empty: its state."""
    if as_json:
        rows = []
        for each, ok in ends:
            row = {"task_id": each.task_id, "state": each.state, "node_id": each.node_id}
            rows.append({**row, "ok": ok, "missing": missing.get(each.task_id, "")})
        print_json(rows)
    else:
        for each, ok in ends:
            if not ok:
                what = verb or f"is {each.state}"
                sentence = f"task {each.task_id} {what}: {missing[each.task_id]}"
                click.secho(sentence, fg="red", err=True)
    if missing:
        sys.exit(1)


def _existing(nodes: TaskNodes, task_id: str, bus: BusSettings) -> Status:
    if not nodes.swimlanes(task_id):
        raise unknown_task(task_id, nodes.ids(), bus.zookeeper)
    return status_of(nodes, task_id)


def _await(
    nodes: TaskNodes,
    orders: dict[str, int],
    good: Collection[State],
    bad: Collection[State],
    timeout_seconds: float,
    is_quiet: bool,
) -> list[tuple[Status, bool]]:
    """Waits for the tasks. Returns each with whether it reached a good state in time, which is
    printed as it happens unless `is_quiet`; the wait for a task also ends at a bad state, and where
    it runs by hand, as no command reaches it.
    `orders`: the command that each state must follow; an earlier state does not count."""
    from rich.console import Console

    console = Console(stderr=True)
    deadline = time.monotonic() + timeout_seconds
    open_ids = dict(orders)
    ends = []
    with console.status("") as spinner:
        while open_ids:
            for task_id, order in list(open_ids.items()):
                status = status_of(nodes, task_id)
                spinner.update(f"task {task_id}: {status.state} {status.reason}".rstrip())
                is_late = time.monotonic() > deadline
                is_there = status.order >= order and status.state in good
                if is_there and not status.is_locked and not is_late:
                    del open_ids[task_id]
                    ends.append((status, True))
                    if not is_quiet:
                        click.echo(_done(status))
                elif (
                    is_late
                    or status.is_by_hand
                    or (is_there and status.is_locked)
                    or (status.order >= order and status.state in bad and status.reason)
                ):
                    del open_ids[task_id]
                    ends.append((status, False))
            time.sleep(LOOK_SECONDS if open_ids else 0)
    return ends


def _done(status: Status) -> str:
    sentence = f"task {status.task_id} is {status.state}"
    if status.state is State.WORKING:
        sentence += f" on node {status.node_id}"
    return sentence


def _missing(client: KazooClient, status: Status) -> str:
    """Why a started task is not at work."""
    if status.is_locked or status.state in (State.RETRYING, State.ERROR):
        return status.reason
    from cdcbus.ops.services.scheduling import explained

    if not status.node_id:
        return f"{explained(client, status).reason}. It stays started"
    sentence = f"node {status.node_id} is starting it, which takes longer than this command waits"
    if status.run:
        sentence += f"; its log: {status.run.host}:{status.run.log}"
    return sentence
