"""Moves a task to another node in one step: its text names the node, and a running task is
restarted there. It keeps its id, and so its position."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.services.offer import Offer, read_offer
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
from cdcbus.tasks.zookeeper.node_registry import NodeInfo
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
    """Moves a task. Raises Refused for a node that would not take it, as the task would stand
    still; ConfigError for a task that is run by hand, or whose text has errors."""
    status = actions.known_task(bus, task_id)
    node = actions.known_node(bus, node_id) if node_id else None
    if status.is_by_hand:
        raise ConfigError(f"task {task_id}: {by_hand(status)}")
    dist = stored_task(task_id, bus.settings)
    moved = {key: value for key, value in dist.items() if key != NODE}
    # Without a name the key goes, so that any node can take the task.
    if node_id:
        moved[NODE] = node_id
    tasks = TaskNodes(bus.client)
    # A stopped task stays stopped, and finds its node when it is started.
    desired = tasks.wanted(task_id)
    is_running = desired is not None and desired.is_working
    if node is not None:
        offer = read_offer(moved, tasks.swimlanes(task_id))
        if why := _why_not_taken(node, task_id, offer, is_running):
            raise Refused(409, f"node {node_id} {why}")
    # Masked as an editor sends it: `store` keeps the secrets behind the substitutes.
    work = edited(bus, task_id, masked_text(moved), base_of(dist), dist)
    to_node = f"node {node_id}" if node_id else "any node"
    store(bus, work, dist, who, f"task move to {to_node}")
    if is_running:
        actions.restart(bus, task_id, who)


def _why_not_taken(node: NodeInfo, task_id: str, offer: Offer, is_running: bool) -> str:
    """Why the node would not take a task of this offer; empty where it would."""
    if node.status != "working":
        return (
            f"is {node.status}: the task would stand still; start the node or let it take tasks "
            "again: cdcbus node resume"
        )
    if not offer.is_for(node.node_id, node.environment):
        return (
            f"is of environment {node.environment or 'none'}, and the task of "
            f"{offer.environment or 'none'}: it would stand still; choose another node"
        )
    others = node.used - len(node.tasks.get(task_id, ()))
    # A stopped task does not need the room yet.
    if is_running and others + len(offer.swimlanes) > node.work_limit:
        return (
            f"is full: it runs {others} of {node.work_limit} swimlanes, and the task needs "
            f"{len(offer.swimlanes)}, so it would stand still; choose another node, or raise its "
            f"limit: cdcbus node limit {node.node_id} SWIMLANES"
        )
    return ""
