"""Looks at what a consumer task needs: topics, target tables, and where it would start. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from cdcbus.consumer import offsets
from cdcbus.consumer.mapper import Mapper
from cdcbus.consumer.offsets import TopicLogs, lanes_of, starting_offsets
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.contracts import Loader, OffsetTable, PositionStore, TargetTable
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import Replay
from cdcbus.tasks.observations import ANSWER_SECONDS, CONNECT_SECONDS, Observation, error, has_failed, ok, overheard, probe, warning


def check_load(task: LoadTask, stores: Mapping[str, PositionStore]) -> list[Observation]:
    """All observations of a consumer task. `stores`: one per topic."""
    topics = check_topics(task)
    target, table = check_target(task)
    start = [] if has_failed(topics) else probe("start", lambda: _start(task, stores, table))
    return topics + target + start


def check_topics(task: LoadTask) -> list[Observation]:
    """Whether the topics and the chosen partition are there; one topic's fault hides no other's."""
    seen: list[Observation] = []
    for topic in task.source.topics:
        seen += probe(f"Kafka topic {topic}", partial(_topic, task, topic))
    return seen


def _topic(task: LoadTask, topic: str) -> Iterator[Observation]:
    with TopicLogs(task, ANSWER_SECONDS) as logs:
        partitions = logs.partitions(topic)
        read = [str(partition) for _, partition in lanes_of(task, logs, topic)]
        lanes = "all are read" if task.source.partition is None else f"only partition {read[0]} is read"
        yield ok(f"Kafka topic {topic}", f"{len(partitions)} {'partition' if len(partitions) == 1 else 'partitions'}, {lanes}")


def check_target(task: LoadTask) -> tuple[list[Observation], OffsetTable]:
    """What the target has, and its table of offsets. Tables are looked at only where the login succeeds."""
    short = min(task.target.connect_timeout_seconds or CONNECT_SECONDS, CONNECT_SECONDS)
    open_loader = partial(make_loader, task.loader, replace(task.target, connect_timeout_seconds=short))
    found: list[OffsetTable] = []

    def look() -> Iterator[Observation]:
        with closing(open_loader()) as loader:
            found.append(loader.offset_table())
        yield ok("target", f"user {task.target.user or '(none)'} can log in")
        yield describe_offset_table(found[0])

    seen = probe("target", look)
    if has_failed(seen):
        return seen, OffsetTable(False, None)
    with closing(open_loader()) as loader:
        return seen + _tables(task, loader), found[0]


def describe_offset_table(table: OffsetTable) -> Observation:
    """Whether offsets can be kept beside the rows, and what it means if not."""
    subject = "target table cdcbus_position"
    if table.is_there:
        return ok(subject, "there")
    if table.may_create:
        return ok(subject, "not there yet; a start makes it")
    return warning(
        subject,
        "not there, and the user cannot be seen to have the right to make it: after a kill, batches may be applied twice, as upserts",
        "Name a database in the address, and grant CREATE there.",
    )


def _tables(task: LoadTask, loader: Loader) -> list[Observation]:
    if not task.includes:
        return [ok("target tables", "no consumer.includes, so none is looked at before its rows arrive")]
    mapper = Mapper(task.rules)
    seen: list[Observation] = []
    for name in sorted(task.includes):
        target = mapper.target(TableId(*name.split(".", 1)))
        seen += probe(f"target table {target}", partial(_table, name, target, loader))
    return seen


def _table(source: str, wanted: TableId, loader: Loader) -> list[Observation]:
    table = loader.table(wanted)
    if table is None:
        cure = "Create it, or map it with mapper[i].schema and mapper[i].table."
        return [error(f"target table {wanted}", f"missing; rows of {source} go there", cure)]
    return describe_table(source, table)


def describe_table(source: str, table: TargetTable) -> list[Observation]:
    """The keys of a target table, and what they mean for the task."""
    subject = f"target table {table.id}"
    if not table.key:
        return [error(subject, f"no primary key; rows of {source} cannot be merged without one", "Give it a primary key.")]
    seen = [ok(subject, f"for {source}: {len(table.columns)} columns, key {', '.join(table.key)}")]
    if table.unique_keys:
        keys = ", ".join(f"({', '.join(key) or 'an expression, a prefix or a condition'})" for key in table.unique_keys)
        found = f"further unique keys: {keys}; rows that exchange such a value must reach one partition to be applied in order"
        cure = "Let the fetch task's loader.source.partitionKey keep such rows together, or use a topic with one partition."
        seen.append(warning(subject, found, cure))
    return seen


def _start(task: LoadTask, stores: Mapping[str, PositionStore], table: OffsetTable) -> Sequence[Observation]:
    with TopicLogs(task, ANSWER_SECONDS) as logs, overheard(offsets.__name__) as heard:
        starts = starting_offsets(task, logs, stores, list(table.applied))
        stored = {topic for topic, store in stores.items() if store.load() is not None}
        seen = [warning("start", sentence, "Check that this is what you want before the start.") for sentence in heard]
        for lane, offset in sorted(starts.items()):
            first, end = logs.bounds(lane)
            last = min(end, task.start.last + 1) if isinstance(task.start, Replay) else end
            rule = "the stored position" if lane[0] in stored else "the start rule, as nothing is stored"
            behind = f"{max(0, last - offset):,} records behind (held: {first} to {end})"
            seen.append(ok(f"start {lane[0]}[{lane[1]}]", f"at offset {offset} by {rule}, {behind}"))
    return seen
