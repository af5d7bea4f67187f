"""Checks that a plug-in keeps its contract, for the tests of its author. They need no test
framework and no server of ours; each raises AssertionError, which says what is broken.

    from cdcbus.testing import check_source

    def test_it_keeps_the_contract(tmp_path):
        check_source(lambda: MySource({"folder": str(tmp_path)}), "earliest")
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa

from cdcbus.ops.alarms.added_channels import AlarmChannel
from cdcbus.ops.alarms.channels import Message, NotAccepted, Receiver
from cdcbus.plugins.added.sources import RecordSource, SourcePlace, SourceRows
from cdcbus.plugins.contracts import (
    AppliedOffset,
    ColumnarConverter,
    Converter,
    Loader,
    Moves,
    TableBatch,
    TargetTable,
    Writes,
)
from cdcbus.plugins.converters.columnar import RowGroup
from cdcbus.plugins.errors import ConversionError, OffsetConflict, RowConflict
from cdcbus.plugins.rowchange import Cell, Row, RowChange, TableId

READS = 1000
QUIET_SECONDS = 10.0
"""How long a source may be silent; the contract says 1, but machines are busy."""

__all__ = ["check_channel", "check_converter", "check_loader", "check_source"]


def check_converter(converter: Converter, changes: Sequence[RowChange]) -> None:
    """Checks a format: it reads what it writes of these changes, many at a time as one by one, and
    refuses what it cannot read."""
    values = list(map(converter.to_bytes, changes))
    read = list(map(converter.from_bytes, values))
    for change, found in zip(changes, read, strict=True):
        assert len(found) == 1, f"{change} came back as {len(found)} changes"
        assert _facts(found[0]) == _facts(change), f"{change} came back as {found[0]}"
    # No format has records like these.
    for junk in (b"\xff\xfe", b"?"):
        try:
            found = converter.from_bytes(junk)
        except ConversionError:
            continue
        except Exception as error:
            raise AssertionError(f"{junk!r} raised {error!r}; expected ConversionError") from error
        raise AssertionError(f"{junk!r}, which is no record, was read as {found}")
    if isinstance(converter, ColumnarConverter):
        _check_columns(converter, values)


def _check_columns(converter: ColumnarConverter, values: Sequence[bytes]) -> None:
    """The same for many at a time, also where records are mixed with None and junk."""
    several: list[bytes | None] = [*values, None, b"\xff\xfe", b"?", *reversed(values)]
    columns = converter.read_columns(pa.array(several, pa.binary()))
    seen = [*columns.rest]
    for group in columns.groups:
        for record, facts in zip(group.records.to_pylist(), _rows(group), strict=True):
            seen.append(record)
            value = several[record]
            assert value is not None, f"record {record} has no value, and was read"
            [change] = converter.from_bytes(value)
            assert facts == _facts(change), f"columns have {facts}, from_bytes {change}"
    assert sorted(seen) == list(range(len(several))), "a record is lost, or comes twice"


def _facts(change: RowChange) -> tuple[Any, ...]:
    """What a reader of rows relies on. Whether an update has its row before depends on the
    format."""
    before = None
    if change.after is None:
        before = change.before
    return change.table.id, change.op, _cells(before), _cells(change.after)


def _cells(row: Row | None) -> dict[str, Cell] | None:
    if row is None:
        return None
    return dict(row)


def _rows(group: RowGroup) -> list[tuple[Any, ...]]:
    rows = []
    before = None
    if group.after is None:
        before = group.before
    for number in range(len(group.records)):
        images = (_cells_at(number, before), _cells_at(number, group.after))
        rows.append((group.table.id, group.op, *images))
    return rows


def _cells_at(number: int, columns: Mapping[str, Any] | None) -> dict[str, Cell] | None:
    """One row's cells."""
    if columns is None:
        return None
    return {name: column[number].as_py() for name, column in columns.items()}


def check_source(make: Callable[[], RecordSource], word: str) -> None:
    """Checks a source that has some rows after the place that `word` stands for, and gets no more
    while this runs. `make` makes a new one, as a start of its task does."""
    # A source that was never started can be closed.
    make().close()
    source = make()
    start = source.start(word)
    source.check(start)
    # Places are stored as text, and come back through `start`.
    assert source.start(str(start)) == start, f"it does not know its own place {start}"
    rows, places = _read(source, start)
    assert rows, f"there is no row after {start}"
    assert places, "there is no place after the rows, so they come again forever"
    # Closing twice does no harm.
    source.close()
    source.close()
    # A start from any place gives exactly the rows after it.
    for place, count in ((start, 0), *places):
        again = make()
        again.check(place)
        assert again.start(str(place)) == place, f"it does not know its own place {place}"
        found, _ = _read(again, place)
        assert found == rows[count:], f"after {place} there are other rows than before"
        again.close()


def _read(
    source: RecordSource, start: SourcePlace
) -> tuple[list[RowChange], list[tuple[SourcePlace, int]]]:
    """All rows, until there is nothing new; and places, each with the number of rows before it."""
    rows: list[RowChange] = []
    places: list[tuple[SourcePlace, int]] = []
    asked = time.monotonic()
    # Limits what is read of a source that never becomes quiet.
    for found in islice(source.read(start), READS):
        seconds = time.monotonic() - asked
        assert seconds < QUIET_SECONDS, f"nothing for {seconds:.0f} s: it cannot be stopped"
        assert isinstance(found, SourceRows), f"{found!r} is not a SourceRows"
        rows += found.changes
        if found.place is not None:
            places.append((found.place, len(rows)))
        elif not found.changes:
            # Nothing new: the source is quiet.
            break
        asked = time.monotonic()
    return rows, places


