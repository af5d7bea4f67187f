"""The tasks that bring changes of other servers to a source, where servers are copied into each
other. They are found by their marks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import Elsewhere, FetchTask


def is_both_ways(load: LoadTask, fetches: Sequence[FetchTask]) -> bool:
    """Whether the source's rows also come from elsewhere: the target's own changes may then be on
    their way to the source."""
    return bool(_mark(load)) or any(fetch.elsewhere != Elsewhere() for fetch in fetches)


def bringing_tasks(
    load: LoadTask, fetches: Sequence[FetchTask], tasks: Mapping[str, FetchTask | LoadTask]
) -> list[str]:
    """The places, among `tasks`, of the consumer tasks that bring what the fetch tasks leave out.
    Raises ConfigError where something else may bring it, so that it is not known to have come."""
    marks = set[str]()
    for fetch in fetches:
        elsewhere = fetch.elsewhere
        if elsewhere.server_ids or elsewhere.gtid_sources:
            raise ConfigError(
                f"fetch task {fetch.task_id} leaves out what its source replicates itself "
                "(consumer.source.excludeServerIds, excludeGtidSources), and how far that is, is "
                "not known"
            )
        marks |= elsewhere.marks
    if not marks:
        raise ConfigError(
            f"task {load.task_id} marks what it writes (loader.mark), and no fetch task that feeds "
            "it has consumer.source.excludeMarks, by which the tasks of the other direction are "
            "found"
        )
    found = []
    for place, task in tasks.items():
        if isinstance(task, LoadTask) and _mark(task) in marks:
            found.append(place)
    if missing := marks - {_mark(tasks[place]) for place in found}:
        raise ConfigError(
            f"no task is found that has loader.mark={' or '.join(sorted(missing))}, which "
            "consumer.source.excludeMarks names, so how far the other direction is, is not known"
        )
    return sorted(found)


def _mark(task: FetchTask | LoadTask) -> str:
    if isinstance(task, LoadTask) and isinstance(task.target, JdbcTarget):
        return task.target.mark
    return ""
