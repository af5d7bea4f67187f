"""Functions written for one table: from row images straight to Kafka records.

`Rows.changes`, the mapper, `record_key` and the converter's `to_bytes` say what must come out; this
is the same, faster. A function is made for each operation, set of columns present and pattern of
NULLs, and runs over the rows of an event for as long as they have that pattern. What is rare takes
the row-at-a-time path: key changes, patterns beyond `PATTERNS`, and whatever a function stumbles
on.

Where the compiled part is there (`native.py`), it takes the functions' place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring as json_string
from typing import Any

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.record_template import Placeholder, RecordTemplate, TemplateConverter
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.kafka.record_key import ByTable, Record
from cdcbus.plugins.rowchange import Op, Origin, RowChange
from cdcbus.producer.decoding.row_image import Layout, images_at, is_set, present
from cdcbus.producer.decoding.table import DecodableTable
from cdcbus.producer.publish import native
from cdcbus.producer.publish.codegen_columns import CellCode, cell_code
from cdcbus.producer.publish.mapped_columns import RecordColumns, as_they_are
from cdcbus.producer.publish.native import MakePlan, Plan
from cdcbus.producer.source.row_events import Rows

PATTERNS = 64
"""Patterns of NULLs of a table's rows for which code is written; a wide table may have any
number."""

RowAtATime = Callable[[RowChange], list[Record]]
# body, place of a row, end, row number, rows, records, template texts -> place and number of the
# next row, and where this row's second image starts if that has other NULLs than the function is
# for (else -1)
_Function = Callable[..., tuple[int, int, int]]


@dataclass(slots=True)
class _Shape:
    """An operation with the columns present in its images. `plan`: of the compiled part, which
    then writes the records. `latest`: by the first image's NULLs, the function that last fitted."""

    layout: Layout
    template: RecordTemplate
    first: list[int]
    second: list[int]
    plan: Plan | None = None
    functions: dict[tuple[bytes, bytes], _Function] = field(default_factory=dict)
    latest: dict[bytes, _Function] = field(default_factory=dict)


