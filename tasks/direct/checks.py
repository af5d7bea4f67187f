"""The conditions of a direct load: of the tasks, and of each table on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import Connection, literal, select, table

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import chosen_partitions
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.tasks.control.source_of import Feed, MappedTable
from cdcbus.tasks.lineage.sharing import may_send

THROUGH_KAFKA = "take its snapshot through Kafka instead (docs/snapshot.md)"
AFTERWARDS = (
    "load the others directly first (--table), and take its snapshot through Kafka after that "
    "(cdcbus snapshot start of the fetch task, with --table; docs/snapshot.md)"
)
"""Of a single table: its records from before the load would not reach the target."""


def check_tasks(load: LoadTask, feeds: Sequence[Feed]) -> None:
    """Raises ConfigError where an update could not make up for a row that no chunk had: a row whose
    key changes while the table is read is in no chunk, or in two."""
    if not load.insert_on_update_error:
        raise ConfigError(
            f"task {load.task_id} leaves out updates of rows that the target lacks, and a row "
            "whose key changes while its table is read may be in no chunk: set "
            "loader.insertOnUpdateError=true until the task has caught up, or take the snapshot "
            "through Kafka (docs/snapshot.md)"
        )
    _check_skipped(f"task {load.task_id}", load.skipped_operations)
    for feed in feeds:
        _check_skipped(feed.place, feed.fetch.left_out)
    for feed in feeds:
        if feed.fetch.source.takes_partial:
            raise ConfigError(
                f"{feed.place} takes rows without some of their columns "
                "(consumer.source.rowImage=any), which cannot make up for a row that moved while "
                "its table was read: take the snapshot through Kafka (docs/snapshot.md)"
            )


def check_partitions(load: LoadTask, topic: str, partitions: Sequence[int]) -> None:
    """Raises ConfigError where the task reads only some of these partitions of a topic: a row of
    the source does not show its partition, so all would be copied, and only some then followed."""
    read = chosen_partitions(load.source, topic, partitions)
    left_out = [str(number) for number in partitions if number not in read]
    if left_out:
        raise ConfigError(
            f"task {load.task_id} leaves out partition {', '.join(left_out)} of topic {topic} "
            "(consumer.source.partition), whose rows would be copied, and their changes never "
            f"applied: {THROUGH_KAFKA}"
        )


def _check_skipped(place: str, skipped: frozenset[Op]) -> None:
    missing = skipped & {Op.INSERT, Op.UPDATE}
    if missing:
        raise ConfigError(
            f"{place} leaves out {', '.join(sorted(missing))} "
            "(consumer.skippedOperations): chunks are written as inserts, and updates make up "
            "for rows that moved while their table was read; allow both until the task has "
            "caught up"
        )


def check_further(load: LoadTask, further: Sequence[FetchTask]) -> None:
    """Raises ConfigError where --source leaves out fetch tasks, whose tables would be missing."""
    if further:
        ids = ", ".join(each.task_id for each in further)
        raise ConfigError(
            f"--source leaves out fetch task {ids}, which sends rows to task {load.task_id}, too, "
            "and the rows that it has sent before would be missing: name the tables to load with "
            "--table, and take the snapshot of the others through Kafka (docs/snapshot.md). If "
            "that fetch task is no longer used, delete it"
        )


def check_alone(load: LoadTask, target: TableId, further: Sequence[FetchTask]) -> None:
    """Raises ConfigError where rows of fetch tasks that are left out go to a target table."""
    ids = [each.task_id for each in further if may_send(target, each, load)]
    if ids:
        raise ConfigError(
            f"rows of fetch task {', '.join(ids)}, which --source leaves out, go to target table "
            f"{target}, too, and would be missing there: {AFTERWARDS}. If that fetch task is "
            "no longer used, delete it"
        )


def check_table(mapped: MappedTable, selected: SelectedTable, target: TargetTable | None) -> None:
    """Raises ConfigError where the target table is missing or unsafe, or rows cannot be identified
    on one of the sides."""
    source = mapped.source.id
    if target is None:
        raise ConfigError(
            f"target table {mapped.target}, for {source}, does not exist: cdcbus schema apply "
            "makes it"
        )
    if target.unsafe:
        raise ConfigError(target.unsafe)
    if selected.key is None:
        raise ConfigError(
            f"table {source} has no primary key, nor a unique key of whole columns without NULLs, "
            f"so rows that come twice could not be recognized: {AFTERWARDS}"
        )
    if not target.key:
        raise ConfigError(
            f"target table {target.id} has no primary key, nor a unique key without NULLs, so rows "
            f"of {source} that come twice could not be recognized: give it one, or {AFTERWARDS}"
        )
    if not distinguishes_rows(mapped, target):
        raise ConfigError(
            f"the key of target table {target.id} ({', '.join(target.key)}) holds no key of "
            f"{source}, so different source rows may become one: {AFTERWARDS}"
        )


def distinguishes_rows(mapped: MappedTable, target: TargetTable) -> bool:
    """Whether the target's key contains all columns of a key of the source."""
    key = {name.lower() for name in target.key}
    # A masked column may turn different values into one.
    usable = set()
    for column, name in mapped.columns.items():
        if name.lower() in key and column.lower() not in mapped.route.rule.masks:
            usable.add(column)
    # A key of prefixes, or with NULLs, lets different rows have equal keys.
    for each in mapped.schema.columns:
        if each.is_nullable:
            usable.discard(each.name)
    for unique in mapped.schema.uniques:
        if unique.is_whole and usable.issuperset(unique.columns):
            return True
    return False


def check_empty(
    connection: Connection, targets: Iterable[TargetTable], shown: Callable[[TableId], str] = str
) -> None:
    """Raises ConfigError that names the tables with rows, and driver errors."""
    full = []
    # A target table can have several source tables.
    for name in sorted({target.id for target in targets}):
        if _has_rows(connection, name):
            full.append(shown(name))
    if full:
        raise ConfigError(
            f"target table {', '.join(full)} has rows already: a direct load is for empty tables; "
            "empty it, name others with --table, or take the snapshot through Kafka "
            "(docs/snapshot.md)"
        )


def check_kept_rows(connection: Connection, load: LoadTask, loaded: Iterable[TableId]) -> None:
    """Raises ConfigError that names the tables that were emptied since rows were loaded into them,
    and driver errors. `loaded`: the target tables of source tables of which rows were loaded."""
    # It may have left out all rows.
    if load.processor:
        return
    emptied = [name for name in sorted(loaded) if not _has_rows(connection, name)]
    if emptied:
        raise ConfigError(
            f"target table {', '.join(map(str, emptied))} has no rows any more, and the direct "
            f"load of task {load.task_id} had loaded some: it was emptied, or the target was "
            "replaced, and these would be missing. Empty the other target tables, too, and start "
            "again with --anew"
        )


def _has_rows(connection: Connection, name: TableId) -> bool:
    one = select(literal(1)).select_from(table(name.table, schema=name.schema)).limit(1)
    return connection.execute(one).first() is not None
