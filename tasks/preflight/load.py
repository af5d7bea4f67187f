"""Checks what a consumer task needs: the topics, the target tables, and where it would start.
Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from cdcbus.consumer import offsets
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.landmarks import same_logs
from cdcbus.consumer.offsets.start_offsets import starting_offsets
from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.consumer.transform.cascades import REMEDY, describe_cascades
from cdcbus.plugins.contracts import JdbcTarget, Loader, OffsetTable, PositionStore, TargetTable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.positions import TopicPartition, kafka_positions_from_json
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import Replay
from cdcbus.plugins.transform.idle_columns import idle_columns
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.route import Route
from cdcbus.tasks.lineage.case_twins import merged_twins
from cdcbus.tasks.preflight.forward import check_forward
from cdcbus.tasks.preflight.records import Sample, check_records
from cdcbus.tasks.preflight.result import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    IDLE_REMEDY,
    CheckResult,
    counted,
    error,
    has_failed,
    ok,
    overheard,
    probe,
    warning,
)
from cdcbus.tasks.preflight.target_columns import describe_columns


def check_load(task: LoadTask, stores: Mapping[str, PositionStore]) -> list[CheckResult]:
    """All results of a consumer task. `stores`: one per topic."""
    topics = check_topics(task)
    target, table = check_target(task)
    if has_failed(topics):
        return topics + target + check_target_tables(task, target, {})
    starts: dict[TopicPartition, int] = {}
    # Before the records: whether a fault in one matters depends on where the task starts.
    start = probe("start", lambda: _start(task, stores, table, starts))
    samples: dict[TableId, Sample] = {}
    records: list[CheckResult] = []
    for topic in task.source.topics:
        records += probe(f"records of {topic}", partial(_records, task, topic, starts, samples))
    named = probe("mapper", lambda: describe_named_columns(task, samples))
    return topics + records + named + target + check_target_tables(task, target, samples) + start


def describe_named_columns(
    task: LoadTask, samples: Mapping[TableId, Sample]
) -> Iterator[CheckResult]:
    """Warnings about columns that rules withhold or choose, and that no row of a sample has."""
    # An event processor may rename columns.
    if task.processor:
        return
    columns = {table: list(sample.columns) for table, sample in samples.items()}
    for sentence in idle_columns(task.mapper, columns):
        yield warning("mapper, by the newest records", sentence, IDLE_REMEDY)


def _records(
    task: LoadTask, topic: str, starts: Mapping[TopicPartition, int], samples: dict[TableId, Sample]
) -> Iterator[CheckResult]:
    return check_records(task, topic, task.reader, starts, samples)


def check_topics(task: LoadTask) -> list[CheckResult]:
    """Checks that the topics and the chosen partitions exist. A fault of one topic does not hide
    another's."""
    seen: list[CheckResult] = []
    for topic in task.source.topics:
        seen += probe(f"Kafka topic {topic}", partial(_topic, task, topic))
    return seen


def _topic(task: LoadTask, topic: str) -> Iterator[CheckResult]:
    with TopicLogs(task, ANSWER_SECONDS) as logs:
        count = len(logs.partitions(topic))
        read = [str(partition) for _, partition in partitions_of(task, logs, topic)]
    if not task.source.partitions:
        which = "all are read"
    elif len(read) == 1:
        which = f"only partition {read[0]} is read"
    else:
        which = f"only partitions {', '.join(read)} are read"
    yield ok(f"Kafka topic {topic}", f"{counted(count, 'partition')}, {which}")


def check_target(task: LoadTask) -> tuple[list[CheckResult], OffsetTable]:
    """Checks the login and the table of offsets, or the target topics. Returns the results and the
    target's offsets."""
    if isinstance(task.target, PublishConfig):
        return check_forward(task, task.target)
    user = task.target.user
    found: list[OffsetTable] = []

    def look() -> Iterator[CheckResult]:
        with closing(_loader(task)) as loader:
            found.append(loader.offset_table())
        yield ok("target", f"user {user or '(none)'} can log in")
        yield describe_offset_table(found[0])

    seen = probe("target", look)
    if has_failed(seen):
        return seen, OffsetTable(False, None)
    return seen, found[0]


def _loader(task: LoadTask) -> Loader:
    """A loader that gives up early, and opens no more connections than it needs."""
    assert isinstance(task.target, JdbcTarget)
    # Shorter than a probe, so that the loader's own error is reported, not the probe's timeout.
    wait_seconds = min(task.target.max_wait_seconds, CONNECT_SECONDS)
    return make_loader(
        task.loader,
        replace(task.target, max_wait_seconds=wait_seconds, connect_retries=0, min_connections=0),
    )


def describe_offset_table(table: OffsetTable) -> CheckResult:
    """Whether the target can keep offsets beside the rows, and what follows if it cannot."""
    subject = "target table cdcbus_position"
    if table.is_there:
        return ok(subject, "exists")
    if table.may_create:
        return ok(subject, "does not exist yet; a start creates it")
    return warning(
        subject,
        "does not exist, and the user seems to lack the right to create it: after a kill, "
        "batches may be applied twice, as upserts",
        "Name a database in the address, and grant CREATE there.",
    )


