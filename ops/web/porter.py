"""porter's pages of a node: /inspect/node/info, error, jstack, jstat, jinfo, jmap; the first two
also with the ending `.json`. And that of its administration for Zabbix, /alarm/task/check."""

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
alarm_router = APIRouter(prefix="/alarm/task", tags=["porter's pages"])


@router.get("/info.json", summary="This node, in porter's words")
@router.get("/info", include_in_schema=False)
def info(bus: _Bus) -> dict[str, Any]:
    """`consumeProcess`: records that each swimlane is behind, seconds where records cannot be
    counted, empty where it is not known."""
    snapshot = get_node(bus.client, f"{NODES}/{bus.node_id}/stat")
    node = BusNodes(bus.client).seen(bus.node_id)
    lags = {}
    idle_times = {}
    for task_id, swimlanes in node.tasks.items() if node else ():
        status = status_of(TaskNodes(bus.client), task_id)
        for swimlane in swimlanes:
            lags[f"{task_id}_{swimlane}"] = _lag(status)
            idle_times[f"{task_id}_{swimlane}"] = _idle(status)
    return {
        "nodeId": bus.node_id,
        "status": "SUSPEND" if node and not node.wish.is_taking else "WORKING",
        "uploadStatistic": False,
        "healthLevel": node.health if node else "",
        "healthLevelDesc": node.health_reason if node else "",
        "workLimit": node.work_limit if node else 0,
        "workUsed": node.used if node else 0,
        "dnodeSnapshot": snapshot.fields if snapshot else {},
        "workMode": "ZOOKEEPER",
        "forceAssign": False,
        "consumeProcess": lags,
        "consumerIdle": idle_times,
    }


@router.get("/error.json", summary="Tasks that wait for a person after an error on this node")
@router.get("/error", include_in_schema=False)
def error(bus: _Bus) -> list[str]:
    nodes = TaskNodes(bus.client)
    sentences = []
    for task_id in nodes.ids():
        status = status_of(nodes, task_id)
        if status.state is State.ERROR and status.node_id in ("", bus.node_id):
            sentences.append(f"task {task_id}: {status.reason}")
    return sentences


@alarm_router.get(
    "/check",
    response_class=PlainTextResponse,
    summary="Tasks of the bus that an error has stopped, for Zabbix",
)
def check(bus: _Bus) -> PlainTextResponse:
    """As porter's: nothing where there is none, else one text for each, with `;` between them."""
    nodes = TaskNodes(bus.client)
    statuses = [status_of(nodes, task_id) for task_id in nodes.ids()]
    return PlainTextResponse(
        ";".join(
            " ".join(f"task {each.task_id} has stopped: {each.reason}".replace(";", ",").split())
            for each in statuses
            if each.state is State.ERROR
        )
    )


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
    return _seconds(stat.lag_seconds)


def _idle(status: Status) -> str:
    return "" if status.stat is None else _seconds(status.stat.idle_seconds)


def _seconds(number: float | None) -> str:
    return "" if number is None else f"{number:.0f}s"
