"""The newest change of a row that has changes in several Kafka partitions, which are applied each
for itself.

The target keeps the version of such a row beside it, in the rows' own transaction, and of a deleted
one as well: an older change that comes later is left out. So whichever partition is ahead, and
however often a part comes again, the row ends as the source has left it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdcbus.consumer.apply.writer import count_superseded
from cdcbus.consumer.merge.mapped_change import Key, MappedChange
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.plugins.contracts import (
    VERSION,
    LoadTransaction,
    RowVersion,
    TableBatch,
    TargetTable,
    Writes,
)
from cdcbus.plugins.errors import DataError, RowConflict, TargetRejected
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


def newest(
    transaction: LoadTransaction,
    steps: Sequence[MappedChange],
    versions: Mapping[TableId, TargetTable],
    coarse: frozenset[TableId],
    report: BatchReport,
) -> list[MappedChange]:
    """The steps without those that are older than what the target holds of their rows; they are
    counted superseded. To be called once in a transaction that is not undone. `versions`: the
    tables that have a version table, and that; `coarse`: those whose keys take texts for one.
    Raises TargetError."""
    transaction.may_be_freed(versions.keys())
    by_table: dict[TableId, list[MappedChange]] = {}
    kept: list[MappedChange] = []
    for step in steps:
        if step.plan.target.id in versions:
            by_table.setdefault(step.plan.target.id, []).extend(step.parts())
        else:
            kept.append(step)
    # as other lanes do, so that none waits for one that waits for it
    for table in sorted(by_table):
        found = _newest_of(
            transaction, by_table[table], versions[table], report, is_coarse=table in coarse
        )
        # Without this an update that is ahead of its insert would miss, and the insert be too old.
        kept += [step._replace(stands_for_row=True) for step in found]
    return sorted(kept, key=lambda step: step.offset)  # which keeps the order within a record


def _newest_of(
    transaction: LoadTransaction,
    steps: Sequence[MappedChange],
    versions: TargetTable,
    report: BatchReport,
    *,
    is_coarse: bool,
) -> list[MappedChange]:
    keys = sorted(
        {step.keys[0] for step in steps if len(step.keys) == 1 and None not in step.keys[0]},
        key=str,
    )
    known = _known(transaction, versions, keys)
    now: dict[str, RowVersion] = {}
    held: dict[str, Key] = {}
    brought: dict[str, Key] = {}
    kept: list[MappedChange] = []
    for step in steps:
        if len(step.keys) != 1 or (key := step.keys[0]) not in known:
            kept.append(step)
            continue
        row, stored = known[key]
        version = version_of(step)
        if is_older(version, now.get(row, stored)):
            count_superseded(report, step, step.changes)
            continue
        now[row], held[row] = version, key
        if step.change.op is Op.INSERT:
            brought[row] = key
        elif step.change.op is Op.DELETE:
            brought.pop(row, None)
        kept.append(step)
    if now:
        rows = [
            (*held[row], str(version.came_ms), version.place or "-") for row, version in now.items()
        ]
        transaction.write(
            TableBatch(versions, writes=[Writes((*versions.key, *VERSION), rows)], respells=True)
        )
    if is_coarse and brought:
        _rename(transaction, steps[0].plan.target, [*brought.values()])
    return kept


def _known(
    transaction: LoadTransaction, versions: TargetTable, keys: Sequence[Key]
) -> dict[Key, tuple[str, RowVersion]]:
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


def _rename(transaction: LoadTransaction, table: TargetTable, keys: Sequence[Key]) -> None:
    """Rows that are there under other texts of these keys, whose deletes are older and still to
    come: an upsert would leave the text."""
    try:
        with transaction.savepoint():
            renamed = [Writes(table.key, keys, may_insert=False)]
            transaction.write(TableBatch(table, writes=renamed, respells=True))
    except RowConflict:
        return  # other rows name them by the text that they have
