"""Generates the source text of a function that makes records from the row images of one shape: a
table, an operation, the columns present and their pattern of NULLs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring as json_string
from typing import Any

from cdcbus.plugins.converters.record_template import Placeholder, RecordTemplate
from cdcbus.plugins.kafka.record_key import ByTable
from cdcbus.plugins.rowchange import Op
from cdcbus.producer.decoding.row_image import Layout, is_set
from cdcbus.producer.publish.codegen_columns import CellCode
from cdcbus.producer.publish.mapped_columns import RecordColumns
from cdcbus.producer.publish.native import Plan

RowFunction = Callable[..., tuple[int, int, int]]
"""body, index of a row, end, row number, rows, records, template texts -> index and number of the
next row, and where this row's second image starts if its NULLs differ from the function's (else
-1)."""


@dataclass(slots=True)
class Shape:
    """An operation with the columns present in its images. `plan`: the compiled part's, which then
    writes the records. `latest`: the first image's NULLs -> the function that last fitted."""

    layout: Layout
    template: RecordTemplate
    first: list[int]
    second: list[int]
    plan: Plan | None = None
    functions: dict[tuple[bytes, bytes], RowFunction] = field(default_factory=dict)
    latest: dict[bytes, RowFunction] = field(default_factory=dict)


class FunctionSource:
    """The source text of one function. `v3_0` is the first variable of column 3 in the first
    image, `w3_0` in the second."""

    def __init__(
        self,
        columns: RecordColumns,
        codes: Sequence[CellCode],
        key: Sequence[str],
        shape: Shape,
        first_nulls: bytes,
        second_nulls: bytes,
        plain_row: RowFunction,
    ) -> None:
        self._columns = columns
        self._names = columns.names
        self._codes = codes
        self._key = key
        self._shape = shape
        self._table_key = columns.table.key
        self._nulls = {"v": first_nulls, "w": second_nulls}
        self._present = {"v": shape.first, "w": shape.second}
        self._null = {
            "v": _null_columns(shape.first, first_nulls),
            "w": _null_columns(shape.second, second_nulls),
        }
        self._globals: dict[str, Any] = {
            "json_string": json_string,
            "from_bytes": int.from_bytes,
            "plain_row": plain_row,
            "json_cell": lambda cell: "null" if cell is None else json_string(cell),
        }
        for code in codes:
            self._globals |= code.names
        self._lines: list[str] = []

    def function(self) -> RowFunction:
        """The compiled function; the row-at-a-time path if all rows must take it."""
        is_update = self._shape.layout.op is Op.UPDATE
        changed = self._key_changes() if is_update else ""
        has_columns = any(self._present.values()) and self._has_taken()
        if not self._has_key() or not has_columns or changed is None:
            function: RowFunction = self._globals["plain_row"]
            return function
        self._write(is_update, changed)
        # The name shows in tracebacks and profiles which table it is.
        code = compile("\n".join(self._lines), f"<rows of {self._names}>", "exec")
        exec(code, self._globals)
        write: RowFunction = self._globals["write"]
        return write

    def _has_key(self) -> bool:
        """Whether each column of the record key is in the first image: an update that has one only
        in the second is refused."""
        return {*self._present["v"]}.issuperset(map(self._names.index, self._key))

    def _write(self, is_update: bool, changed: str) -> None:
        """Writes the lines of the function. `changed`: the condition for a change of the key, if
        any."""
        texts = "".join(f", t{i}" for i in range(len(self._shape.template.placeholders) + 1))
        self._lines = [
            f"def write(body, at, end, row, rows, records{texts}):",
            "    is_last = rows.is_last",
            "    while at < end:",
        ]
        self._image("v", "at", "-1")
        if is_update:
            self._image("w", "p", "p")
        self._line("if p > end: raise IndexError")
        if changed:
            self._line(f"if {changed}:")
            self._line("    at, row, _ = plain_row(body, at, end, row, rows, records)")
            self._line("    continue")
        self._compute()
        if Placeholder.OLD in self._shape.template.placeholders:
            self._old()
        self._line(
            f'records.append({{"key": {self._key_text()}.encode(), "value": '
            f"{self._value()}.encode()}})"
        )
        self._line("row += 1")
        self._line("at = p")
        self._lines.append("    return at, row, -1")

    def _line(self, text: str) -> None:
        self._lines.append("        " + text)

    def _image(self, side: str, at: str, second_at: str) -> None:
        """Reads an image that starts at `at`, and leaves `p` after it; returns early if its NULLs
        differ."""
        size = len(self._nulls[side])
        if size:
            self._line(
                f"if body[{at}:{at} + {size}] != {self._nulls[side]!r}: return at, row, {second_at}"
            )
        self._line(f"p = {at} + {size}")
        fields: list[tuple[str, str]] = []
        for column in self._present[side]:
            if column in self._null[side]:
                continue
            code = self._codes[column]
            if code.has_length:
                self._unpack([*fields, (code.fields[0], "n")])
                self._line("q = p + n")
                self._line(f"{side}{column}_0 = body[p:q]")
                self._line("p = q")
                fields = []
            elif code.fields:
                # Adjacent columns of fixed size are unpacked in one call.
                for i, kind in enumerate(code.fields):
                    fields.append((kind, f"{side}{column}_{i}"))
            else:
                self._unpack(fields)
                self._line(f"{side}{column}_0, p = read{column}(body, p)")
                fields = []
        self._unpack(fields)

    def _has_taken(self) -> bool:
        """Whether each image has all columns that expressions need."""
        taken: set[str] = set()
        for computed in self._columns.computed:
            taken |= computed.takes
        for side in self._sides():
            present = {self._columns.columns[number].name for number in self._present[side]}
            if not taken <= present:
                return False
        return True

    def _sides(self) -> str:
        return "vw" if self._shape.layout.op is Op.UPDATE else "v"

    def _compute(self) -> None:
        """Computes the computed cells of each image, except constants: `v_1` is the second computed
        column in the first image."""
        numbers = {column.name: number for number, column in enumerate(self._columns.columns)}
        for i, computed in enumerate(self._columns.computed):
            if not computed.takes:
                continue
            self._globals[f"computed{i}"] = computed.cell
            for side in self._sides():
                cells = []
                for name in sorted(computed.takes):
                    cells.append(f"{name!r}: {self._cell_or_none(side, numbers[name])}")
                self._line(f"{side}_{i} = computed{i}({{{', '.join(cells)}}})")

    def _cell_or_none(self, side: str, column: int) -> str:
        """An expression for a cell's text or None."""
        if column in self._null[side]:
            return "None"
        return f"f'''{self._cell(side, column, self._codes[column].text)}'''"

    def _unpack(self, fields: Sequence[tuple[str, str]]) -> None:
        if [kind for kind, _ in fields] == ["B"]:
            self._line(f"{fields[0][1]} = body[p]")
            self._line("p += 1")
        elif fields:
            kinds, variables = zip(*fields, strict=True)
            layout = struct.Struct("<" + "".join(kinds))
            name = f"unpack{len(self._lines)}"
            self._globals[name] = layout.unpack_from
            self._line(f"{', '.join(variables)}, = {name}(body, p)")
            self._line(f"p += {layout.size}")

    def _key_changes(self) -> str | None:
        """The condition for a change of key columns; None if the NULLs alone are a change."""
        conditions = []
        for column in filter(self._is_key, range(len(self._names))):
            if (column in self._null["v"]) != (column in self._null["w"]):
                return None
            if column not in self._null["v"]:
                conditions.append(self._differs(column))
        return " or ".join(conditions)

    def _is_key(self, column: int) -> bool:
        """Whether a change of the column is a change of the key: both images must have it."""
        if column not in self._present["v"] or column not in self._present["w"]:
            return False
        return self._names[column] in (*self._table_key, *self._key)

    def _differs(self, column: int) -> str:
        variables = range(self._codes[column].variables)
        return " or ".join(f"v{column}_{i} != w{column}_{i}" for i in variables)

    def _old(self) -> None:
        """Fills `old` with the members of the first image that the second lacks or has changed;
        key columns have not changed."""
        self._line("old = []")
        for column in self._present["v"]:
            if self._is_key(column) or self._names[column] is None:
                continue
            member = f"old.append(f'''{self._member('v', column)}''')"
            was_null = column in self._null["v"]
            is_null = column in self._null["w"]
            if column not in self._present["w"] or was_null != is_null:
                self._line(member)
            elif not was_null:
                condition = self._differs(column)
                # Different bytes can be the same text; only cells that differ are decoded.
                if decode := self._codes[column].decode:
                    condition += f" and {decode}(v{column}_0) != {decode}(w{column}_0)"
                self._line(f"if {condition}: {member}")
        for i, computed in enumerate(self._columns.computed):
            if computed.takes:
                member = f"old.append(f'''{self._computed_member('v', i)}''')"
                self._line(f"if v_{i} != w_{i}: {member}")

    def _member(self, side: str, column: int) -> str:
        """`"name":value` of a JSON object, as part of an f-string."""
        name = self._names[column]
        assert name is not None  # a column without a name is left out
        cell = self._cell(side, column, self._codes[column].json)
        return f"{_literal(json_string(name))}:{cell}"

    def _computed_member(self, side: str, i: int) -> str:
        computed = self._columns.computed[i]
        name = _literal(json_string(computed.name))
        if computed.takes:
            return f"{name}:{{json_cell({side}_{i})}}"
        # The same in every row, so it is computed now.
        return f"{name}:{_literal(json_string(computed.cell({}) or ''))}"

    def _cell(self, side: str, column: int, text: str) -> str:
        if column in self._null[side]:
            return "null"
        for i in range(self._codes[column].variables):
            text = text.replace(f"${i}", f"{side}{column}_{i}")
        return text

    def _key_text(self) -> str:
        """The record key's text, as an f-string: either image of an update that changes no key has
        it."""
        parts = []
        if isinstance(self._key, ByTable):
            parts.append(_literal(self._key.text.decode()))
        for name in self._key:
            column = self._names.index(name)
            side = "w" if column in self._present["w"] else "v"
            parts.append(self._cell(side, column, self._codes[column].text) + "_")
        return f"f'''{''.join(parts)}'''"

    def _value(self) -> str:
        """The record's value, as an f-string."""
        # An INSERT has one image, the after image.
        after = "v" if self._shape.layout.op is Op.INSERT else "w"
        placeholders = {
            Placeholder.BEFORE: self._object("v"),
            Placeholder.AFTER: self._object(after),
            Placeholder.OLD: "{{{','.join(old)}}}",
            Placeholder.ROW: "{row}",
            Placeholder.IS_LAST: "{'true' if is_last and p >= end else 'false'}",
        }
        filled = "{t0}"
        for i, placeholder in enumerate(self._shape.template.placeholders, 1):
            filled += f"{placeholders[placeholder]}{{t{i}}}"
        return f"f'''{filled}'''"

    def _object(self, side: str) -> str:
        members = []
        for column in self._present[side]:
            if self._names[column] is not None:
                members.append(self._member(side, column))
        for i in range(len(self._columns.computed)):
            members.append(self._computed_member(side, i))
        return "{{" + ",".join(members) + "}}"


def _null_columns(present: Sequence[int], nulls: bytes) -> set[int]:
    """The columns of an image that are NULL, by the bits of the pattern."""
    return {column for i, column in enumerate(present) if is_set(nulls, i)}


def _literal(text: str) -> str:
    """Text escaped for an f-string between three single quotes."""
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{").replace("}", "}}")
