"""The whole look at an installation: this machine, ZooKeeper, then all that its tasks connect
to, each system once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.doctor.clocks import node_clocks, source_clock
from cdcbus.ops.doctor.kafka import check_kafka
from cdcbus.ops.doctor.machine import check_machine
from cdcbus.ops.doctor.zookeeper import check_zookeeper
from cdcbus.ops.services.topics import access_of, access_to
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.named_task import inspect_named, place_of
from cdcbus.tasks.preflight.load import check_target
from cdcbus.tasks.preflight.result import (
    CONNECT_SECONDS,
    CheckResult,
    error,
    failure,
    has_failed,
    ok,
    probe,
    warning,
)
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.tasks import TaskNodes

Probe = tuple[str, Callable[[], list[CheckResult]]]


def steps(bus: BusSettings, words: Iterable[str]) -> Iterator[Probe]:
    """What is looked at, in order: a name, and the look itself, which takes seconds and raises
    nothing. `words`: task files, or ids; none: every task that ZooKeeper keeps."""
    yield "this machine", lambda: check_machine(bus.node_logs)
    yield "ZooKeeper", lambda: check_zookeeper(bus.zookeeper)
    tasks: dict[str, FetchTask | LoadTask] = {}
    yield "nodes", lambda: probe("nodes", lambda: _nodes(bus))
    yield "tasks", lambda: _read(bus, list(words), tasks)
    for servers, (options, topics) in _clusters(tasks.values()).items():
        yield f"Kafka {servers}", partial(check_kafka, servers, options, topics)
    for source in {
        task.source.addresses: task for task in tasks.values() if isinstance(task, FetchTask)
    }.values():
        yield "source", partial(_source, source)
    for target in {
        _address(task): task
        for task in tasks.values()
        if isinstance(task, LoadTask) and _address(task)
    }.values():
        yield "target", partial(_target, target)


def _nodes(bus: BusSettings) -> Iterator[CheckResult]:
    with bus_client(bus) as client:
        nodes = BusNodes(client)
        for node_id in nodes.ids():
            info = nodes.seen(node_id)
            if info is None or not info.is_there:
                reason = info.health_reason if info else ""
                yield warning(
                    f"node {node_id}",
                    reason or "away",
                    "Start it, or forget it: delete its nodes with zkCli.",
                )
            else:
                yield ok(
                    f"node {node_id}",
                    f"{info.status} on {info.host}, {info.used} of {info.work_limit} swimlanes",
                )
        if not nodes.ids():
            yield ok("nodes", "there is none; start one: cdcbus node run")
        yield from node_clocks(client)


def _read(
    bus: BusSettings, words: list[str], tasks: dict[str, FetchTask | LoadTask]
) -> list[CheckResult]:
    """`tasks` takes those that can be read."""
    seen: list[CheckResult] = []
    if not words:
        try:
            with bus_client(bus) as client:
                nodes = TaskNodes(client)
                words = [task_id for task_id in nodes.ids() if nodes.swimlanes(task_id)]
        except CdcError as cause:
            return [failure("tasks", cause)]
    for word in words:
        try:
            tasks[word] = inspect_named(word, bus, Severity.ERROR).ready(place_of(word)).task
        except CdcError as cause:
            first = str(cause).splitlines()[0]
            seen.append(error(f"task {word}", first, f"See all of it: cdcbus task check {word}"))
    return [
        *seen,
        ok(
            "tasks",
            f"{len(tasks)} read"
            if words
            else "there is none; put one there: cdcbus task import FILE",
        ),
    ]


def _clusters(
    tasks: Iterable[FetchTask | LoadTask],
) -> dict[str, tuple[Mapping[str, str], set[str]]]:
    """Each cluster by its servers, with how to log in, and the topics that are used there."""
    found: dict[str, tuple[Mapping[str, str], set[str]]] = {}
    for task in tasks:
        written = task.target if isinstance(task, LoadTask) else task.publish
        used = [(access_of(task), task.source.topics)] if isinstance(task, LoadTask) else []
        if isinstance(written, PublishConfig):
            used.append((access_to(written), tuple(named_topics(written))))
        for access, topics in used:
            found.setdefault(access.servers, (access.options, set()))[1].update(topics)
    return found


def _source(task: FetchTask) -> list[CheckResult]:
    seen: list[CheckResult] = []
    for host, port in task.source.addresses:
        config = replace(
            task.source, addresses=((host, port),), connect_timeout_seconds=CONNECT_SECONDS
        )
        seen += probe(f"source {host}:{port}", partial(source_clock, config))
    return seen


def _address(task: LoadTask) -> str:
    return task.target.url if isinstance(task.target, JdbcTarget) else ""


def _target(task: LoadTask) -> list[CheckResult]:
    seen, _ = check_target(task)
    subject = f"target of task {task.task_id}"
    return (
        [replace(result, subject=f"{subject}: {result.subject}") for result in seen]
        if has_failed(seen)
        else [ok(subject, "answers")]
    )
