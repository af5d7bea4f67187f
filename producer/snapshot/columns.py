"""Selects a table's columns so that its rows read as they would in the binlog. Pure.

A row becomes a row image whose cells are the bytes that the server sends: types that the binlog
holds in another form (numbers, times, labels) are the server's text, characters stay in the
column's character set and go through the same decoder, and floats are converted back to their
binary form. So the same code makes texts and records of both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.mysql.sql_types import GEOMETRIES
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.producer.ddl.table_schema import (
    TableColumn,
    TableSchema,
    character_bytes,
)
from cdcbus.producer.ddl.type_names import labels_in
from cdcbus.producer.decoding.column_types import (
    BINARY,
    BOOL,
    OWN_TYPES,
    VECTOR,
    BinlogColumn,
    reader,
)
from cdcbus.producer.decoding.sql_types import type_names
from cdcbus.producer.decoding.table import DecodableTable
from cdcbus.producer.decoding.table_map import TableMap
from cdcbus.producer.schema.completion import completed
from cdcbus.producer.snapshot.chunks import (
    Bound,
    Key,
    KeyColumn,
    KeyKind,
    literal,
    named,
    quoted,
    with_history,
)
from cdcbus.producer.snapshot.packets import cells


class CellForm(IntEnum):
    """The form in a row image of a cell that the server sends as text."""

    TEXT = 0  # its length in four bytes, then its bytes
    FLOAT = 1  # four bytes
    DOUBLE = 2  # eight bytes


Shape = tuple[tuple[str, ...], tuple[Column, ...], tuple[BinlogColumn, ...], Key | None]
"""The expressions, columns, forms of cells and paging key of a table: what its rows and the bounds
between them depend on."""


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """`expressions` are selected; the first of them give the images of the `table`'s rows, by
    `forms`. `key`: the key by which the table is paged, None if none is suitable; `key_columns`:
    the numbers of its columns in the table; `bound_cells`: the numbers of the expressions whose
    values become literals. `has_history`: former rows are read, too."""

    table: DecodableTable
    expressions: tuple[str, ...]
    forms: tuple[CellForm, ...]
    key: Key | None
    key_columns: tuple[int, ...]
    bound_cells: tuple[int, ...]
    has_history: bool = False

    @property
    def name(self) -> str:
        """What rows are read from, in SQL."""
        name = named(self.table.table.id)
        return with_history(name) if self.has_history else name

    @property
    def shape(self) -> Shape:
        """Equal for a table that was not altered in between."""
        return self.expressions, self.table.table.columns, self.table.columns, self.key

    @property
    def shape_digest(self) -> str:
        """Of `shape`; the same in every process."""
        return hashlib.sha256(repr(self.shape).encode()).hexdigest()[:16]

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the columns by which it is paged."""
        if self.key is None:
            return ()
        return self.key.names

    @property
    def key_order(self) -> tuple[str, ...]:
        """By what its rows are ordered: the names of the key's columns, and their own order."""
        if self.key is None:
            return ()
        return tuple(map(str, self.key.columns))

    @property
    def key_expressions(self) -> tuple[str, ...]:
        """The expressions whose values become literals."""
        return tuple(self.expressions[cell] for cell in self.bound_cells)

    def bound_of_key(self, packet: bytes) -> Bound:
        """The place after a row of which only `key_expressions` were selected."""
        return self._literals(cells(packet, len(self.bound_cells)))

    def bound(self, packet: bytes) -> Bound:
        """The place after a row, given as the server sends it."""
        found = cells(packet, len(self.expressions))
        return self._literals(map(found.__getitem__, self.bound_cells))

    def _literals(self, values: Iterable[bytes | None]) -> Bound:
        assert self.key is not None
        return tuple(map(literal, self.key.columns, [value or b"" for value in values]))


