"""The newest change of a row that has changes in several Kafka partitions, which are applied each
for itself.

The target keeps the version of such a row beside it, in the rows' own transaction, and of a deleted
one as well: an older change that comes later is left out. So whichever partition is ahead, and
however often a part comes again, the row ends as the source has left it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cdcbus.consumer.apply.writer import count_superseded
from cdcbus.consumer.merge.mapped_change import Key, MappedChange
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.plugins.contracts import (
    VERSION,
    KnownRow,
    LoadTransaction,
    RowVersion,
    TableBatch,
    TargetTable,
    Writes,
)
from cdcbus.plugins.errors import DataError, RowConflict, TargetRejected
from cdcbus.plugins.loaders.cells.equal_keys import respelled, texts_of
from cdcbus.plugins.rowchange import Op, RowChange, TableId

NEAR_MS = 10_000
TIME = slice(13)
"""The commit time in a place, before file, position and row."""


def version_of(step: MappedChange) -> RowVersion:
    return RowVersion(step.came_ms, place_of(step.change))


def place_of(change: RowChange) -> str:
    """Of a row's delete and its insert by one change of the key, the delete comes first."""
    origin, row = change.origin, change.row
    number = origin.file.rpartition(".")[2]
    if not number.isdigit() or not origin.pos:
        return ""
    is_there = change.op is not Op.DELETE
    return f"{origin.commit_ms:013d}{int(number):010d}{origin.pos:020d}{row:010d}{is_there:d}"


def source_place(change: RowChange) -> str:
    """By which changes of one binlog sort; empty where that is not known."""
    return place_of(change)[TIME.stop :]


def is_older(one: RowVersion, other: RowVersion) -> bool:
    """Whether one change was made before another. Of what cannot be told the later one to come is
    the newer.

    The place in the binlog says so where the source's clock agrees. Where it does not, they may be
    of two servers, or of a binlog that has begun anew: then it is said by when they came into
    Kafka, if these are NEAR_MS apart; else the clock was not exact, as it tells when a statement
    began.
    """
    if one.place and other.place:
        is_before = one.place[TIME.stop :] < other.place[TIME.stop :]
        do_agree = one.place[TIME] == other.place[TIME] or is_before == (
            one.place[TIME] < other.place[TIME]
        )
        if do_agree or abs(one.came_ms - other.came_ms) <= NEAR_MS:
            return is_before
    return one.came_ms < other.came_ms


IsDeleted = Callable[[MappedChange, str, str], bool]
"""Whether some partition is known to delete the row of a step, between two places in the source."""


class Overtaken(NamedTuple):
    """A step that brings a row, though the target knows a newer change, `by` that version, of
    another row that it takes for the same: so the partition must have a delete of the step's
    row."""

    step: MappedChange
    by: RowVersion


def overtaken_reason(step: MappedChange) -> RowConflict:
    table = step.plan.target
    return RowConflict(
        f"target table {table.id} has had a newer row whose key is spelled otherwise and equal "
        "there, so two source rows would become one: give its key "
        f"({', '.join(table.key)}) a collation that tells them apart, as the source's does"
    )


def newest(
    transaction: LoadTransaction,
    steps: Sequence[MappedChange],
    versions: Mapping[TableId, TargetTable],
    report: BatchReport,
    is_deleted: IsDeleted,
) -> tuple[list[MappedChange], list[Overtaken]]:
    """The steps without those that are older than what the target holds of their rows; they are
    counted superseded, but for those that are overtaken. To be called once in a transaction that is
    not undone. `versions`: the tables that have a version table, and that. Raises TargetError."""
    transaction.may_be_freed(versions.keys())
    by_table: dict[TableId, list[MappedChange]] = {}
    kept: list[MappedChange] = []
    overtaken: list[Overtaken] = []
    for step in steps:
        if step.plan.target.id in versions:
            by_table.setdefault(step.plan.target.id, []).extend(step.parts())
        else:
            kept.append(step)
    # as other partitions do, so that none waits for one that waits for it
    for table in sorted(by_table):
        found, left = _newest_of(transaction, by_table[table], versions[table], report, is_deleted)
        overtaken += left
        # Without this an update that is ahead of its insert would miss, and the insert be too old.
        kept += [step._replace(stands_for_row=True) for step in found]
    kept.sort(key=lambda step: step.offset)  # which keeps the order within a record
    return kept, sorted(overtaken, key=lambda each: each.step.offset)


