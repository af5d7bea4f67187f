"""porterJson: the row JSON that porter writes with `oggJson=false`, read only.

A record has `schema`, `table`, `storeTime`, `opType`, `keys`, and `columns`, each with `name`,
`before`, `after` and flags that distinguish a missing image from NULL: NULL is an absent `before`
or `after` whose flag is not set. Columns that are not in the list are unknown. REPLACE is an
insert, as in oggJson.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cdcbus.plugins.converters.json_cells import are_names, cells, parsed, time_us
from cdcbus.plugins.converters.read_only import ReadOnly
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, Row, RowChange, Table, TableId

_OPS = {**Op.__members__, "REPLACE": Op.INSERT}
_WITHOUT_ROWS = {"BEGIN", "END"}


class PorterJson(ReadOnly):
    """The `porterJson` converter."""

    NAME = "porterJson"

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row as one change. Raises ConversionError."""
        try:
            return parsed(value, read)
        except ValueError as error:
            raise ConversionError("not a porterJson record: not JSON") from error


def read(message: Any) -> list[RowChange]:
    """The row of a parsed message. Raises ConversionError."""
    if not isinstance(message, dict) or not isinstance(message.get("opType"), str):
        raise ConversionError(
            "not a porterJson record: an object with the keys schema, table, opType and columns "
            "was expected"
        )
    word = message["opType"]
    if word in _WITHOUT_ROWS:
        return []
    if word not in _OPS:
        raise ConversionError(f"porterJson record with unknown opType {word!r}")
    op = _OPS[word]
    schema = message.get("schema")
    name = message.get("table")
    if not isinstance(schema, str) or not isinstance(name, str) or not name:
        raise ConversionError("porterJson record without schema and table")
    columns = message.get("columns") or []
    keys = message.get("keys") or []
    if not _has_names(columns) or not are_names(keys):
        raise ConversionError(
            f"porterJson record of {schema}.{name}: keys or columns are not as porter writes them"
        )
    origin = Origin(commit_us=time_us(message, "storeTime", 1000))
    names = tuple(column["name"] for column in columns)
    table = _table(TableId(schema, name), names, tuple(keys))
    if op is Op.TRUNCATE:
        return [RowChange(table, op, None, None, origin)]
    before: Row | None = _image(columns, "before")
    after: Row | None = _image(columns, "after")
    row = after
    if op is Op.INSERT:
        before = None
    elif op is Op.DELETE:
        row = before or after
        before = row
        after = None
    if not row:
        raise ConversionError(f"porterJson {word.lower()} of {schema}.{name} without columns")
    return [RowChange(table, op, before, after, origin)]


def _has_names(columns: Any) -> bool:
    if not isinstance(columns, list):
        return False
    for column in columns:
        if not isinstance(column, dict) or not isinstance(column.get("name"), str):
            return False
    return True


@lru_cache(maxsize=10_000)
def _table(name: TableId, columns: tuple[str, ...], key: tuple[str, ...]) -> Table:
    """One object per table and shape, as plans for a table are cached by its identity."""
    return Table(name, tuple(map(Column, columns)), key, is_described=False)


def _image(columns: list[dict[str, Any]], side: str) -> dict[str, Cell]:
    found = {}
    for column in columns:
        # With the flag the image lacks the column; without it an absent value is NULL.
        if column.get(f"{side}Missing") not in (True, "true"):
            found[column["name"]] = column.get(side)
    return cells(found)
