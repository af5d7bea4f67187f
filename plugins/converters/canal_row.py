"""canalRow: canal's flat JSON message, so that whatever reads canal-json reads ours.

One row per record when writing; any number when reading. All of canal's keys (`id` is always 0: there are no batches here), then ours:
`file`, `pos`, `row` (number in the transaction), `serverId`, `txLast`. Values are text, see `cdcbus.plugins.rowchange`. `old` holds the
changed columns' values before an UPDATE. The format: canal's `FlatMessage`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from cdcbus.plugins.converters.cells import cells, parsed
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId

# Canal's types that change no row.
_WITHOUT_ROWS = {"CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"}


class CanalRow:
    """The `canalRow` converter."""

    def to_bytes(self, change: RowChange) -> bytes:
        """One flat message with one row."""
        table, origin, is_ddl = change.table, change.origin, change.op is Op.TRUNCATE
        row = change.before if change.op is Op.DELETE else change.after
        message: dict[str, Any] = {
            "data": None if row is None else [row],
            "database": table.id.schema,
            "es": origin.commit_ms,
            "file": origin.file,
            "gtid": origin.gtid,
            "id": 0,
            "isDdl": is_ddl,
            "mysqlType": None if is_ddl else {column.name: column.mysql_type for column in table.columns},
            "old": [_changed(change.before, change.after)] if change.op is Op.UPDATE else None,
            "pkNames": list(table.key) if table.key and not is_ddl else None,
            "pos": origin.pos,
            "row": change.row,
            "serverId": origin.server_id,
            "sql": f"TRUNCATE TABLE `{table.id.table}`" if is_ddl else "",
            "sqlType": None if is_ddl else {column.name: column.sql_type for column in table.columns},
            "table": table.id.table,
            "ts": time.time_ns() // 1_000_000,
            "txLast": change.is_last,
            "type": change.op.value,
        }
        return orjson.dumps(message)

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The rows of a flat message, in order. Raises ConversionError."""
        try:
            return parsed(value, _read)
        except ValueError as error:
            raise ConversionError("not a canalRow record: not JSON") from error


def _read(message: Any) -> list[RowChange]:
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ConversionError("not a canalRow record: an object with the keys database, table, type and data was expected")
    kind = message["type"]
    if kind in _WITHOUT_ROWS or (message.get("isDdl") and kind != Op.TRUNCATE):
        return []
    if kind not in Op.__members__:
        raise ConversionError(f"canalRow record of unknown type {kind!r}")
    table = _table(message)
    origin = _origin(message)
    if kind == Op.TRUNCATE:
        return [RowChange(table, Op.TRUNCATE, None, None, origin)]
    return _changes(message, table, origin)


def _changed(before: Row | None, after: Row | None) -> dict[str, str | None]:
    """The before values of the columns that an UPDATE changed, or that only its before image holds."""
    before, after = before or {}, after or {}
    return {name: value for name, value in before.items() if name not in after or after[name] != value}


def _table(message: Mapping[str, Any]) -> Table:
    schema, name, key = message.get("database"), message.get("table"), message.get("pkNames") or []
    if not isinstance(schema, str) or not isinstance(name, str) or not name:
        raise ConversionError("canalRow record without database and table")
    try:
        if not isinstance(key, list):
            raise TypeError
        return _known_table(
            TableId(schema, name),
            tuple((message.get("mysqlType") or {}).items()),
            tuple((message.get("sqlType") or {}).items()),
            tuple(key),
        )
    except (AttributeError, TypeError) as error:
        raise ConversionError(f"canalRow record of {schema}.{name}: mysqlType, sqlType and pkNames are not as canal writes them") from error


@lru_cache(maxsize=10_000)
def _known_table(name: TableId, types: tuple[tuple[str, str], ...], sql_types: tuple[tuple[str, int], ...], key: tuple[str, ...]) -> Table:
    """One object per table and shape: what is planned for a table is kept by it."""
    numbers = dict(sql_types)
    return Table(name, tuple(Column(column, mysql_type, numbers.get(column, 12)) for column, mysql_type in types), key)


def _origin(message: Mapping[str, Any]) -> Origin:
    return Origin(
        file=message.get("file") or "",
        pos=message.get("pos") or 0,
        gtid=message.get("gtid") or "",
        server_id=message.get("serverId") or 0,
        commit_ms=message.get("es") or 0,
    )


def _pairs(old: object, data: list[Any]) -> bool:
    return isinstance(old, list) and len(old) == len(data) and all(fields is None or isinstance(fields, dict) for fields in old)


def _changes(message: Mapping[str, Any], table: Table, origin: Origin) -> list[RowChange]:
    op = Op[message["type"]]
    data, old = message.get("data"), message.get("old")
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise ConversionError(f"canalRow record of {table.id}: data is not a list of rows")
    if op is Op.UPDATE and old is not None and not _pairs(old, data):
        raise ConversionError(f"canalRow record of {table.id}: old does not pair with data")
    first, last = message.get("row") or 0, bool(message.get("txLast"))
    changes = []
    for i, fields in enumerate(data):
        row = cells(fields)
        before, after = None, None
        if op is Op.DELETE:
            before = row
        else:
            after = row
        if op is Op.UPDATE:
            before = {} if old is None else {**row, **cells(old[i] or {})}
        changes.append(RowChange(table, op, before, after, origin, first + i, last and i == len(data) - 1))
    return changes
