"""oggJson: Oracle GoldenGate's JSON, as porter and other GoldenGate readers expect it.

Written: `table`, `op_type` (I, U, D, T), `op_ts` and `current_ts` (UTC, 24-hour, microseconds), `pos` (20 digits: binlog file number and
place), `primary_keys`, `before`, `after`; SQL NULL is JSON null. An insert has no `before`, a delete no `after`. Read as well: porter's
long words for op_type, numbers as values, `<COLUMN>_isMissing` flags, images that hold only some columns, no primary_keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import orjson

from cdcbus.plugins.converters.cells import cells, parsed
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, RowChange, Table, TableId

_LETTERS = {Op.INSERT: "I", Op.UPDATE: "U", Op.DELETE: "D", Op.TRUNCATE: "T"}
_OPS = {letter: op for op, letter in _LETTERS.items()} | {op.value: op for op in Op} | {"REPLACE": Op.UPDATE}
_WITHOUT_ROWS = {"BEGIN", "END"}
_MISSING_FLAG = "_isMissing"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OggJson:
    """The `oggJson` converter."""

    def to_bytes(self, change: RowChange) -> bytes:
        """One GoldenGate operation."""
        message: dict[str, Any] = {
            "table": str(change.table.id),
            "op_type": _LETTERS[change.op],
            "op_ts": _utc(_EPOCH + timedelta(milliseconds=change.origin.commit_ms)).replace("T", " "),
            "current_ts": _utc(datetime.now(UTC)),
            "pos": _pos(change.origin),
            "primary_keys": list(change.table.key),
        }
        if change.before is not None:
            message["before"] = change.before
        if change.after is not None:
            message["after"] = change.after
        return orjson.dumps(message)

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The operation as one row change. Raises ConversionError."""
        try:
            return parsed(value, _changes)
        except ValueError as error:
            raise ConversionError("not an oggJson record: not JSON") from error


def _changes(message: Any) -> list[RowChange]:
    if not isinstance(message, dict):
        raise ConversionError("not an oggJson record: an object with the keys table and op_type was expected")
    word = message.get("op_type")
    if not isinstance(word, str) or (word not in _OPS and word not in _WITHOUT_ROWS):
        raise ConversionError(f"oggJson record with unknown op_type {word!r}")
    if word in _WITHOUT_ROWS:
        return []
    before, after = _image(message, "before"), _image(message, "after")
    table = _table(message, {**(before or {}), **(after or {})})
    return [_change(table, _OPS[word], before, after, Origin(commit_ms=_commit_ms(message)))]


def _change(table: Table, op: Op, before: dict[str, Cell] | None, after: dict[str, Cell] | None, origin: Origin) -> RowChange:
    if op is Op.TRUNCATE:
        return RowChange(table, op, None, None, origin)
    if op is Op.DELETE:
        row = before or after  # porter writes both, GoldenGate only before
        if not row:
            raise ConversionError(f"oggJson delete of {table.id} without columns")
        return RowChange(table, op, row, None, origin)
    if not after:
        raise ConversionError(f"oggJson {op.value.lower()} of {table.id} without after")
    return RowChange(table, op, (before or {}) if op is Op.UPDATE else None, after, origin)


def _image(message: Mapping[str, Any], key: str) -> dict[str, Cell] | None:
    fields = message.get(key)
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise ConversionError(f"oggJson record: {key} is not an object")
    flags = {name for name in fields if _is_flag(name, fields)}
    missing = {name.removesuffix(_MISSING_FLAG) for name in flags if fields[name] in (True, "true")}
    return cells({name: value for name, value in fields.items() if name not in flags and name not in missing})


def _is_flag(name: str, fields: Mapping[str, Any]) -> bool:
    """Whether it is GoldenGate's mark beside a column (or in place of it), not a column of such a name."""
    if not name.endswith(_MISSING_FLAG):
        return False
    return isinstance(fields[name], bool) or (fields[name] in ("true", "false") and name.removesuffix(_MISSING_FLAG) in fields)


def _table(message: Mapping[str, Any], columns: Mapping[str, Cell]) -> Table:
    *schema, name = str(message.get("table") or "").split(".")
    keys = message.get("primary_keys") or []
    if not schema or not name or not isinstance(keys, list):
        raise ConversionError(f"oggJson record: table is {message.get('table')!r}, SCHEMA.TABLE was expected")
    return _known_table(TableId(schema[-1], name), tuple(columns), tuple(map(str, keys)))


@lru_cache(maxsize=10_000)
def _known_table(name: TableId, columns: tuple[str, ...], key: tuple[str, ...]) -> Table:
    """One object per table and shape: what is planned for a table is kept by it."""
    return Table(name, tuple(map(Column, columns)), key)


def _utc(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%f")


def _pos(origin: Origin) -> str:
    number = origin.file.rpartition(".")[2]
    return f"{int(number) if number.isdigit() else 0:010d}{origin.pos:010d}"


def _commit_ms(message: Mapping[str, Any]) -> int:
    """op_ts with 0 to 9 fraction digits, taken as UTC; 0 when it is absent or in no such form."""
    text = str(message.get("op_ts") or "")[:26]
    try:
        return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        return 0
