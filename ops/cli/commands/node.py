"""`cdcbus node`: run a node, inspect nodes, drain and resume them."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options, timeout_option, yes_option
from cdcbus.ops.cli.output import json_option, print_json, print_table
from cdcbus.ops.cli.task_argument import read_names
from cdcbus.ops.services.scheduling import could_run, is_waiting, why_waiting
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.types import PATH_NAME
from cdcbus.tasks.control.commands import order_limit, order_taking
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.zookeeper.node_registry import ONE_VERSION, BusNodes, NodeInfo, mixed_versions
from cdcbus.tasks.zookeeper.status import seen_status
from cdcbus.tasks.zookeeper.tasks import TaskNodes

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.ops.node.held_task import NodeSettings
    from cdcbus.tasks.control.bus_settings import BusSettings


_node = click.argument("node_id", metavar="NODE", callback=read_names)


@click.group()
def node() -> None:
    """Run and inspect nodes, which run the tasks in ZooKeeper."""


@node.command()
@bus_options
def run(bus: BusSettings) -> None:
    """Run a node: claim started tasks and run them, until SIGTERM or Ctrl-C; then other nodes take
    them over.

    Settings: node.id, node.workLimit, node.logDirectory, http.bind, http.token in
    cdcbus.properties, or CDCBUS_NODE_ID and so on. A task's nodeId says which nodes can claim it.
    If this process dies, another node has its tasks within 10 seconds.
    """
    import logging

    from cdcbus.ops.alarms.watch import watching
    from cdcbus.ops.node.node import Node
    from cdcbus.ops.node.verify_schedule import verifying
    from cdcbus.ops.services.dead_letter_counts import counting_letters
    from cdcbus.ops.web.serve import serving
    from cdcbus.tasks.runtime.stop_signals import stop_signals
    from cdcbus.tasks.zookeeper.connection import connected

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("cdcbus").setLevel(logging.INFO)
    settings = _node_settings(bus)
    # All below it end only after the node has given back its tasks.
    with (
        connected(
            bus.zookeeper,
            auth=bus.zookeeper_auth,
            session_seconds=bus.lock_times.session_seconds,
        ) as client,
        stop_signals() as stop,
        serving(bus, settings.node_id),
        watching(client, bus, settings.node_id),
        counting_letters(client, bus, settings.node_id),
        verifying(client, settings),
    ):
        Node(settings, client).run(stop)


def _node_settings(bus: BusSettings) -> NodeSettings:
    from cdcbus.ops.node.held_task import NodeSettings

    return NodeSettings(
        _read_setting(bus),
        bus.node_work_limit,
        bus.node_logs.absolute(),
        bus.child_environment,
        bus.environment,
    )


@node.command("spark", hidden=True)
@bus_options
def spark(bus: BusSettings) -> None:
    """Run the consumer tasks of a node; started by the node."""
    from cdcbus.ops.node.spark_tasks import run_spark_tasks

    run_spark_tasks(bus)


@node.command("verify", hidden=True)
@click.argument("task_id", metavar="ID")
@click.option(
    "--throttle", type=click.IntRange(min=1), required=True, help="Rows per second at most."
)
@bus_options
def verify(task_id: str, throttle: int, bus: BusSettings) -> None:
    """Verify a task for a node; started by the node."""
    from cdcbus.ops.node.verify_process import verify_task

    verify_task(task_id, throttle, bus)


def _read_setting(bus: BusSettings) -> str:
    try:
        return PATH_NAME.read(bus.node_id)
    except ValueError as error:
        raise ConfigError(f"node.id: wrong value; expected {PATH_NAME.expected}") from error


@node.command("list")
@json_option
@bus_options
def list_nodes(as_json: bool, bus: BusSettings) -> None:
    """List all nodes: whether they run, their tasks, how much more they can take, their
    versions."""
    with bus_client(bus) as client:
        infos = BusNodes(client).all()
    if as_json:
        print_json(list(map(_as_fields, infos)))
    elif infos:
        heading = ("node", "state", "swimlanes", "tasks", "host", "version", "health")
        print_table(heading, list(map(_row, infos)))
        if mixed := mixed_versions({each.node_id: each.version for each in infos if each.is_there}):
            click.echo(f"warning: {mixed}: {ONE_VERSION}", err=True)
    else:
        click.echo(f"no node has ever run at {bus.zookeeper}; start one: cdcbus node run", err=True)


def _row(info: NodeInfo) -> tuple[str, ...]:
    place = ""
    if info.host:
        place = f"{info.host} {info.process_id}"
    health = f"{info.health} {info.health_reason}".strip()
    # A node that has ended can have left its last report.
    used, tasks = 0, ""
    if info.is_there:
        used, tasks = info.used, ",".join(info.tasks)
    return (
        info.node_id,
        info.status,
        f"{used}/{info.work_limit}",
        tasks,
        place,
        info.version,
        health,
    )


def _as_fields(info: NodeInfo) -> dict[str, object]:
    return {**asdict(info), "state": info.status}


@node.command()
@_node
@json_option
@bus_options
def info(node_id: str, as_json: bool, bus: BusSettings) -> None:
    """Show everything known about NODE."""
    with bus_client(bus) as client:
        found = _found(BusNodes(client), node_id, bus)
    if as_json:
        print_json(_as_fields(found))
        return
    silent = ""
    if found.silent_seconds is not None:
        silent = f", last heard of {found.silent_seconds:.0f} s ago"
    health = f"{found.health or '?'} {found.health_reason}".rstrip()
    click.echo(f"{node_id}: {found.status}{silent}")
    click.echo(f"  process {found.process_id} on {found.host or '?'} ({found.address or '?'})")
    click.echo(f"  cdcbus {found.version or '?'}")
    click.echo(f"  {found.used} of {found.work_limit} swimlanes, health {health}")
    if found.environment:
        click.echo(f"  environment {found.environment}")
    for task_id, swimlanes in found.tasks.items():
        click.echo(f"  task {task_id}: {', '.join(swimlanes)}")


@node.command()
@_node
@yes_option
@json_option
@bus_options
def rm(node_id: str, yes: bool, as_json: bool, bus: BusSettings) -> None:
    """Forget NODE, which no longer runs: it is not listed any more."""
    with bus_client(bus) as client:
        nodes = BusNodes(client)
        _found(nodes, node_id, bus)
        if not yes:
            click.confirm(f"Forget node {node_id}?", abort=True, err=True)
        nodes.remove(node_id, operator())
    if as_json:
        print_json({"node_id": node_id, "is_removed": True})
    else:
        click.echo(f"node {node_id} is forgotten")


def _found(nodes: BusNodes, node_id: str, bus: BusSettings) -> NodeInfo:
    found = nodes.info(node_id)
    if found is None:
        raise _unknown(nodes, node_id, bus)
    return found


def _known(nodes: BusNodes, node_id: str, bus: BusSettings) -> NodeInfo:
    """Raises ConfigError for a node that ZooKeeper does not know, not for a damaged one."""
    seen = nodes.seen(node_id)
    if seen is None:
        raise _unknown(nodes, node_id, bus)
    return seen


def _unknown(nodes: BusNodes, node_id: str, bus: BusSettings) -> ConfigError:
    known = ", ".join(nodes.ids()) or "none"
    return ConfigError(f"no node is called {node_id} at {bus.zookeeper}; known nodes: {known}")


@node.command()
@_node
@timeout_option
@json_option
@bus_options
def drain(node_id: str, timeout_seconds: float, as_json: bool, bus: BusSettings) -> None:
    """Move the tasks of NODE to other nodes and let it take no more, also after a restart. Returns
    when other nodes have them. Tasks that no other node takes stand still; they are named, and the
    exit code is 1."""
    deadline = time.monotonic() + timeout_seconds
    with bus_client(bus) as client:
        nodes = BusNodes(client)
        # First: an order for a misspelled id would create a node that never ran.
        had = {*_known(nodes, node_id, bus).tasks}
        order_taking(nodes, node_id, False, operator())
        after = _drained(nodes, node_id, bus, deadline, had)
        waiting = _waiting(client, after, had, deadline)
    # The last report of a node that does not run can still name tasks.
    if not (after.is_there and after.tasks):
        ordered = f"takes no tasks until: cdcbus node resume {node_id}"
        if not after.is_there:
            ordered += "; it does not run at the moment"
        _say_ordered(after, ordered, as_json)
        for task_id, reason in waiting.items():
            click.secho(f"task {task_id} stands still: {reason}", fg="red", err=True)
        if waiting:
            sys.exit(1)
        return
    if as_json:
        print_json(_as_fields(after))
    left = ", ".join(after.tasks)
    click.secho(f"node {node_id} still runs {left}; it continues to drain", fg="red", err=True)
    sys.exit(1)


def _drained(
    nodes: BusNodes, node_id: str, bus: BusSettings, deadline: float, had: set[str]
) -> NodeInfo:
    """The node, once it has no task or the time is over. Adds the tasks that it has meanwhile."""
    while True:
        info = _found(nodes, node_id, bus)
        had.update(info.tasks)
        if not info.is_there or not info.tasks or time.monotonic() > deadline:
            return info
        time.sleep(0.3)


def _waiting(
    client: KazooClient, node: NodeInfo, had: Collection[str], deadline: float
) -> dict[str, str]:
    """The started tasks that no node has and that this one had or could run, each with the reason,
    once no node could still take one of them or the time is over."""
    tasks = TaskNodes(client)
    while True:
        reasons, could_be_taken = {}, False
        # Not only those that it had: an earlier drain may have left some.
        for task_id in tasks.ids():
            is_asked = task_id in had or could_run(client, node, task_id)
            if is_asked and is_waiting(seen_status(tasks, task_id)):
                reasons[task_id], could_one = why_waiting(client, task_id)
                could_be_taken = could_be_taken or could_one
        if not could_be_taken or time.monotonic() > deadline:
            return reasons
        time.sleep(0.3)


def _say_ordered(node: NodeInfo, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(_as_fields(node))
    else:
        click.echo(f"node {node.node_id} {sentence}")


@node.command()
@_node
@json_option
@bus_options
def resume(node_id: str, as_json: bool, bus: BusSettings) -> None:
    """Let NODE take tasks again."""
    with bus_client(bus) as client:
        nodes = BusNodes(client)
        # First: an order for a misspelled id would create a node that never ran.
        _known(nodes, node_id, bus)
        order_taking(nodes, node_id, True, operator())
        after = _found(nodes, node_id, bus)
    _say_ordered(after, "takes tasks", as_json)


@node.command()
@_node
@click.argument("swimlanes", type=click.IntRange(0), metavar="SWIMLANES")
@json_option
@bus_options
def limit(node_id: str, swimlanes: int, as_json: bool, bus: BusSettings) -> None:
    """Let NODE run at most SWIMLANES, now and after restarts; tasks beyond that go to other
    nodes."""
    with bus_client(bus) as client:
        nodes = BusNodes(client)
        # First: an order for a misspelled id would create a node that never ran.
        _known(nodes, node_id, bus)
        order_limit(nodes, node_id, swimlanes, operator())
        after = _found(nodes, node_id, bus)
    _say_ordered(after, f"runs {swimlanes} swimlanes at most", as_json)
