"""Orders steps of one or several partitions as in the source, and groups those that can be written
together. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from heapq import merge
from itertools import groupby, repeat
from operator import attrgetter

from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.plugins.loaders.cells.equal_keys import folded_key, folds
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, Origin, Row


def in_source_order(
    partitions: Sequence[tuple[TopicPartition, Sequence[MappedChange]]],
) -> list[tuple[TopicPartition, MappedChange]]:
    """Merges the steps by their place in the binlog, or else by their commit time; steps of one
    partition keep their order. A key change is a delete before an insert."""
    servers = set[int]()
    files = set[str]()
    for _, steps in partitions:
        for step in steps:
            servers.add(step.change.origin.server_id)
            files.add(_file_number(step.change.origin))
    # Places of two servers' binlogs have no order, nor those of files without a number.
    is_one_log = len(servers) <= 1 and all(map(str.isdigit, files))

    def place(
        record: tuple[TopicPartition, list[MappedChange]],
    ) -> tuple[int, int, int, bool, TopicPartition]:
        partition, (step, *_) = record
        origin = step.change.origin
        when = int(_file_number(origin)) if is_one_log else origin.commit_us
        return when, origin.pos, step.change.row, step.change.op is not Op.DELETE, partition

    # A record's steps stay together, at the place of the first.
    records: list[list[tuple[TopicPartition, list[MappedChange]]]] = []
    for partition, steps in partitions:
        by_offset = groupby(steps, attrgetter("offset"))
        records.append([(partition, list(of_record)) for _, of_record in by_offset])
    ordered: list[tuple[TopicPartition, MappedChange]] = []
    for partition, of_record in merge(*records, key=place):
        ordered += zip(repeat(partition), of_record, strict=False)
    return ordered


def _file_number(origin: Origin) -> str:
    return origin.file.rpartition(".")[2]


def levels(steps: Sequence[MappedChange]) -> list[list[MappedChange]]:
    """Cuts steps in source order into levels, so that no level brings a unique value
    which another row of the same level frees, nor has rows whose keys may be equal at the
    target. Writing the levels one after the other, each as its net effect, leaves the same
    rows as writing the steps one by one. There are as many levels as the longest chain of
    rows that wait for each other."""
    found: list[list[MappedChange]] = []
    # The last level of each row.
    rows: dict[Hashable, int] = {}
    # The last level that a value was in, and the row that had it.
    values: dict[Hashable, tuple[int, Hashable]] = {}
    # The first level after the last truncate.
    base = 0
    for step in steps:
        table = step.plan.target.id
        if step.change.op is Op.TRUNCATE:
            level = len(found)
            base = level + 1
        else:
            ids = [(table, key) for key in step.keys or ((),)]
            touched = [*_unique_values(step), *_alike(step)]
            level = base
            for row in ids:
                level = max(level, rows.get(row, 0))
            for value in touched:
                last, owner = values.get(value, (-1, None))
                level = max(level, last if owner in ids else last + 1)
            rows.update(dict.fromkeys(ids, level))
            values.update(dict.fromkeys(touched, (level, ids[-1])))
        while len(found) <= level:
            found.append([])
        found[level].append(step)
    return list(filter(None, found))


def middle_of(steps: Sequence[MappedChange]) -> int:
    """The index nearest to the middle at which a record begins; 0 for a single record."""
    edges = (at for at in range(1, len(steps)) if steps[at].offset != steps[at - 1].offset)
    return min(edges, key=lambda at: abs(at - len(steps) // 2), default=0)


def _unique_values(step: MappedChange) -> Iterator[Hashable]:
    """The unique values that the step frees or brings. Spellings that some collation can treat as
    equal are equal."""
    before = step.change.before
    after = step.change.after
    table = step.plan.target
    for names in table.unique_keys:
        if not names or names == table.key:
            continue
        old = None
        new = None
        # A column that one image lacks has not changed, so it is as in the other.
        if before is not None:
            old = _values({**(after or {}), **before}, names)
        if after is not None:
            new = _values({**(before or {}), **after}, names)
        if old == new and len(step.keys) <= 1:
            continue
        for value in (old, new):
            if value is not None:
                yield table.id, names, value


def _alike(step: MappedChange) -> Iterator[Hashable]:
    """The step's keys in a form that is the same for all that the target may treat as equal."""
    table = step.plan.target
    if folds(table):
        for key in step.keys:
            yield table.id, folded_key(key)


def _values(row: Row, names: Sequence[str]) -> tuple[str, ...] | None:
    """The cells of these columns, normalized; None where one is NULL, which equals nothing."""
    values: list[str] = []
    for name in names:
        cell = row.get(name)
        if cell is None:
            return None
        values.append(cell.casefold().rstrip())
    return tuple(values)
