"""Makes a record's key, which decides its partition: porter's text of the key columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from cdcbus.plugins.errors import ConfigError, UnreadableEvent
from cdcbus.plugins.kafka.config import KeyRule, PublishConfig
from cdcbus.plugins.rowchange import Op, Row, RowChange, Table

Record = dict[str, Any]
"""`key` and `value` of a record to send, as bytes; optional `headers`, and `on_delivery` for a
record whose failure must be handled."""
NEW_KEY = "cdcbus-new-key"
OLD_KEY = "cdcbus-old-key"
"""Headers of a delete and an insert made from one update: each has the record key of the other."""
SNAPSHOT = {"cdcbus-snapshot": b"1"}
"""The header of a snapshot's records in formats that have no such mark of their own."""


class ByTable(tuple[str, ...]):
    """A key without columns: always `text`, so that all rows of the table are in one partition."""

    text: bytes

    def __new__(cls, text: str) -> ByTable:
        made = super().__new__(cls)
        made.text = text.encode()
        return made


def key_columns(table: Table, config: PublishConfig) -> tuple[str, ...]:
    """The columns whose values make the record key, in order of their upper-case names as in
    porter; the primary key unless `partitionKey` or `partitionHash` says otherwise. Raises
    ConfigError for a name that the table does not have."""
    rule = _rule(table, config)
    if rule is not None and rule.is_by_table:
        return ByTable(table.id.table)
    if rule is None or not rule.columns:
        return tuple(sorted(table.key, key=str.upper))
    wanted = rule.columns
    names = {name.upper(): name for name in table.names}
    unknown = [name for name in wanted if name.upper() not in names]
    if unknown:
        # A rule without a regular expression names the table in its setting.
        which = f"the table {table.id}" if rule.regex else "the table"
        raise ConfigError(
            f"{rule.setting}: {which} has no column {', '.join(unknown)}; it has "
            f"{', '.join(names.values())}"
        )
    return tuple(names[name] for name in sorted(map(str.upper, wanted)))


def _rule(table: Table, config: PublishConfig) -> KeyRule | None:
    exact = config.partition_keys.get(str(table.id).upper())
    if exact is not None:
        return KeyRule("", exact, setting=f"loader.source.partitionKey.{table.id}")
    for rule in config.key_rules:
        if re.fullmatch(rule.regex, str(table.id), re.IGNORECASE):
            return rule
    return None


def key_text(change: RowChange, columns: tuple[str, ...]) -> bytes:
    """porter's record key: each value followed by `_`, columns in order of name; NULL is `null`.
    Empty for a table without key columns. Raises UnreadableEvent if the row images lack one of
    them."""
    if isinstance(columns, ByTable):
        return columns.text
    # the after image of an update may lack the key
    row: Row = {**(change.before or {}), **(change.after or {})}
    text = ""
    for name in columns:
        value = row.get(name)
        if value is None:
            if name not in row and change.op is not Op.TRUNCATE:
                raise _lacking_key(change, columns, row)
            value = "null"
        text += f"{value}_"
    return text.encode()


def _lacking_key(change: RowChange, columns: tuple[str, ...], row: Row) -> UnreadableEvent:
    lacking = ", ".join(name for name in columns if name not in row)
    return _partial(change, f"the record key needs column {lacking}, which the row image lacks")


def marked_pair(records: list[Record]) -> list[Record]:
    """Returns the records of one row change; the two records of a key change get headers that refer
    to each other."""
    if len(records) == 2:
        delete, insert = records
        delete["headers"] = {NEW_KEY: insert["key"]}
        insert["headers"] = {OLD_KEY: delete["key"]}
    return records


def split_key_change(change: RowChange, partition_key: tuple[str, ...]) -> Iterator[RowChange]:
    """Yields the change itself; or, for an update that changes primary key or partition key, a
    delete of the old row and an insert of the new one, so that each key's history stays in one
    partition. Raises UnreadableEvent if the row images do not hold the whole new row, and if a
    column of the partition key was not logged before: the row may come from another partition."""
    before = change.before
    after = change.after
    if change.op is not Op.UPDATE or before is None or after is None:
        yield change
        return
    # Without any cell the row before is not known, as some formats do not hold it.
    if before and change.table.is_described and not before.keys() >= set(partition_key):
        raise _lacking_key(change, partition_key, before)
    if not _differ(before, after, (*change.table.key, *partition_key)):
        yield change
        return
    whole: Row = {**before, **after}
    lacking = change.table.lacking(whole)
    if lacking:
        raise not_whole(change, lacking)
    yield replace(change, op=Op.DELETE, after=None, is_last=False)
    yield replace(change, op=Op.INSERT, before=None, after=whole)


def not_whole(change: RowChange, lacking: Sequence[str]) -> UnreadableEvent:
    """A change of the key that lacks these columns."""
    return _partial(
        change,
        f"a row's key changes, and its images lack column {', '.join(lacking)}: it cannot be sent "
        "whole",
    )


def _differ(before: Row, after: Row, names: tuple[str, ...]) -> bool:
    """Whether one of the columns that both images hold has changed."""
    for name in names:
        is_in_both = name in before and name in after
        if is_in_both and before[name] != after[name]:
            return True
    return False


def _partial(change: RowChange, what: str) -> UnreadableEvent:
    origin = change.origin
    if not origin.file:
        return UnreadableEvent(f"table {change.table.id}: {what}")
    return UnreadableEvent(
        f"{origin.file}:{origin.pos}: table {change.table.id}: {what}. Set binlog_row_image=FULL "
        "at the source"
    )
