"""`cdcbus task clone|rm`: copy and remove tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cdcbus.ops.cli.offset.change import warn_of_target_ahead
from cdcbus.ops.cli.options import bus_options, yes_option
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.named_task import unknown_task
from cdcbus.tasks.process_identity import operator
from cdcbus.tasks.snapshots.copied import create_snapshots, snapshots_to_copy
from cdcbus.tasks.snapshots.direct import DirectLoad, direct_load, state_of
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes, dist_path
from cdcbus.tasks.zookeeper.position.copied import create_positions, positions_to_copy
from cdcbus.tasks.zookeeper.position.znodes import stored_positions
from cdcbus.tasks.zookeeper.schema_history import copy_schemas
from cdcbus.tasks.zookeeper.task_configs import Dist
from cdcbus.tasks.zookeeper.tasks import TASKS, TaskNodes
from cdcbus.tasks.zookeeper.znode import get_node

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command()
@task_argument()
@task_argument("new_id", "NEW")
@click.option(
    "--to-node",
    metavar="NODE[,NODE...]",
    help="The nodes that may run the copy; default: those of the task.",
)
@bus_options
def clone(task_id: str, new_id: str, to_node: str | None, bus: BusSettings) -> None:
    """Copy task ID to task NEW: the same text, positions, snapshots and schema history, not
    started."""
    with bus_client(bus) as client:
        changed = {"taskId": new_id}
        if to_node is not None:
            changed["nodeId"] = to_node
        dists = _changed_dists(client, task_id, changed)
        if not dists:
            raise unknown_task(task_id, TaskNodes(client).ids(), bus.zookeeper)
        if new_id in TaskNodes(client).ids():
            raise ConfigError(
                f"{TASKS}/{new_id} exists already; choose another id, or remove it: cdcbus task "
                f"rm {new_id}"
            )
        load = direct_load(client, task_id)
        if load is not None and not load.is_done and not load.is_given_up:
            raise ConfigError(
                f"{state_of(client, task_id, load)}. A copy of the task would not know of it, and "
                "would start on target tables that lack rows"
            )
        # Before the positions, too: a snapshot that ends meanwhile is of a later place.
        snapshots_to_copy(client, task_id)
        stored = positions_to_copy(client, task_id)
        snapshots = snapshots_to_copy(client, task_id)

        def also(transaction: Any) -> None:
            create_snapshots(client, transaction, new_id, snapshots)
            create_positions(client, transaction, new_id, stored)

        with audited(client, operator(), f"task clone {task_id}", f"task {new_id}"):
            for swimlane in stored:
                copy_schemas(client, task_id, new_id, swimlane)
            # In one transaction: a copy without a position would start by its start rule, and one
            # without its snapshots would send all rows again.
            DistNodes(client).put({new_id: dists}, is_replacing=False, also=also)
    if any(map(_has_server_id, dists.values())):
        click.secho(
            f"warning: tasks {task_id} and {new_id}: both have the same consumer.source.slaveId, "
            "by which a source distinguishes its readers: they cannot run at the same time; change "
            "it by task export and import",
            fg="yellow",
            err=True,
        )
    if load is not None and load.is_given_up:
        click.secho(
            f"warning: the direct load of task {task_id} was given up, so its target tables hold "
            f"some of the rows, and task {new_id} does not know that: empty them before it is "
            "started",
            fg="yellow",
            err=True,
        )
    copied = {swimlane: text for swimlane, (text, _) in stored.items()}
    warn_of_target_ahead(task_id, new_id, copied, bus)
    stored_texts = [f"{swimlane} at {text}" for swimlane, (text, _) in stored.items()]
    positions = ", ".join(stored_texts) or "none is stored"
    click.echo(
        f"task {new_id} is a copy of task {task_id}, positions: {positions}; start it: cdcbus "
        f"task start {new_id}"
    )


def _changed_dists(
    client: KazooClient, task_id: str, changed: Mapping[str, object]
) -> dict[str, Dist]:
    """The task's texts by swimlane, with these fields."""
    dists = {}
    for swimlane in TaskNodes(client).swimlanes(task_id):
        node = get_node(client, dist_path(task_id, swimlane))
        if node is not None:
            dists[swimlane] = {**node.usable().fields, **changed}
    return dists


def _has_server_id(dist: Dist) -> bool:
    match dist.get("consumer"):
        case {"source": {"slaveId": server_id}}:
            return bool(server_id)
    return False


@click.command()
@task_argument()
@yes_option
@bus_options
def rm(task_id: str, yes: bool, bus: BusSettings) -> None:
    """Remove task ID from ZooKeeper, with its positions and history. It must be stopped, and must
    not have an unfinished direct load."""
    with bus_client(bus) as client:
        nodes = TaskNodes(client)
        ids = nodes.ids()
        if task_id not in ids:
            raise unknown_task(task_id, ids, bus.zookeeper)
        load = direct_load(client, task_id)
        _refuse_loaded_by_half(task_id, load)
        stored = stored_positions(client, task_id)
        if not yes:
            for path, text in stored.items():
                click.echo(f"{path}: {text.strip()}", err=True)
            click.confirm(f"Remove task {task_id} and these positions?", abort=True, err=True)
        with audited(client, operator(), "task rm", f"task {task_id}"):
            nodes.remove(task_id)
    click.echo(f"task {task_id} is removed")
    if load is not None and load.is_given_up:
        click.secho(
            "warning: its target tables hold some of the rows, as its direct load was given up, "
            f"and the target still knows where that began: empty them before a task {task_id} is "
            "started again, and set its position first (cdcbus offset reset), or take another id",
            fg="yellow",
            err=True,
        )


def _refuse_loaded_by_half(task_id: str, load: DirectLoad | None) -> None:
    """Raises ConfigError while a direct load of the task is unfinished: nothing else keeps the
    task, once it is imported again, from starting on tables that lack rows."""
    if load is not None and not load.is_done and not load.is_given_up:
        raise ConfigError(
            f"the direct load of task {task_id} is not finished: its target tables hold some of "
            "the rows, and without the load nothing would keep the task, if it is imported again, "
            "from continuing from where the load began. Give the load up first "
            f"(cdcbus snapshot stop {task_id}), empty these tables, and set the task's position "
            f"before it is started (cdcbus offset reset {task_id})"
        )
