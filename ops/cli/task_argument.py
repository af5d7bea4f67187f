"""Names as arguments: checked; the ids of tasks are completed by the shell from what ZooKeeper
has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

from cdcbus.plugins.errors import CdcError
from cdcbus.tasks.config.keys.types import PATH_NAME

COMPLETE_SECONDS = 1.0


def read_names(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """The name or names, of tasks, nodes or sources. Raises BadParameter for a word that cannot be
    one."""
    if isinstance(value, tuple):
        return tuple(read_names(context, parameter, word) for word in value)
    try:
        return PATH_NAME.read(value)
    except ValueError as error:
        raise click.BadParameter(f"expected {PATH_NAME.expected}") from error


def complete_task_id(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """The task ids in ZooKeeper that begin with `incomplete`; none where ZooKeeper does not answer
    within a second."""
    import logging

    from cdcbus.tasks.control.bus_settings import read_bus_settings
    from cdcbus.tasks.zookeeper.connection import connected
    from cdcbus.tasks.zookeeper.tasks import TaskNodes

    # A log line would disturb the prompt that is being completed.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    with suppress(CdcError):
        given = {}
        if zookeeper := context.params.get("zookeeper"):
            given["zookeeper"] = zookeeper
        bus = read_bus_settings(given, context.params.get("config"))
        with connected(bus.zookeeper, COMPLETE_SECONDS, bus.zookeeper_auth) as client:
            task_ids = TaskNodes(client).ids()
        return [task_id for task_id in task_ids if task_id.startswith(incomplete)]
    return []


def task_argument(
    name: str = "task_id", metavar: str = "ID", **settings: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.argument(
        name, metavar=metavar, callback=read_names, shell_complete=complete_task_id, **settings
    )