class TableWriter:
    """Records from the rows of one table. `key` names the record key's columns; `row_at_a_time`
    makes the records of one row change; `columns` says what becomes of the table's in records, None
    = nothing; `takes_partial` says whether row images may lack columns;
    `on_code` is told when code or a plan is made, for how many columns; `make_plan` is the compiled
    part, None = without it."""

    def __init__(
        self,
        table: DecodableTable,
        converter: Converter,
        key: tuple[str, ...],
        row_at_a_time: RowAtATime,
        *,
        columns: RecordColumns | None = None,
        takes_partial: bool = False,
        on_code: Callable[[int], None] = lambda _: None,
        make_plan: MakePlan | None = native.make_plan,
    ) -> None:
        self._table, self._converter, self._key, self._row_at_a_time = (
            table,
            converter,
            key,
            row_at_a_time,
        )
        self._takes_partial, self._on_code = takes_partial, on_code
        self._make_plan = make_plan
        self._columns = columns = columns or as_they_are(table)
        self._cells = (
            tuple(map(native.cell, columns.columns, columns.readers, columns.names))
            if make_plan
            else ()
        )
        self._codes = [
            cell_code(column, number, read)
            for number, (column, read) in enumerate(
                zip(columns.columns, columns.readers, strict=True)
            )
        ]
        self._shapes: dict[Layout, _Shape | None] = {}
        # What stands before the rows is nearly always the same: by kind its length, and by its
        # bytes the shape.
        self._head_bytes: dict[int, int] = {}
        self._by_head: dict[tuple[int, bytes], _Shape | None] = {}

    def records(self, rows: Rows, first_row: int) -> tuple[list[Record], int]:
        """The records of an event, in order, and the number of its row changes. Raises
        UnreadableEvent, also for a partial image that is not to be taken."""
        at = self._head_bytes.get(rows.kind, 0)
        head = (rows.kind, rows.body[8:at])
        if head in self._by_head:
            shape = self._by_head[head]
        else:
            found, at = rows.layout()
            shape = self._shapes[found] if found in self._shapes else self._add(found, rows.origin)
            self._head_bytes[rows.kind] = at
            self._by_head[rows.kind, rows.body[8:at]] = shape
        if shape is not None:
            try:
                made, count = self._generated(shape, rows, at, first_row)
                if isinstance(self._key, ByTable):
                    for record in made:
                        record["key"] = self._key.text
                return made, count
            except (struct.error, IndexError, UnicodeDecodeError, UnreadableEvent):
                """The row-at-a-time path says what is wrong, or knows better."""
        changes = rows.changes(first_row)
        return [record for change in changes for record in self._row_at_a_time(change)], len(
            changes
        )

    def _add(self, found: Layout, origin: Origin) -> _Shape | None:
        """The shape, None where the converter has no template for it."""
        if not self._takes_partial:
            self._check_whole(found, origin)
        converter, shape = self._converter, None
        template = (
            converter.template(self._columns.table, found.op)
            if isinstance(converter, TemplateConverter)
            else None
        )
        if template is not None:
            shape = _Shape(
                found,
                template,
                present(found.first, self._table),
                present(found.second, self._table),
            )
            shape.plan = self._plan(shape)
            if shape.plan is not None:
                self._on_code(len(shape.first) + len(shape.second))
        self._shapes[found] = shape
        return shape

    def _plan(self, shape: _Shape) -> Plan | None:
        """None where the functions are to write the records."""
        columns, names = self._columns, self._columns.names
        key = tuple(map(names.index, self._key))
        if self._make_plan is None or not {*shape.first, *shape.second}.issuperset(key):
            return None
        if not columns.is_constant:
            return None
        op, both = shape.layout.op, {*shape.first} & {*shape.second}
        same = tuple(sorted(both & {*key, *map(names.index, columns.table.key)}))
        placeholders = native.placeholders(shape.template.placeholders, op)
        try:
            return self._make_plan(
                self._cells,
                tuple(shape.first),
                tuple(shape.second),
                op is Op.UPDATE,
                same,
                key,
                placeholders,
                native.constants(columns.computed),
            )
        except ValueError:  # a column as no server has it
            return None

    def _check_whole(self, found: Layout, origin: Origin) -> None:
        images = [found.first, found.second] if found.op is Op.UPDATE else [found.first]
        columns = self._table.table.columns
        lacking = [
            column.name
            for i, column in enumerate(columns)
            if not all(is_set(image, i) for image in images)
        ]
        if lacking:
            raise UnreadableEvent(
                f"{origin.file}:{origin.pos}: table {self._table.table.id}: {found.op} without "
                f"column {', '.join(lacking)}, as "
                "binlog_row_image was not FULL in the session that wrote it. Set it to FULL for "
                "every session; "
                "consumer.source.rowImage=any sends such rows as they are"
            )

    def _generated(
        self, shape: _Shape, rows: Rows, at: int, first_row: int
    ) -> tuple[list[Record], int]:
        body = rows.body
        texts = shape.template.texts(rows.origin)
        records: list[Record] = []
        row, end = first_row, len(body)
        if shape.plan is not None:
            at, row = shape.plan.write(body, at, row, rows.is_last, texts, records)
            while at < end:
                at, row, _ = self._plain_row(body, at, end, row, rows, records)
                at, row = shape.plan.write(body, at, row, rows.is_last, texts, records)
            return records, row - first_row
        size, second_size = (len(shape.first) + 7) // 8, (len(shape.second) + 7) // 8
        while at < end:
            nulls = body[at : at + size]
            function = shape.latest.get(nulls) or self._fitting(
                shape, nulls, nulls if size == second_size else bytes(second_size)
            )
            at, row, second_at = function(body, at, end, row, rows, records, *texts)
            if second_at >= 0:
                function = self._fitting(shape, nulls, body[second_at : second_at + second_size])
                at, row, _ = function(body, at, end, row, rows, records, *texts)
        return records, row - first_row

    def _fitting(self, shape: _Shape, first: bytes, second: bytes) -> _Function:
        """The function for these patterns of NULLs."""
        function = shape.functions.get((first, second))
        if function is None:
            if len(shape.functions) < PATTERNS:
                function = _Writing(
                    self._columns, self._codes, self._key, shape, first, second, self._plain_row
                ).function()
                shape.functions[first, second] = function
                self._on_code(len(shape.first) + len(shape.second))
            else:
                function = self._plain_row
        shape.latest[first] = function
        return function

    def _plain_row(
        self, body: bytes, at: int, end: int, row: int, rows: Rows, records: list[Record], *_: str
    ) -> tuple[int, int, int]:
        """One row by the row-at-a-time path."""
        found, _start = rows.layout()
        (before, after), next_at = images_at(body, at, found, self._table)
        is_last = rows.is_last and next_at >= end
        records += self._row_at_a_time(
            RowChange(self._table.table, found.op, before, after, rows.origin, row, is_last)
        )
        return next_at, row + 1, -1


