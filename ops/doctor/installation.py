"""All checks of an installation: this machine, ZooKeeper, then every system that its tasks connect
to, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.doctor.access import check_access
from cdcbus.ops.doctor.clocks import node_clocks, source_clock
from cdcbus.ops.doctor.kafka import check_kafka
from cdcbus.ops.doctor.machine import check_machine
from cdcbus.ops.doctor.provider import check_provider
from cdcbus.ops.doctor.zookeeper import check_zookeeper
from cdcbus.ops.services.topics import access_of
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.topic_log import Access, access_to
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.named_task import inspect_named, place_of
from cdcbus.tasks.preflight.load import check_target
from cdcbus.tasks.preflight.result import (
    CONNECT_SECONDS,
    CheckResult,
    Outcome,
    error,
    failure,
    has_failed,
    ok,
    probe,
    warning,
)
from cdcbus.tasks.zookeeper.node_registry import ONE_VERSION, BusNodes, mixed_versions
from cdcbus.tasks.zookeeper.tasks import TaskNodes

Probe = tuple[str, Callable[[], list[CheckResult]]]


def steps(bus: BusSettings, words: Iterable[str]) -> Iterator[Probe]:
    """The checks in order, each with its name. A check takes seconds and raises nothing. `words`:
    task files, or ids; none: every task that ZooKeeper holds."""
    yield "this machine", lambda: check_machine(bus.node_logs)
    of_zookeeper: list[CheckResult] = []
    yield "ZooKeeper", lambda: _kept(check_zookeeper(bus.zookeeper), of_zookeeper)
    # Each step has run by now, as the caller runs it before it asks for the next. Where no server
    # answers, whatever asks them would wait, and say the same again.
    answers = not all(result.outcome is Outcome.ERROR for result in of_zookeeper)
    if answers:
        yield "access", lambda: probe("ZooKeeper access", lambda: check_access(bus))
    yield "provider", lambda: probe("provider", lambda: check_provider(bus))
    tasks: dict[str, FetchTask | LoadTask] = {}
    if answers:
        yield "nodes", lambda: probe("nodes", lambda: _nodes(bus))
    if answers or words:
        yield "tasks", lambda: _read(bus, list(words), tasks)
    for servers, (options, topics) in _clusters(tasks.values()).items():
        yield f"Kafka {servers}", partial(check_kafka, servers, options, topics)
    # By address, as tasks share servers.
    sources: dict[object, FetchTask] = {}
    targets: dict[str, LoadTask] = {}
    for task in tasks.values():
        if isinstance(task, FetchTask):
            if task.source.added is None:  # others have no clock to check
                sources[task.source.addresses] = task
        elif isinstance(task.target, JdbcTarget) and task.target.url:
            targets[task.target.url] = task
    for fetch_task in sources.values():
        yield "source", partial(_source, fetch_task)
    for load_task in targets.values():
        yield "target", partial(_target, load_task)


def _kept(seen: list[CheckResult], where: list[CheckResult]) -> list[CheckResult]:
    where += seen
    return seen


def _nodes(bus: BusSettings) -> Iterator[CheckResult]:
    with bus_client(bus) as client:
        nodes = BusNodes(client)
        for node_id in nodes.ids():
            info = nodes.seen(node_id)
            if info is not None and info.is_there:
                yield ok(
                    f"node {node_id}",
                    f"{info.status} on {info.host}, {info.used} of {info.work_limit} swimlanes",
                )
                continue
            reason = "away"
            if info is not None and info.health_reason:
                reason = info.health_reason
            yield warning(
                f"node {node_id}",
                reason,
                f"Start it, or have it forgotten: cdcbus node rm {node_id}.",
            )
        if mixed := mixed_versions(nodes.versions()):
            yield warning("nodes", mixed, f"{ONE_VERSION.capitalize()}.")
        if not nodes.ids():
            yield ok("nodes", "none; start one: cdcbus node run")
        yield from node_clocks(client)


def _read(
    bus: BusSettings, words: list[str], tasks: dict[str, FetchTask | LoadTask]
) -> list[CheckResult]:
    """Reads the tasks of `words` into `tasks`, and reports those that cannot be read."""
    seen: list[CheckResult] = []
    if not words:
        try:
            with bus_client(bus) as client:
                nodes = TaskNodes(client)
                # A task that runs from a file has no text here.
                words = [task_id for task_id in nodes.ids() if nodes.has_text(task_id)]
        except CdcError as cause:
            return [failure("tasks", cause)]
    for word in words:
        try:
            tasks[word] = inspect_named(word, bus, Severity.ERROR).ready(place_of(word)).task
        except CdcError as cause:
            first = str(cause).splitlines()[0]
            seen.append(error(f"task {word}", first, f"See all of it: cdcbus task check {word}"))
    if words:
        seen.append(ok("tasks", f"{len(tasks)} read"))
    else:
        seen.append(ok("tasks", "none; import one: cdcbus task import FILE"))
    return seen


def _clusters(
    tasks: Iterable[FetchTask | LoadTask],
) -> dict[str, tuple[Mapping[str, str], set[str]]]:
    """Each cluster by its servers, with the options to log in and the topics that tasks use."""
    found: dict[str, tuple[Mapping[str, str], set[str]]] = {}

    def add(access: Access, topics: Iterable[str]) -> None:
        _, used = found.setdefault(access.servers, (access.options, set()))
        used.update(topics)

    for task in tasks:
        if isinstance(task, FetchTask):
            add(access_to(task.publish), named_topics(task.publish))
            continue
        add(access_of(task), task.source.topics)
        # The target of a task that rewrites records is a topic.
        if isinstance(task.target, PublishConfig):
            add(access_to(task.target), named_topics(task.target))
    return found


def _source(task: FetchTask) -> list[CheckResult]:
    seen: list[CheckResult] = []
    for host, port in task.source.addresses:
        config = replace(
            task.source, addresses=((host, port),), connect_timeout_seconds=CONNECT_SECONDS
        )
        seen += probe(f"source {host}:{port}", partial(source_clock, config))
    return seen


def _target(task: LoadTask) -> list[CheckResult]:
    seen, _ = check_target(task)
    subject = f"target of task {task.task_id}"
    if not has_failed(seen):
        return [ok(subject, "answers")]
    return [replace(result, subject=f"{subject}: {result.subject}") for result in seen]
