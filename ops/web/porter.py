"""porter's pages of a node: /inspect/node/info, error, jstack, jstat, jinfo, jmap; the first two
also with `.json` behind them."""

from __future__ import annotations

import os
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import PlainTextResponse

from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.threads import ask_java, java_machines, own_threads
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.node_registry import NODES, BusNodes
from cdcbus.tasks.zookeeper.status import Status, status_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import get_node

_Bus = Annotated[WebBus, Depends(bus_of)]
router = APIRouter(prefix="/inspect/node", tags=["porter's pages"])


@router.get("/info.json", summary="This node, in porter's words")
@router.get("/info", include_in_schema=False)
def info(bus: _Bus) -> dict[str, Any]:
    """`consumeProcess`: records that each swimlane is behind, seconds where records cannot be
    counted, empty where it is not known."""
    snapshot = get_node(bus.client, f"{NODES}/{bus.node_id}/stat")
    seen, nodes = BusNodes(bus.client).seen(bus.node_id), TaskNodes(bus.client)
    lanes = {} if seen is None else seen.tasks
    statuses = {task_id: status_of(nodes, task_id) for task_id in lanes}
    return {
        "nodeId": bus.node_id,
        "status": "WORKING" if seen is None or seen.wish.is_taking else "SUSPEND",
        "uploadStatistic": False,
        "healthLevel": seen.health if seen else "",
        "healthLevelDesc": seen.health_reason if seen else "",
        "workLimit": seen.work_limit if seen else 0,
        "workUsed": seen.used if seen else 0,
        "dnodeSnapshot": snapshot.fields if snapshot else {},
        "workMode": "ZOOKEEPER",
        "forceAssign": False,
        "consumeProcess": {
            f"{task_id}_{lane}": _lag(statuses[task_id])
            for task_id in lanes
            for lane in lanes[task_id]
        },
        "consumerIdle": {
            f"{task_id}_{lane}": _idle(statuses[task_id])
            for task_id in lanes
            for lane in lanes[task_id]
        },
    }


@router.get("/error.json", summary="Tasks that wait for a person after an error on this node")
@router.get("/error", include_in_schema=False)
def error(bus: _Bus) -> list[str]:
    nodes = TaskNodes(bus.client)
    found = [status_of(nodes, task_id) for task_id in nodes.ids()]
    return [
        f"task {each.task_id}: {each.reason}"
        for each in found
        if each.state is State.ERROR and each.node_id in ("", bus.node_id)
    ]


@router.get(
    "/jstack",
    response_class=PlainTextResponse,
    summary="What the threads of the node do, and those of its Java machines",
)
def jstack() -> str:
    return f"process {os.getpid()}, the node\n\n{own_threads()}\n{_of_java('Thread.print')}"


@router.get("/jstat", response_class=PlainTextResponse, summary="The heap of its Java machines")
def jstat() -> str:
    return _of_java("GC.heap_info")


@router.get(
    "/jmap",
    response_class=PlainTextResponse,
    summary="What fills the heap of its Java machines, by class",
)
def jmap() -> str:
    return _of_java("GC.class_histogram")


@router.get(
    "/jinfo",
    response_class=PlainTextResponse,
    summary="The flags of its Java machines; not their properties, which hold secrets",
)
def jinfo() -> str:
    return _of_java("VM.flags")


def _of_java(command: str) -> str:
    machines = java_machines(os.getpid())
    if not machines:
        return "no task of this node runs on Spark just now\n"
    return "\n".join(f"process {pid}, java\n\n{ask_java(pid, command)}" for pid in machines)


def _lag(status: Status) -> str:
    stat = status.stat
    if stat is None:
        return ""
    if stat.lag_records is not None:
        return str(stat.lag_records)
    return "" if stat.lag_seconds is None else f"{stat.lag_seconds:.0f}s"


def _idle(status: Status) -> str:
    return (
        ""
        if status.stat is None or status.stat.idle_seconds is None
        else f"{status.stat.idle_seconds:.0f}s"
    )
