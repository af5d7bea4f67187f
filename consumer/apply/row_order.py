"""Keeps the newest change of a row that has changes in several Kafka partitions, each of which is
applied on its own.

The target keeps the version of such a row, even of a deleted one, and writes it in the row's own
transaction; an older change that comes later is left out. So whichever partition is ahead, and
however often a part comes again, the row ends as the source left it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from cdcbus.consumer.apply.writer import count_superseded
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.merge.whole_row import Key
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
from cdcbus.plugins.errors import DataError, RowConflict, TargetRejected, TargetUnavailable
from cdcbus.plugins.loaders.cells.equal_keys import respelled, texts_of
from cdcbus.plugins.rowchange import Op, RowChange, TableId

NEAR_MS = 10_000
TIME = slice(13)
"""The commit time at the beginning of a place, before file, position and row."""


def version_of(step: MappedChange) -> RowVersion:
    """The version of a row that a change makes."""
    return RowVersion(step.came_ms, place_of(step.change))


def place_of(change: RowChange) -> str:
    """A change's place in the binlog, as text that sorts; empty where it is unknown. Where a change
    of the key became a delete and an insert, the delete sorts first."""
    origin, row = change.origin, change.row
    number = origin.file.rpartition(".")[2]
    if not number.isdigit() or not origin.pos:
        return ""
    is_there = change.op is not Op.DELETE
    return f"{origin.commit_ms:013d}{int(number):010d}{origin.pos:020d}{row:010d}{is_there:d}"


def source_place(change: RowChange) -> str:
    """A change's place without the commit time, by which changes of one binlog sort; empty where it
    is unknown."""
    return place_of(change)[TIME.stop :]


def is_older(one: RowVersion, other: RowVersion) -> bool:
    """Whether one change was made before another. Where that is undecidable, the one that arrives
    later counts as newer.

    The place in the binlog decides where the source's clock agrees with it. Where they disagree,
    the changes may be of two servers, or of a binlog that was reset: then the times of arrival in
    Kafka decide if they are more than NEAR_MS apart. If not, the place decides: the clock was
    inexact, as it gives the time when a statement began.
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
"""Whether any partition is known to delete a step's row between two places in the source."""


_Numbered = tuple[int, MappedChange]
"""A step, or a part of it, with the step's place among all."""


