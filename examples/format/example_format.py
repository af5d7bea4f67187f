"""exampleLines: a format of one line a row with tab-separated fields, as `INSERT shop.orders id=7
note=`; NULL is a name without `=`.

An example of a format from another package. It is read and written, so it is a `cdcbus.Converter`;
it also reads many records at a time, so it is a `cdcbus.ColumnarConverter`.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus import (
    Cell,
    Column,
    Columns,
    ConversionError,
    Op,
    Row,
    RowChange,
    RowGroup,
    Table,
    TableId,
)


class ExampleLines:
    """The `exampleLines` converter. It knows no key and no before image of an update."""

    def to_bytes(self, change: RowChange) -> bytes:
        """The change as one line."""
        row: Row = (change.before if change.op is Op.DELETE else change.after) or {}
        fields = [
            change.op.value,
            quote(change.table.id.schema),
            quote(change.table.id.table),
            *map(_field, row.items()),
        ]
        return "\t".join(fields).encode()

    def read_columns(self, records: pa.BinaryArray) -> Columns:
        """Reads many lines at a time: each group has the same names in the same order as the first
        remaining line. Lines with an escaped character are left to `from_bytes`."""
        is_plain = pc.and_(
            pc.is_valid(records), pc.invert(pc.match_substring(records.cast(pa.binary()), "%"))
        )
        left = pc.indices_nonzero(pc.fill_null(is_plain, False)).cast(pa.int64())
        rest = set(range(len(records))) - set(left.to_pylist())
        groups: list[RowGroup] = []
        while len(left):
            mine, group = self._group(records, left)
            if group is None:
                rest.add(left[0].as_py())
                mine = left.slice(0, 1)
            else:
                groups.append(group)
            left = left.filter(pc.invert(pc.is_in(left, mine)))
        return Columns(groups, sorted(rest))

    def _group(self, records: pa.BinaryArray, left: pa.Array) -> tuple[pa.Array, RowGroup | None]:
        """The records like the first one, and their content; None if `from_bytes` must read it."""
        line = records[left[0].as_py()].as_py()
        try:
            [first] = self.from_bytes(line)
        except ConversionError:
            return left, None  # from_bytes raises it again, with the record's place
        head = line.split(b"\t")[:3]
        names = [column.name for column in first.table.columns]
        parts = pc.split_pattern(records.take(left), "\t")
        is_long = pc.equal(pc.list_value_length(parts), len(head) + len(names))
        mine, parts = left.filter(is_long), parts.filter(is_long)
        cuts = [pc.list_element(parts, place) for place in range(len(head) + len(names))]
        is_like = pa.array([True] * len(mine), pa.bool_())
        for cut, text in zip(cuts, head, strict=False):
            is_like = pc.and_(is_like, pc.equal(cut, pa.scalar(text, cut.type)))
        cells: dict[str, pa.Array] = {}
        for name, cut in zip(names, cuts[len(head) :], strict=True):
            start = f"{name}=".encode()
            is_null = pc.equal(cut, pa.scalar(name.encode(), cut.type))
            is_like = pc.and_(is_like, pc.or_(is_null, pc.starts_with(cut, start)))
            text = pc.binary_replace_slice(cut, 0, len(start), b"")
            cells[name] = pc.if_else(is_null, pa.scalar(None, text.type), text)
        try:
            cells = {name: cell.filter(is_like).cast(pa.string()) for name, cell in cells.items()}
        except pa.ArrowInvalid:  # a cell is not UTF-8, which from_bytes refuses
            return left, None
        mine = mine.filter(is_like)
        group = RowGroup(
            first.table,
            first.op,
            mine,
            None if first.before is None else cells if first.before else {},
            None if first.after is None else cells,
            pa.array([0] * len(mine), pa.int64()),
        )
        return mine, group

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row change of a line. Raises ConversionError."""
        try:
            op, schema, table, *fields = value.decode().split("\t")
            row = dict(map(_cell, fields))
            return [_change(Op(op), TableId(unquote(schema), unquote(table)), row)]
        except ValueError as error:
            raise ConversionError(
                "not an exampleLines record: an operation, a schema, a table and fields were "
                "expected"
            ) from error


def _change(op: Op, name: TableId, row: dict[str, Cell]) -> RowChange:
    table = Table(name, tuple(map(Column, row)), ())
    if op is Op.TRUNCATE:
        return RowChange(table, op, None, None)
    if op is Op.DELETE:
        return RowChange(table, op, row, None)
    return RowChange(table, op, {} if op is Op.UPDATE else None, row)


def _field(item: tuple[str, Cell]) -> str:
    name, cell = item
    return quote(name) if cell is None else f"{quote(name)}={quote(cell)}"


def _cell(field: str) -> tuple[str, Cell]:
    name, equals, text = field.partition("=")
    return unquote(name), unquote(text) if equals else None