class _Writing:
    """The source text of one function. `v3_0` is the first variable of column 3 in the first
    image, `w3_0` in the second."""

    def __init__(
        self,
        columns: RecordColumns,
        codes: Sequence[CellCode],
        key: Sequence[str],
        shape: _Shape,
        first_nulls: bytes,
        second_nulls: bytes,
        plain_row: _Function,
    ) -> None:
        self._columns, self._names = columns, columns.names
        self._codes, self._key, self._shape = codes, key, shape
        self._table_key = columns.table.key
        self._nulls = {"v": first_nulls, "w": second_nulls}
        self._present = {"v": shape.first, "w": shape.second}
        self._null = {
            side: {c for i, c in enumerate(self._present[side]) if is_set(self._nulls[side], i)}
            for side in "vw"
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

    def function(self) -> _Function:
        is_update = self._shape.layout.op is Op.UPDATE
        has_key = all(
            any(self._names.index(name) in self._present[side] for side in "vw")
            for name in self._key
        )
        has_columns = any(self._present.values()) and self._has_taken()
        if not has_key or not has_columns or (is_update and self._key_changes() is None):
            function: _Function = self._globals["plain_row"]
            return function
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
        if is_update and (changed := self._key_changes()):
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
        exec(compile("\n".join(self._lines), f"<rows of {self._names}>", "exec"), self._globals)
        write: _Function = self._globals["write"]
        return write

    def _line(self, text: str) -> None:
        self._lines.append("        " + text)

    def _image(self, side: str, at: str, second_at: str) -> None:
        """Reads an image that starts at `at`, leaving `p` behind it, unless its NULLs are
        others."""
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
                fields += [(kind, f"{side}{column}_{i}") for i, kind in enumerate(code.fields)]
            else:
                self._unpack(fields)
                self._line(f"{side}{column}_0, p = read{column}(body, p)")
                fields = []
        self._unpack(fields)

    def _has_taken(self) -> bool:
        """Whether each image has all that expressions take."""
        has = {
            side: {self._columns.columns[number].name for number in self._present[side]}
            for side in self._sides()
        }
        return all(each.takes <= has[side] for each in self._columns.computed for side in has)

    def _sides(self) -> str:
        return "vw" if self._shape.layout.op is Op.UPDATE else "v"

    def _compute(self) -> None:
        """The computed cells of each image, but for constants: `v_1` is that of the second
        computed column in the first image."""
        numbers = {column.name: number for number, column in enumerate(self._columns.columns)}
        for i, computed in enumerate(self._columns.computed):
            self._globals[f"computed{i}"] = computed.cell
            for side in self._sides() if computed.takes else "":
                cells = ", ".join(
                    f"{name!r}: {self._cell_or_none(side, numbers[name])}"
                    for name in sorted(computed.takes)
                )
                self._line(f"{side}_{i} = computed{i}({{{cells}}})")

    def _cell_or_none(self, side: str, column: int) -> str:
        """A cell's text, or None, as an expression."""
        if column in self._null[side]:
            return "None"
        return f"f'''{self._cell(side, column, self._codes[column].text)}'''"

    def _unpack(self, fields: Sequence[tuple[str, str]]) -> None:
        if [kind for kind, _ in fields] == ["B"]:
            self._line(f"{fields[0][1]} = body[p]")
            self._line("p += 1")
        elif fields:
            layout = struct.Struct("<" + "".join(kind for kind, _ in fields))
            name = f"unpack{len(self._lines)}"
            self._globals[name] = layout.unpack_from
            self._line(f"{', '.join(name for _, name in fields)}, = {name}(body, p)")
            self._line(f"p += {layout.size}")

    def _key_changes(self) -> str | None:
        """The condition for a change of key columns; None when the NULLs alone make it one."""
        conditions = []
        for column in filter(self._is_key, range(len(self._names))):
            if (column in self._null["v"]) != (column in self._null["w"]):
                return None
            if column not in self._null["v"]:
                conditions.append(self._differs(column))
        return " or ".join(conditions)

    def _is_key(self, column: int) -> bool:
        """Whether a change of the column is a change of the key: both images must have it."""
        return self._names[column] in (*self._table_key, *self._key) and all(
            column in self._present[side] for side in "vw"
        )

    def _differs(self, column: int) -> str:
        return " or ".join(
            f"v{column}_{i} != w{column}_{i}" for i in range(self._codes[column].variables)
        )

    def _old(self) -> None:
        """Fills `old` with the members of the first image that the second lacks or has changed;
        key columns have not changed."""
        self._line("old = []")
        for column in self._present["v"]:
            if self._is_key(column) or self._names[column] is None:
                continue
            member = f"old.append(f'''{self._member('v', column)}''')"
            null = [column in self._null[side] for side in "vw"]
            if column not in self._present["w"] or null[0] != null[1]:
                self._line(member)
            elif not null[0]:
                decode = self._codes[column].decode
                is_other = f" and {decode}(v{column}_0) != {decode}(w{column}_0)" if decode else ""
                self._line(f"if {self._differs(column)}{is_other}: {member}")
        for i, computed in enumerate(self._columns.computed):
            if computed.takes:
                member = f"old.append(f'''{self._computed_member('v', i)}''')"
                self._line(f"if v_{i} != w_{i}: {member}")

    def _member(self, side: str, column: int) -> str:
        """`"name":value` of a JSON object, as part of an f-string."""
        name = self._names[column]
        assert name is not None  # which is left out
        cell = self._cell(side, column, self._codes[column].json)
        return f"{_literal(json_string(name))}:{cell}"

    def _computed_member(self, side: str, i: int) -> str:
        computed = self._columns.computed[i]
        cell = (
            f"{{json_cell({side}_{i})}}"
            if computed.takes
            else _literal(json_string(computed.cell({}) or ""))
        )
        return f"{_literal(json_string(computed.name))}:{cell}"

    def _cell(self, side: str, column: int, text: str) -> str:
        if column in self._null[side]:
            return "null"
        for i in range(self._codes[column].variables):
            text = text.replace(f"${i}", f"{side}{column}_{i}")
        return text

    def _key_text(self) -> str:
        """The record key's text, as an f-string: of an update that changes no key, either image
        has it."""
        parts = []
        for name in self._key:
            column = self._names.index(name)
            side = next(side for side in "wv" if column in self._present[side])
            parts.append(self._cell(side, column, self._codes[column].text) + "_")
        return f"f'''{''.join(parts)}'''"

    def _value(self) -> str:
        """The record's value, as an f-string."""
        is_insert = self._shape.layout.op is Op.INSERT
        before, after = "v", "v" if is_insert else "w"
        placeholders = {
            Placeholder.BEFORE: self._object(before),
            Placeholder.AFTER: self._object(after),
            Placeholder.OLD: "{{{','.join(old)}}}",
            Placeholder.ROW: "{row}",
            Placeholder.IS_LAST: "{'true' if is_last and p >= end else 'false'}",
        }
        filled = "".join(
            f"{placeholders[placeholder]}{{t{i}}}"
            for i, placeholder in enumerate(self._shape.template.placeholders, 1)
        )
        return f"f'''{{t0}}{filled}'''"

    def _object(self, side: str) -> str:
        shown = [column for column in self._present[side] if self._names[column] is not None]
        members = [self._member(side, column) for column in shown]
        members += [self._computed_member(side, i) for i in range(len(self._columns.computed))]
        return "{{" + ",".join(members) + "}}"


def _literal(text: str) -> str:
    """Text as it stands in an f-string between three single quotes."""
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{").replace("}", "}}")
