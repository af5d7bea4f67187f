"""porter's pages of a node: /inspect/node/info, error, jstack, jstat, jinfo, jmap; the first two
also with the ending `.json`. And /alarm/task/check, its administration's page for Zabbix."""

from __future__ import annotations

import os
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import PlainTextResponse

from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.threads import ask_java, java_machines, own_threads
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.node_registry import NODES, BusNodes
from cdcbus.tasks.zookeeper.status import Status, seen_status
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import get_node

_Bus = Annotated[WebBus, Depends(bus_of)]
router = APIRouter(prefix="/inspect/node", tags=["porter's pages"])
alarm_router = APIRouter(prefix="/alarm/task", tags=["porter's pages"])


@router.get("/info.json", summary="This node, in porter's words")
@router.get("/info", include_in_schema=False)
def info(bus: _Bus) -> dict[str, Any]:
    """`consumeProcess`: the lag of each swimlane in records, in seconds where records cannot be
    counted, empty where it is unknown."""
    snapshot = get_node(bus.client, f"{NODES}/{bus.node_id}/stat")
    # All members of porter's object; some have only one value here.
    fields: dict[str, Any] = {
        "nodeId": bus.node_id,
        "status": "WORKING",
        "uploadStatistic": False,
        "healthLevel": "",
        "healthLevelDesc": "",
        "workLimit": 0,
        "workUsed": 0,
        "dnodeSnapshot": snapshot.fields if snapshot else {},
        "workMode": "ZOOKEEPER",
        "forceAssign": False,
        "consumeProcess": {},
        "consumerIdle": {},
    }
    node = BusNodes(bus.client).seen(bus.node_id)
    if node is None:  # it has not reported yet
        return fields
    if not node.wish.is_taking:
        fields["status"] = "SUSPEND"
    fields["healthLevel"] = node.health
    fields["healthLevelDesc"] = node.health_reason
    fields["workLimit"] = node.work_limit
    fields["workUsed"] = node.used
    for task_id, swimlanes in node.tasks.items():
        status = seen_status(TaskNodes(bus.client), task_id)
        for swimlane in swimlanes:
            fields["consumeProcess"][f"{task_id}_{swimlane}"] = _lag(status)
            fields["consumerIdle"][f"{task_id}_{swimlane}"] = _idle(status)
    return fields


@router.get("/error.json", summary="Tasks that wait for an operator after an error on this node")
@router.get("/error", include_in_schema=False)
def error(bus: _Bus) -> list[str]:
    nodes = TaskNodes(bus.client)
    sentences = []
    for task_id in nodes.ids():
        status = seen_status(nodes, task_id)
        # An error that belongs to no node is shown by each of them.
        if status.state is State.ERROR and status.node_id in ("", bus.node_id):
            sentences.append(f"task {task_id}: {status.reason}")
    return sentences


@alarm_router.get(
    "/check",
    response_class=PlainTextResponse,
    summary="Tasks of the bus that an error has stopped, for Zabbix",
)
def check(bus: _Bus) -> PlainTextResponse:
    """Like porter's: empty without such tasks, else one text for each, with `;` between them."""
    nodes = TaskNodes(bus.client)
    sentences = []
    for task_id in nodes.ids():
        status = seen_status(nodes, task_id)
        if status.state is State.ERROR:
            sentence = f"task {task_id} has stopped: {status.reason}"
            one_line = " ".join(sentence.split())
            # It separates the sentences.
            sentences.append(one_line.replace(";", ","))
    return PlainTextResponse(";".join(sentences))


@router.get(
    "/jstack",
    response_class=PlainTextResponse,
    summary="What the threads of the node and of its JVMs are doing",
)
def jstack() -> str:
    return f"process {os.getpid()}, the node\n\n{own_threads()}\n{_of_java('Thread.print')}"


@router.get("/jstat", response_class=PlainTextResponse, summary="The heap of its JVMs")
def jstat() -> str:
    return _of_java("GC.heap_info")


@router.get(
    "/jmap",
    response_class=PlainTextResponse,
    summary="What fills the heap of its JVMs, by class",
)
def jmap() -> str:
    return _of_java("GC.class_histogram")


@router.get(
    "/jinfo",
    response_class=PlainTextResponse,
    summary="The flags of its JVMs; not their properties, which hold secrets",
)
def jinfo() -> str:
    return _of_java("VM.flags")


def _of_java(command: str) -> str:
    machines = java_machines(os.getpid())
    if not machines:
        return "no task of this node runs on Spark just now\n"
    answers = []
    for pid in machines:
        answers.append(f"process {pid}, java\n\n{ask_java(pid, command)}")
    return "\n".join(answers)


def _lag(status: Status) -> str:
    stat = status.stat
    if stat is None:
        return ""
    if stat.lag_records is not None:
        return str(stat.lag_records)
    return _seconds(stat.lag_seconds)


def _idle(status: Status) -> str:
    if status.stat is None:
        return ""
    return _seconds(status.stat.idle_seconds)


def _seconds(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:.0f}s"