_INTEGERS = {
    "tinyint": TYPE.TINY,
    "smallint": TYPE.SHORT,
    "mediumint": TYPE.INT24,
    "int": TYPE.LONG,
    "bigint": TYPE.LONGLONG,
}
_TEMPORAL = {"time": TYPE.TIME2, "datetime": TYPE.DATETIME2, "timestamp": TYPE.TIMESTAMP2}
_PLAIN: dict[str, tuple[int, tuple[int, int]]] = {
    "float": (TYPE.FLOAT, (4, 0)),
    "double": (TYPE.DOUBLE, (8, 0)),
    "year": (TYPE.YEAR, (0, 0)),
    "date": (TYPE.DATE, (0, 0)),
    "enum": (TYPE.ENUM, (2, 0)),
    "set": (TYPE.SET, (8, 0)),
    "json": (TYPE.JSON, (4, 0)),
    "vector": (VECTOR, (4, 0)),
    **dict.fromkeys(GEOMETRIES, (TYPE.GEOMETRY, (4, 0))),
}
"""The code and the metadata that a table map has for types without a size of their own."""
for _name, _code in _INTEGERS.items():
    _PLAIN[_name] = _code, (0, 0)
for _name, _size in OWN_TYPES.items():
    _PLAIN[_name] = TYPE.STRING, (_size, 0)
for _size, _prefix in enumerate(("tiny", "", "medium", "long"), 1):
    _PLAIN[f"{_prefix}text"] = _PLAIN[f"{_prefix}blob"] = TYPE.BLOB, (_size, 0)
_NUMBERS = re.compile(r"\((\d+)(?:,(\d+))?\)", re.ASCII)
_BY_NUMBER = {"enum", "set"}
_EXACT_BITS = 53  # of a double
_NUMBERED = {*_INTEGERS, *_BY_NUMBER, "float", "double", "decimal", "bit", "year"}
_QUOTED = {"date", "time", "datetime", "timestamp", *OWN_TYPES}
_WITH_CHARACTERS = {TYPE.STRING, TYPE.VARCHAR, TYPE.BLOB, TYPE.ENUM, TYPE.SET}
_LONG_TEXT = (4, 0)


def selected_table(
    table: TableId,
    schema: TableSchema,
    *,
    has_metadata: bool,
    can_order: Callable[[str], bool] = lambda _index: True,
) -> SelectedTable:
    """Makes the selection. `has_metadata`: the server sends full row metadata, which does not
    distinguish BOOL from TINYINT. `can_order`: whether the server reads rows by an index. Raises
    UnreadableEvent for a type that this release cannot read."""
    bare = tuple(_described(table, column) for column in schema.columns)
    known = completed(TableMap(table, bare), schema).columns
    # As the binlog has it: a snapshot must not show more of a type than the stream does.
    if has_metadata:
        known = tuple(map(_without_bool, known))
    sent = tuple(map(_sent, known))
    columns = tuple(Column(column.name, *type_names(column)) for column in known)
    expressions = [_expression(column) for column in schema.columns]
    key = _paging_key(schema, can_order)
    key_columns: tuple[int, ...] = ()
    if key is not None:
        key_columns = tuple(map(schema.names.index, key.names))
    bound_cells = []
    for number in key_columns:
        column = schema.columns[number]
        if column.data_type in _BY_NUMBER:
            # The index is in the order of the numbers, the row has the label.
            bound_cells.append(len(expressions))
            expressions.append(f"{quoted(column.name)} + 0")
        else:
            bound_cells.append(number)
    return SelectedTable(
        DecodableTable(Table(table, columns, schema.key), sent, tuple(map(reader, sent))),
        tuple(expressions),
        tuple(_FORMS.get(column.type, CellForm.TEXT) for column in sent),
        key,
        key_columns,
        tuple(bound_cells),
        bool(schema.times),
    )


_FORMS = {TYPE.FLOAT: CellForm.FLOAT, TYPE.DOUBLE: CellForm.DOUBLE}


def _without_bool(column: BinlogColumn) -> BinlogColumn:
    if column.data_type == BOOL:
        return replace(column, data_type="")
    return column


