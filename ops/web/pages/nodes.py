"""The page of nodes, and of what operators did."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.web import actions
from cdcbus.ops.web.auth import may_administer, operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.pages.live import stream
from cdcbus.ops.web.pages.rendering import live_parts, page
from cdcbus.tasks.zookeeper.audit import actions as audited_actions
from cdcbus.tasks.zookeeper.node_registry import BusNodes, NodeInfo

ACTIONS = 30  # of the audit, shown

router = APIRouter()


@router.get("/nodes")
def nodes_page(request: Request) -> Response:
    return page(request, "nodes.html", _node_values(request), section="/nodes", live="/live/nodes")


@router.get("/live/nodes")
def nodes_live(request: Request) -> Response:
    return stream(request, lambda: live_parts("nodes.html", _node_values(request)))


def _node_values(request: Request) -> dict[str, Any]:
    bus = bus_of(request)
    done = audited_actions(bus.client, ACTIONS)
    return {"nodes": known_nodes(bus), "audit": done[::-1], "is_logged_in": may_administer(request)}


def known_nodes(bus: WebBus) -> list[NodeInfo]:
    return BusNodes(bus.client).all()


@router.post("/nodes/{node_id}/drain")
def drain(request: Request, node_id: str) -> Response:
    actions.drain(bus_of(request), node_id, operator_of(request))
    return RedirectResponse("/nodes", 303)


@router.post("/nodes/{node_id}/resume")
def resume(request: Request, node_id: str) -> Response:
    actions.resume(bus_of(request), node_id, operator_of(request))
    return RedirectResponse("/nodes", 303)


@router.post("/nodes/{node_id}/limit")
def limit(
    request: Request, node_id: str, swimlanes: Annotated[int, Form(ge=0, lt=2**31)]
) -> Response:
    actions.limit(bus_of(request), node_id, swimlanes, operator_of(request))
    return RedirectResponse("/nodes", 303)