def check_loader(make: Callable[[], Loader], name: TableId) -> None:
    """Checks a loader. The table is empty, and has two columns of text: `id`, its key, and `v`."""
    loader = make()
    table = loader.table(name)
    assert table is not None, f"there is no table {name}"
    assert table.key == ("id",), f"its key is {table.key}; expected id"
    assert set(table.columns) == {"id", "v"}
    assert loader.table(TableId(name.schema, "there_is_no_such_table")) is None
    offsets = loader.fence()
    assert offsets is not None and not offsets, "it keeps no offsets, or has some already"
    _check_rows(loader, table)
    _check_offsets(make, loader, table)
    loader.close()
    loader.close()


def _put(loader: Loader, table: TargetTable, *rows: tuple[Cell, ...], **how: Any) -> Any:
    with loader.transaction() as transaction:
        return transaction.write(TableBatch(table, writes=[Writes(("id", "v"), rows, **how)]))


def _check_rows(loader: Loader, table: TargetTable) -> None:
    rows: tuple[tuple[Cell, ...], ...] = (("1", "a"), ("2", None), ("3", "'\"\\%s"))
    for _ in range(2):  # a batch that comes twice changes nothing
        assert _put(loader, table, *rows).written == 3
    counts = _put(loader, table, ("9", "x"), may_insert=False)
    assert (counts.written, counts.missed) == (0, 1), "an update inserted its row"
    with loader.transaction() as transaction:
        counts = transaction.write(TableBatch(table, deletes=[("1",), ("8",)]))
        assert (counts.deleted, counts.missed) == (1, 1), f"deletes of one existing row: {counts}"
        try:
            with transaction.savepoint():
                transaction.write(TableBatch(table, deletes=[("2",)]))
                raise _Undone
        except _Undone:
            pass
        counts = transaction.write(TableBatch(table, deletes=[("2",)]))
        assert counts.deleted == 1, "a savepoint did not undo a delete"
    if table.can_move:
        _check_moves(loader, table)
    try:
        with loader.transaction() as transaction:
            transaction.write(TableBatch(table, truncate=True))
            raise _Undone
    except _Undone:
        pass
    with loader.transaction() as transaction:
        counts = transaction.write(TableBatch(table, deletes=[("3",)]))
        assert counts.deleted == 1, "a transaction that raised was not undone"


def _check_moves(loader: Loader, table: TargetTable) -> None:
    _put(loader, table, ("6", "kept"))
    with loader.transaction() as transaction:
        moves = Moves([(("6",), ("7",)), (("8",), ("9",))], may_repeat=True)
        counts = transaction.write(TableBatch(table, moves=moves))
        assert (counts.deleted, counts.missed) == (0, 0), f"a move of one existing row: {counts}"
        counts = transaction.write(TableBatch(table, deletes=[("6",), ("7",), ("9",)]))
        assert counts.deleted == 1, "a row did not get its new key"


class _Undone(Exception):
    pass


def _check_offsets(make: Callable[[], Loader], loader: Loader, table: TargetTable) -> None:
    first = AppliedOffset("topic", 0, 10, 7)
    with loader.transaction() as transaction:
        transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("5", "e")])]))
        transaction.store_offset(first, None)
    # A loader of its own stands for another process.
    assert make().applied_offsets() == [first], "another process does not see the offset"
    later = replace(first, next_offset=20)
    try:
        with loader.transaction() as transaction:
            transaction.store_offset(later, first)
            raise _Undone
    except _Undone:
        pass
    assert loader.applied_offsets() == [first], "the offset of a transaction that raised was kept"
    _refuses(loader, table, later, None, "one that has seen no offset")
    # A take-over: from here on the first loader is the process that was replaced.
    [fenced] = make().fence() or [first]
    assert fenced.epoch > first.epoch, "fence began no new epoch"
    _refuses(loader, table, later, first, "one of an earlier epoch")
    with loader.transaction() as transaction:
        transaction.store_offset(replace(later, epoch=fenced.epoch), fenced)
    assert [each.next_offset for each in loader.applied_offsets()] == [20]


def _refuses(
    loader: Loader, table: TargetTable, offset: AppliedOffset, seen: AppliedOffset | None, who: str
) -> None:
    try:
        with loader.transaction() as transaction:
            transaction.write(TableBatch(table, deletes=[("5",)]))
            transaction.store_offset(offset, seen)
    except (OffsetConflict, RowConflict):
        pass
    else:
        raise AssertionError(f"{who} committed: rows would be applied twice, or lost")
    with loader.transaction() as transaction:
        counts = transaction.write(
            TableBatch(table, writes=[Writes(("id", "v"), [("5", "e")], may_insert=False)])
        )
        assert counts.missed == 0, f"rows of {who} were written nevertheless"


def check_channel(channel: AlarmChannel) -> None:
    """Checks an alarm channel that can reach its people: with a message that has every part, and
    one without receivers."""
    fields = {"task": "7", "rule": "error", "sentence": "no topic t", "severity": "critical"}
    # A comma and letters beyond ASCII are traps of mail headers.
    people = (Receiver("李雷, owner", "owner@example.com"), Receiver("on call", phone="+49 30 1"))
    for receivers in (people, ()):
        try:
            said = channel.send(Message("task 7: error: no topic t", fields, receivers))
        except NotAccepted as refusal:
            raise AssertionError(f"it refuses a message: {refusal}") from refusal
        assert said is None or isinstance(said, str), f"it returned {said!r}"