def _newest_of(
    transaction: LoadTransaction,
    steps: Sequence[MappedChange],
    versions: TargetTable,
    report: BatchReport,
    is_deleted: IsDeleted,
) -> tuple[list[MappedChange], list[Overtaken]]:
    """Of rows that are one to the target, each stays in its partition, and so its own delete is
    there: that one makes void what was overtaken before it. A delete hits its own row only, so it
    is never too late, nor too early: one that another partition has in store is done with the row
    that needs it."""
    keys = sorted(
        {step.keys[0] for step in steps if len(step.keys) == 1 and None not in step.keys[0]},
        key=str,
    )
    known, texts = _known(transaction, versions, keys), texts_of(steps[0].plan.target)
    now: dict[str, tuple[RowVersion, Key]] = {}
    overtaken: dict[Key, list[Overtaken]] = {}
    kept: list[MappedChange] = []
    for step in steps:
        if len(step.keys) != 1 or (key := step.keys[0]) not in known:
            kept.append(step)
            continue
        row, stored, spelled = known[key]
        version, is_delete = version_of(step), step.change.op is Op.DELETE
        if row in now:
            stored, spelled = now[row][0], texts(now[row][1])
        is_of_other = stored != RowVersion() and texts(key) != spelled
        if is_delete:
            for each in overtaken.pop(key, ()):
                count_superseded(report, each.step, each.step.changes)
        if not is_older(version, stored):
            if is_of_other and not is_delete and is_there(stored):
                other = _delete_of(step, respelled(step.plan.target, key, spelled))
                after, before = (each.place[TIME.stop :] for each in (stored, version))
                if is_deleted(other, after, before):
                    kept.append(other)
            now[row] = version, key
            kept.append(step)
        elif not is_of_other:
            count_superseded(report, step, step.changes)
        elif is_delete:
            kept.append(step)
        else:
            overtaken.setdefault(key, []).append(Overtaken(step, stored))
    if now:
        rows = [(*key, str(version.came_ms), version.place or "-") for version, key in now.values()]
        transaction.write(
            TableBatch(versions, writes=[Writes((*versions.key, *VERSION), rows)], respells=True)
        )
    # the write before leaves the text of a key that is there
    known_texts = {each.row: each.texts for each in known.values()}
    if renamed := [key for row, (_, key) in now.items() if known_texts[row] != texts(key)]:
        writes = [Writes(versions.key, renamed, may_insert=False)]
        transaction.write(TableBatch(versions, writes=writes, respells=True))
    return kept, [each for of_row in overtaken.values() for each in of_row]


def is_there(version: RowVersion) -> bool:
    """Whether the change is known to have left its row there."""
    return version.place.endswith("1")


def _delete_of(step: MappedChange, key: Key) -> MappedChange:
    """Of another row, at a step's place."""
    change = step.change
    image = {
        **(change.before or {}),
        **(change.after or {}),
        **dict(zip(step.plan.target.key, key, strict=True)),
    }
    gone = RowChange(change.table, Op.DELETE, image, None, change.origin, change.row)
    return step._replace(change=gone, held=())


def _known(
    transaction: LoadTransaction, versions: TargetTable, keys: Sequence[Key]
) -> dict[Key, KnownRow]:
    """Without keys that the target's columns cannot hold: whoever writes such a row is told so."""
    if not keys:
        return {}
    try:
        with transaction.savepoint():
            return dict(zip(keys, transaction.row_versions(versions, keys), strict=True))
    except (DataError, TargetRejected):
        if len(keys) == 1:
            return {}
        middle = len(keys) // 2
        return {
            **_known(transaction, versions, keys[:middle]),
            **_known(transaction, versions, keys[middle:]),
        }
