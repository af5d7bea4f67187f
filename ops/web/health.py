"""/healthz: whether the node and its tasks make progress. 200 if so, else 503 and why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse

from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.status import Status, seen_status
from cdcbus.tasks.zookeeper.tasks import TaskNodes

STILL_SECONDS = 300.0
SILENT_SECONDS = 60.0

router = APIRouter()


@router.get(
    "/healthz",
    summary="Whether the node and its tasks make progress",
    responses={503: {"description": "they do not, and why"}},
)
def healthz(request: Request, bus: Annotated[WebBus, Depends(bus_of)]) -> JSONResponse:
    """A request from another machine without the token gets no reasons."""
    try:
        reasons = list(complaints(bus, time.time()))
    except CdcError as error:
        # ZooKeeper does not answer, which is a reason as well.
        reasons = [str(error)]
    answer: dict[str, object] = {"status": "ok", "node": bus.node_id, "reasons": []}
    if request.state.is_here or request.state.operator is not None:
        answer["reasons"] = reasons
    if not reasons:
        return JSONResponse(answer)
    answer["status"] = "failing"
    return JSONResponse(answer, 503)


def complaints(bus: WebBus, now: float) -> Iterator[str]:
    """A sentence for the node, if it is silent, and for each of its tasks without progress. Raises
    PositionUnavailable."""
    info = BusNodes(bus.client).seen(bus.node_id)
    is_silent = True
    if info is not None and info.silent_seconds is not None:
        is_silent = info.silent_seconds > SILENT_SECONDS
    # A node that has just started has not reported yet.
    if is_silent and now - bus.started > SILENT_SECONDS:
        yield f"node {bus.node_id} has reported nothing for {SILENT_SECONDS:g} s; look at its log"
    if info is None:
        return
    nodes = TaskNodes(bus.client)
    for task_id in info.tasks:
        if sentence := complaint(seen_status(nodes, task_id)):
            yield sentence


def complaint(status: Status) -> str:
    """Why a running task makes no progress; else empty."""
    if status.state not in (State.WORKING, State.RETRYING):
        return ""
    silent_seconds = status.silent_seconds
    if silent_seconds is not None and silent_seconds > SILENT_SECONDS:
        return (
            f"task {status.task_id} has reported nothing for {silent_seconds:.0f} s; look at its "
            f"log: cdcbus task logs {status.task_id}"
        )
    stat = status.stat
    if stat is not None and stat.still_seconds >= STILL_SECONDS:
        sentence = (
            f"task {status.task_id} has lag, and has made no progress for "
            f"{stat.still_seconds:.0f} s"
        )
        if status.reason:
            sentence += f": {status.reason}"
        return sentence
    return ""