def check_target_tables(
    task: LoadTask, target: list[CheckResult], samples: Mapping[TableId, Sample]
) -> list[CheckResult]:
    """Checks the tables that the task file includes and those of the newest records, if the login
    succeeded."""
    if has_failed(target) or isinstance(task.target, PublishConfig):
        return []
    sources: dict[str, TableId] = {}
    for name in task.includes:
        sources[name] = TableId(*name.split(".", 1))
    # For a table that is in both, the records have the source's own spelling.
    for table in samples:
        sources[str(table).upper()] = table
    if not sources:
        return [
            ok(
                "target tables",
                "neither consumer.includes nor a record names one, so none is checked",
            )
        ]
    mapper = task.mapper
    seen: list[CheckResult] = []
    with closing(_loader(task)) as loader:
        seen += probe("target tables", partial(_twins, mapper, samples, loader))
        for _, source in sorted(sources.items()):
            for route in mapper.routes(source):
                seen += probe(
                    f"target table {route.target}",
                    partial(_table, route, samples.get(source), loader),
                )
    return seen


def _twins(
    mapper: Mapper, samples: Mapping[TableId, Sample], loader: Loader
) -> Iterator[CheckResult]:
    """Warnings about records of tables that differ in case only, and go to one target table."""
    pairs = [(source, route.target) for source in samples for route in mapper.routes(source)]
    # A loader of another package does not say more than that both go to one name.
    is_one_table = loader.is_one_table if isinstance(loader, JdbcBatch) else lambda _: False
    for target, why in merged_twins(pairs, is_one_table).items():
        yield warning(
            f"target table {target}", why, "If one was renamed to the other, all is well."
        )


def _table(route: Route, sample: Sample | None, loader: Loader) -> list[CheckResult]:
    table = loader.table(route.target)
    if table is None:
        remedy = "Create it, or map it with mapper[i].schema and mapper[i].table."
        return [
            error(
                f"target table {route.target}", f"missing; rows of {route.source} go there", remedy
            )
        ]
    return [*describe_table(str(route.source), table), *describe_columns(route, sample, table)]


def describe_table(source: str, table: TargetTable) -> list[CheckResult]:
    """The keys of a target table, and what they mean for the task."""
    subject = f"target table {table.id}"
    if table.unsafe:
        return [error(subject, table.unsafe, "Until then the task does not write to it.")]
    remarks: list[CheckResult] = []
    for remark in table.remarks:
        remedy = "Check that this is intended for the rows that the task writes."
        remarks.append(warning(subject, remark, remedy))
    if cascades := describe_cascades(table):
        remarks.append(warning(subject, cascades, REMEDY))
    if not table.key:
        without_key = warning(
            subject,
            f"has no key: deleting a row of {source} matches on every column, which is slow in a "
            "large table",
            "Give it a primary key, or a unique key without nullable columns.",
        )
        return [without_key, *remarks]
    found = f"for {source}: {len(table.columns)} columns, key {', '.join(table.key)}"
    if table.unique_keys:
        keys: list[str] = []
        for key in table.unique_keys:
            # An empty key stands for one that is not made of whole columns.
            keys.append(", ".join(key) or "an expression, a prefix or a condition")
        found += (
            f"; further unique keys: ({'), ('.join(keys)}); rows that exchange such a value wait "
            "for each other if they are in different partitions"
        )
    return [ok(subject, found), *remarks]


def _start(
    task: LoadTask,
    stores: Mapping[str, PositionStore],
    table: OffsetTable,
    found: dict[TopicPartition, int],
) -> Sequence[CheckResult]:
    """Checks where a start would begin, and adds the offsets to `found`."""
    with TopicLogs(task, ANSWER_SECONDS) as logs, overheard(offsets.__name__) as heard:
        begin = starting_offsets(task, logs, stores, table.applied, topic_ids(task.source))
        # Raises if a log was cut off and filled again, as the start would.
        same_logs(task, logs, begin)
        starts = begin.offsets
        found |= starts
        stored: dict[TopicPartition, int] = {}
        for store in stores.values():
            text = store.load()
            for position in kafka_positions_from_json(text) if text else ():
                stored[position.topic_partition] = position.next_offset
        applied = {each.topic_partition: each.next_offset for each in table.applied}
        seen = []
        for sentence in heard:
            seen.append(warning("start", sentence, "Check that you want this before the start."))
        for partition, offset in sorted(starts.items()):
            first, end = logs.bounds(partition)
            last = end
            # A replay ends on its own, perhaps before the end of the topic.
            if isinstance(task.start, Replay):
                last = min(end, task.start.last + 1)
            rule = "the stored position"
            if partition in begin.by_rule:
                rule = "the start rule, as nothing is stored"
            elif stored.get(partition) != offset == applied.get(partition):
                rule = "what the target has applied"
            behind = f"{max(0, last - offset):,} records behind (held: {first} to {end})"
            seen.append(ok(f"start {partition}", f"at offset {offset} by {rule}, {behind}"))
    return seen