class Overtaken(NamedTuple):
    """A step that writes a row although the target holds a newer change, of version `by`, of
    another row whose key is equal there: so the partition must have a later delete of the step's
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
    """Returns the steps without those older than the versions that the target holds of their rows,
    and the overtaken ones. The others left out are counted as superseded. Must be called once in a
    transaction that is not undone. `versions`: the version table of each table that has one. Raises
    TargetError."""
    transaction.may_be_freed(versions.keys())
    by_table: dict[TableId, list[_Numbered]] = {}
    kept: list[_Numbered] = []
    overtaken: list[Overtaken] = []
    for number, step in enumerate(steps):
        if step.plan.target.id in versions:
            parts = zip(repeat(number), step.parts(), strict=False)
            by_table.setdefault(step.plan.target.id, []).extend(parts)
        else:
            kept.append((number, step))
    # All partitions lock tables in this order, so that no two of them deadlock.
    for table in sorted(by_table):
        found, left = _newest_of(transaction, by_table[table], versions[table], report, is_deleted)
        overtaken += left
        # Otherwise an update that comes before its insert would match no row, and the insert would
        # then be too old.
        kept += [(number, step._replace(stands_for_row=True)) for number, step in found]
    # Steps of several tables can be of one record.
    kept.sort(key=lambda numbered: (numbered[1].offset, numbered[0]))
    return [step for _, step in kept], sorted(overtaken, key=lambda each: each.step.offset)


def _newest_of(
    transaction: LoadTransaction,
    numbered: Sequence[_Numbered],
    versions: TargetTable,
    report: BatchReport,
    is_deleted: IsDeleted,
) -> tuple[list[_Numbered], list[Overtaken]]:
    """Does the same for the steps of one table.

    Rows whose keys are equal at the target each stay in one partition, which therefore holds the
    row's own delete as well: that makes the overtaken changes before it obsolete. A delete matches
    its own row only, so it is never too late, nor too early: where another partition still holds
    one, it is applied along with the row that needs it."""
    known = _known(transaction, versions, _keys_of([step for _, step in numbered]))
    texts = texts_of(numbered[0][1].plan.target)
    # The target's row -> the newest of its changes among the steps.
    now: dict[str, tuple[RowVersion, Key]] = {}
    overtaken: dict[Key, list[Overtaken]] = {}
    kept: list[_Numbered] = []
    for number, step in numbered:
        keys = step.keys
        if len(keys) != 1 or keys[0] not in known:
            kept.append((number, step))
            continue
        [key] = keys
        row, stored, spelled = known[key]
        if row in now:
            stored, newest_key = now[row]
            spelled = texts(newest_key)
        version = version_of(step)
        is_delete = step.change.op is Op.DELETE
        # Whether the stored version is that of another source row with an equal key.
        is_of_other = stored != RowVersion() and texts(key) != spelled
        if is_delete:
            for each in overtaken.pop(key, ()):
                count_superseded(report, each.step, each.step.changes)
        if not is_older(version, stored):
            if is_of_other and not is_delete and is_there(stored):
                # The other row makes room only if it is deleted between the two changes.
                other = _delete_of(step, respelled(step.plan.target, key, spelled))
                after = stored.place[TIME.stop :]
                before = version.place[TIME.stop :]
                if is_deleted(other, after, before):
                    kept.append((number, other))
            now[row] = version, key
            kept.append((number, step))
        elif not is_of_other:
            count_superseded(report, step, step.changes)
        elif is_delete:
            kept.append((number, step))
        else:
            overtaken.setdefault(key, []).append(Overtaken(step, stored))
    if now:
        _write_versions(transaction, versions, now, known, texts)
    return kept, list(chain.from_iterable(overtaken.values()))


def _write_versions(
    transaction: LoadTransaction,
    versions: TargetTable,
    now: Mapping[str, tuple[RowVersion, Key]],
    known: Mapping[Key, KnownRow],
    texts: Callable[[Key], Key],
) -> None:
    """Writes the newest change of each row, and the key's texts where it has brought new ones."""
    known_texts = {each.row: each.texts for each in known.values()}
    rows: list[Key] = []
    renamed: list[Key] = []
    for row, (version, key) in now.items():
        rows.append((*key, str(version.came_ms), version.place or "-"))
        if known_texts[row] != texts(key):
            renamed.append(key)
    written = Writes((*versions.key, *VERSION), rows)
    transaction.write(TableBatch(versions, writes=[written], respells=True))
    # The write above leaves the text of an existing key as it is.
    if renamed:
        respelling = Writes(versions.key, renamed, may_insert=False)
        transaction.write(TableBatch(versions, writes=[respelling], respells=True))


def _keys_of(steps: Sequence[MappedChange]) -> list[Key]:
    """The keys of the rows that steps change, in an order that all partitions share; without those
    of steps that change several rows, and without NULLs."""
    found = set[Key]()
    for step in steps:
        keys = step.keys
        if len(keys) == 1 and None not in keys[0]:
            found.add(keys[0])
    return sorted(found, key=str)


def is_there(version: RowVersion) -> bool:
    """Whether the change is known to have left its row in place, and not to have deleted it."""
    return version.place.endswith("1")


def _delete_of(step: MappedChange, key: Key) -> MappedChange:
    """A delete of the row with this key, at a step's place."""
    change = step.change
    image = {
        **(change.before or {}),
        **(change.after or {}),
        **dict(zip(step.plan.target.key, key, strict=True)),
    }
    delete = RowChange(change.table, Op.DELETE, image, None, change.origin, change.row)
    return step._replace(change=delete, held=())


def _known(
    transaction: LoadTransaction,
    versions: TargetTable,
    keys: Sequence[Key],
    *,
    is_again: bool = False,
) -> dict[Key, KnownRow]:
    """The target's versions of the rows with these keys. Keys that its columns cannot hold are left
    out: writing such a row will report that. Raises TargetUnavailable where other transactions
    insert them again and again."""
    if not keys:
        return {}
    try:
        with transaction.savepoint():
            return dict(zip(keys, transaction.row_versions(versions, keys), strict=True))
    except RowConflict as error:
        # Oracle's MERGE waits for another transaction that inserts the same key, and then refuses
        # it instead of finding it. A new statement finds it.
        if not is_again:
            return _known(transaction, versions, keys, is_again=True)
        if len(keys) == 1:
            raise TargetUnavailable(
                f"another transaction adds the same row to table {versions.id}: {error}"
            ) from error
    except (DataError, TargetRejected):
        if len(keys) == 1:
            return {}
    middle = len(keys) // 2
    return {
        **_known(transaction, versions, keys[:middle]),
        **_known(transaction, versions, keys[middle:]),
    }
