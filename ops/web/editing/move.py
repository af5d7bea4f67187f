"""Moves a task to another node in one step: its text names the node, and a running task is
restarted there. It keeps its id, and so its position."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.auth import operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.editing.edit_page import base_of, edited, store
from cdcbus.ops.web.pages.shared import shared, task_address
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.commands import by_hand
from cdcbus.tasks.control.named_task import stored_task
from cdcbus.tasks.editing.masked import masked_text
from cdcbus.tasks.zookeeper.tasks import TaskNodes

router = APIRouter()
NODE = "nodeId"


@router.post("/tasks/{task_id}/move")
def move(request: Request, task_id: str, node: Annotated[str, Form()] = "") -> Response:
    """An empty name: any node can run it."""
    move_task(bus_of(request), task_id, node, operator_of(request))
    shared(request).overviews.changed()
    return RedirectResponse(task_address(task_id, "?done=moved"), 303)


def move_task(bus: WebBus, task_id: str, node_id: str, who: str) -> None:
    """Moves a task. Raises Refused for a node that does not run or takes no tasks, as the task
    would stand still; ConfigError for a task that is run by hand, or whose text has errors."""
    status = actions.known_task(bus, task_id)
    if node_id:
        node = actions.known_node(bus, node_id)
        if node.status != "working":
            raise Refused(
                409,
                f"node {node_id} is {node.status}: the task would stand still; start the node or "
                "let it take tasks again: cdcbus node resume",
            )
    if status.is_by_hand:
        raise ConfigError(f"task {task_id}: {by_hand(status)}")
    dist = stored_task(task_id, bus.settings)
    moved = {key: value for key, value in dist.items() if key != NODE}
    # Without a name the key goes, so that any node can take the task.
    if node_id:
        moved[NODE] = node_id
    # Masked as an editor sends it: `store` keeps the secrets behind the substitutes.
    work = edited(bus, task_id, masked_text(moved), base_of(dist), dist)
    to_node = f"node {node_id}" if node_id else "any node"
    store(bus, work, dist, who, f"task move to {to_node}")
    # A stopped task stays stopped, and finds its node when it is started.
    desired = TaskNodes(bus.client).wanted(task_id)
    if desired is not None and desired.is_working:
        actions.restart(bus, task_id, who)
