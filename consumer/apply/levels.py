"""Steps of one or several partitions in source order, and which of them can be written together.
Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from heapq import merge
from itertools import chain, groupby
from operator import attrgetter

from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Cell, Op, Origin, Row


def in_source_order(
    partitions: Sequence[tuple[TopicPartition, Sequence[MappedChange]]],
) -> list[tuple[TopicPartition, MappedChange]]:
    """By the place in the binlog, else by the time of the commit; of one partition always as they
    came. A key change is a delete before an insert."""
    origins = [step.change.origin for step in chain.from_iterable(each for _, each in partitions)]
    is_one_server = len({origin.server_id for origin in origins}) <= 1
    # Places of two servers' binlogs have no order, nor those of files without a number.
    is_one_log = is_one_server and all(_file_number(origin).isdigit() for origin in origins)

    def place(
        record: tuple[TopicPartition, list[MappedChange]],
    ) -> tuple[int, int, int, bool, TopicPartition]:
        partition, (step, *_) = record
        origin = step.change.origin
        when = int(_file_number(origin)) if is_one_log else origin.commit_us
        return when, origin.pos, step.change.row, step.change.op is not Op.DELETE, partition

    records = (
        [(partition, [*of_record]) for _, of_record in groupby(steps, attrgetter("offset"))]
        for partition, steps in partitions
    )
    return [
        (partition, step)
        for partition, of_record in merge(*records, key=place)
        for step in of_record
    ]


def _file_number(origin: Origin) -> str:
    return origin.file.rpartition(".")[2]


def levels(steps: Sequence[MappedChange]) -> list[list[MappedChange]]:
    """Steps in source order, cut so that no level brings a unique value which another row of the
    same level frees. Written one after the other, each as its net effect, they come to the same;
    there are as many as the longest chain of rows that wait for each other."""
    found: list[list[MappedChange]] = []
    rows: dict[Hashable, int] = {}
    # the last level that a value was in, and whose it was
    values: dict[Hashable, tuple[int, Hashable]] = {}
    base = 0
    for step in steps:
        table = step.plan.target.id
        if step.change.op is Op.TRUNCATE:
            level, base = len(found), len(found) + 1
        else:
            ids = [(table, key) for key in step.keys or ((),)]
            touched = [*_unique_values(step)]
            level = max(base, *(rows.get(each, 0) for each in ids))
            for value in touched:
                last, owner = values.get(value, (-1, None))
                level = max(level, last if owner in ids else last + 1)
            rows.update(dict.fromkeys(ids, level))
            values.update(dict.fromkeys(touched, (level, ids[-1])))
        while len(found) <= level:
            found.append([])
        found[level].append(step)
    return [level for level in found if level]


def middle_of(steps: Sequence[MappedChange]) -> int:
    """Where a record begins, as near to the middle as can be; 0 for a single record."""
    edges = (at for at in range(1, len(steps)) if steps[at].offset != steps[at - 1].offset)
    return min(edges, key=lambda at: abs(at - len(steps) // 2), default=0)


def _unique_values(step: MappedChange) -> Iterator[Hashable]:
    """That the step frees or brings. Spellings that some collation may take for the same are the
    same."""
    before = step.change.before
    after = step.change.after
    table = step.plan.target
    for names in table.unique_keys:
        if not names or names == table.key:
            continue
        old = _values({**(after or {}), **before}, names) if before is not None else None
        new = _values({**(before or {}), **after}, names) if after is not None else None
        if old != new or len(step.keys) > 1:
            yield from ((table.id, names, value) for value in (old, new) if value is not None)


def _values(row: Row, names: Sequence[str]) -> tuple[str, ...] | None:
    cells: list[Cell] = [row.get(name) for name in names]
    return None if None in cells else tuple(str(cell).casefold().rstrip() for cell in cells)
