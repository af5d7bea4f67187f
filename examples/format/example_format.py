"""exampleLines: a row as tab-separated fields, `INSERT shop.orders id=7 note=` and so on; NULL is a
name without `=`.

An example of a format from another package. It is read and written, so it is a `cdcbus.Converter`.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from cdcbus import Cell, Column, ConversionError, Op, Row, RowChange, Table, TableId


class ExampleLines:
    """The `exampleLines` converter. It knows no key and no before image of an update."""

    def to_bytes(self, change: RowChange) -> bytes:
        """One line."""
        row: Row = (change.before if change.op is Op.DELETE else change.after) or {}
        fields = [
            change.op.value,
            quote(change.table.id.schema),
            quote(change.table.id.table),
            *map(_field, row.items()),
        ]
        return "\t".join(fields).encode()

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row of a line. Raises ConversionError."""
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