def _described(table: TableId, column: TableColumn) -> BinlogColumn:
    """The column as a table map would describe it."""
    first, second = _sizes(column.type)
    match column.data_type:
        case "decimal":
            described = TYPE.NEWDECIMAL, (first, second)
        case "bit":
            described = TYPE.BIT, (first, 0)
        case "time" | "datetime" | "timestamp" as name:
            described = _TEMPORAL[name], (first, 0)
        case "char":
            described = TYPE.STRING, (first * character_bytes(column.charset), 0)
        case "varchar":
            described = TYPE.VARCHAR, (first * character_bytes(column.charset), 0)
        case "binary":
            described = TYPE.STRING, (first, 0)
        case "varbinary":
            described = TYPE.VARCHAR, (first, 0)
        case name if name in _PLAIN:
            described = _PLAIN[name]
        case name:
            raise UnreadableEvent(
                f"table {table}: column {column.name} has type {name}, which a snapshot cannot "
                "read in this release"
            )
    return BinlogColumn(column.name, *described)


def _sizes(type_: str) -> tuple[int, int]:
    """The numbers in parentheses of a type, 0 for one that is not there."""
    found = _NUMBERS.search(type_)
    if found is None:
        return 0, 0
    return int(found[1]), int(found[2] or 0)


def _sent(column: BinlogColumn) -> BinlogColumn:
    """The column as it is in the server's answer."""
    if column.type in _FORMS:
        return column
    charset = "utf8mb4"
    if column.type in (TYPE.GEOMETRY, VECTOR):
        charset = BINARY
    elif column.type in _WITH_CHARACTERS and column.data_type not in OWN_TYPES:
        charset = column.charset
    return BinlogColumn(column.name, TYPE.BLOB, _LONG_TEXT, charset=charset)


def _expression(column: TableColumn) -> str:
    """The expression that selects a column as the binlog has it: numbers without ZEROFILL's zeros,
    and BIT as a number. Floats would be rounded for display, unless they are doubles without a
    number of digits; multiplied by one, they are exact, and -0 is kept."""
    name = quoted(column.name)
    if column.data_type in ("float", "double"):
        return f"{name} * 1e0"
    if column.data_type == "bit" or column.has_zerofill:
        return f"{name} + 0"
    return name


def _paging_key(schema: TableSchema, can_order: Callable[[str], bool]) -> Key | None:
    """The first unique key, the primary key before others, that has no NULLs, whose columns can
    all be compared with literals, and by which the server reads."""
    columns = schema.by_name
    nullable = schema.nullable
    for unique in schema.uniques:
        # A hash has no order, and a sort compares the first bytes of long texts only.
        is_index = unique.is_whole and unique not in schema.hashed
        if is_index and nullable.isdisjoint(unique.columns):
            parts = list(filter(None, [_key_column(columns[name]) for name in unique.columns]))
            if len(parts) == len(unique.columns) and can_order(unique.name):
                return Key(unique.name, tuple(parts))
    return None


def _key_column(column: TableColumn) -> KeyColumn | None:
    kind = column.data_type
    # MySQL compares a SET with a number as doubles, MariaDB as signed: both lose the highest bits.
    if kind == "set" and len(labels_in(column.type)) > _EXACT_BITS:
        return None
    if kind in _BY_NUMBER:
        return KeyColumn(column.name, KeyKind.NUMBER, order=column.type)
    if kind in _NUMBERED:
        return KeyColumn(column.name, KeyKind.NUMBER)
    if kind in _QUOTED:
        return KeyColumn(column.name, KeyKind.QUOTED, order=kind)
    if kind in ("binary", "varbinary") or kind.endswith("blob"):
        return KeyColumn(column.name, KeyKind.TEXT, BINARY)
    if column.charset:
        return KeyColumn(column.name, KeyKind.TEXT, column.charset, column.collation)
    return None
