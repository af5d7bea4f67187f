"""Functions generated for one table: from row images straight to Kafka records.

`Rows.changes`, the mapper, `record_key` and the converter's `to_bytes` define the output; this code
produces the same, faster. A function is generated for each operation, set of columns present and
pattern of NULLs, and runs over the rows of an event while they have that pattern. Rare cases take
the row-at-a-time path: key changes, patterns beyond `PATTERNS`, and any row on which a function
fails.

If the compiled part is available (`native.py`), it replaces the functions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.record_template import TemplateConverter
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.kafka.record_key import ByTable, Record
from cdcbus.plugins.rowchange import Op, Origin, RowChange
from cdcbus.producer.decoding.row_image import Layout, images_at, is_set, present
from cdcbus.producer.decoding.table import DecodableTable
from cdcbus.producer.publish import native
from cdcbus.producer.publish.codegen_columns import cell_code
from cdcbus.producer.publish.codegen_source import FunctionSource, RowFunction, Shape
from cdcbus.producer.publish.mapped_columns import RecordColumns, as_they_are
from cdcbus.producer.publish.native import MakePlan, Plan
from cdcbus.producer.publish.row_batching import RecordLimits
from cdcbus.producer.source.row_events import Rows

PATTERNS = 64
"""The most patterns of NULLs of a table's rows for which code is generated; a wide table can have
any number."""

_NOT_GENERATED = struct.error, IndexError, UnicodeDecodeError, UnreadableEvent
"""What is raised for a row that the row-at-a-time path must read."""

RowAtATime = Callable[[RowChange], list[Record]]


class TableWriter:
    """Makes records from the rows of one table. `key` names the record key's columns;
    `row_at_a_time` makes the records of one row change; `columns` maps the table's columns to the
    records', None = unchanged; `takes_partial` says whether row images may lack columns; `on_code`
    is called with the number of columns when the writer, code or a plan is made; `make_plan` is the
    compiled part, None = do without it."""

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
        self._table = table
        self._converter = converter
        self._key = key
        self._row_at_a_time = row_at_a_time
        self._takes_partial = takes_partial
        self._on_code = on_code
        self._make_plan = make_plan
        self._columns = columns = columns or as_they_are(table)
        self._cells: tuple[native.CellPlan, ...] = ()
        if make_plan is not None:
            self._cells = tuple(map(native.cell, columns.columns, columns.readers, columns.names))
        numbers = range(len(columns.columns))
        self._codes = list(map(cell_code, columns.columns, numbers, columns.readers))
        self._shapes: dict[Layout, Shape | None] = {}
        # The head before the rows is nearly always the same: its length by event type, and the
        # shape by its bytes.
        self._head_bytes: dict[int, int] = {}
        self._by_head: dict[tuple[int, bytes], Shape | None] = {}
        on_code(len(columns.columns))

    def records(self, rows: Rows, first_row: int) -> tuple[list[Record], int]:
        """Returns the records of an event, in order, and the number of its row changes. Raises
        UnreadableEvent, also for a partial image if these are not taken."""
        shape, at = self._shape_of(rows)
        if shape is not None:
            try:
                return self._generated(shape, rows, at, first_row)
            except _NOT_GENERATED:
                """The row-at-a-time path says what is wrong, or can read the row."""
        changes = rows.changes(first_row)
        records: list[Record] = []
        for change in changes:
            records += self._row_at_a_time(change)
        return records, len(changes)

    def joined(
        self, rows: Rows, first_row: int, limits: RecordLimits
    ) -> tuple[list[Record], int] | None:
        """Returns the records of an event as `many_rows` makes them from those of `records`, and
        the number of its row changes; None if the compiled part does not make them. Raises as
        `records`."""
        shape, at = self._shape_of(rows)
        if shape is None or shape.plan is None:
            return None
        texts = shape.template.texts(rows.origin)
        try:
            made = shape.plan.join(rows.body, at, first_row, rows.is_last, texts, *limits)
        except _NOT_GENERATED:
            return None
        if made is None:
            return None
        records, row = made
        return records, row - first_row

    def _shape_of(self, rows: Rows) -> tuple[Shape | None, int]:
        """The shape of an event's rows, None if the converter has no template for it, and where in
        the body the first row starts. Raises as `records`."""
        at = self._head_bytes.get(rows.kind, 0)
        head = (rows.kind, rows.body[8:at])
        if head in self._by_head:
            return self._by_head[head], at
        found, at = rows.layout()
        shape = self._shapes[found] if found in self._shapes else self._add(found, rows.origin)
        self._head_bytes[rows.kind] = at
        self._by_head[rows.kind, rows.body[8:at]] = shape
        return shape, at

    def _add(self, found: Layout, origin: Origin) -> Shape | None:
        """Adds and returns the shape, None if the converter has no template for it."""
        if not self._takes_partial:
            self._check_whole(found, origin)
        shape = self._shapes[found] = self._shape(found)
        if shape is not None and shape.plan is not None:
            self._on_code(len(shape.first) + len(shape.second))
        return shape

    def _shape(self, found: Layout) -> Shape | None:
        if not isinstance(self._converter, TemplateConverter):
            return None
        first = present(found.first, self._table)
        second = present(found.second, self._table)
        template = self._converter.template(
            self._columns.table, found.op, self._written(first), self._written(second)
        )
        if template is None:
            return None
        shape = Shape(found, template, first, second)
        shape.plan = self._plan(shape)
        return shape

    def _written(self, numbers: Sequence[int]) -> list[str]:
        """The names in records of an image's columns."""
        names = [name for number in numbers if (name := self._columns.names[number]) is not None]
        return names + [computed.name for computed in self._columns.computed]

    def _plan(self, shape: Shape) -> Plan | None:
        """Makes the compiled part's plan; None if the functions must write the records."""
        columns = self._columns
        if self._make_plan is None or not columns.is_constant:
            return None
        number_of = columns.names.index
        key = tuple(map(number_of, self._key))
        # The row-at-a-time path refuses an update that has one of them only in its second image.
        if not {*shape.first}.issuperset(key):
            return None
        # If one of these columns has changed, the record key may have, too: such a row takes the
        # row-at-a-time path, which splits it into a DELETE and an INSERT.
        of_keys = {*key, *map(number_of, columns.table.key)}
        same = tuple(sorted(of_keys & {*shape.first} & {*shape.second}))
        op = shape.layout.op
        placeholders = native.placeholders(shape.template.placeholders, op)
        try:
            return self._make_plan(
                self._cells,
                tuple(shape.first),
                tuple(shape.second),
                op is Op.UPDATE,
                same,
                key,
                self._key.text if isinstance(self._key, ByTable) else b"",
                placeholders,
                native.constants(columns.computed),
            )
        except ValueError:  # a column that no server has
            return None

    def _check_whole(self, found: Layout, origin: Origin) -> None:
        images = [found.first, found.second] if found.op is Op.UPDATE else [found.first]
        lacking = []
        for i, column in enumerate(self._table.columns):
            if not column.is_hidden and not all(is_set(image, i) for image in images):
                lacking.append(column.name)
        if lacking:
            raise UnreadableEvent(
                f"{origin.file}:{origin.pos}: table {self._table.table.id}: {found.op} without "
                f"column {', '.join(lacking)}, as "
                "binlog_row_image was not FULL in the session that wrote it. Set it to FULL for "
                "every session; "
                "consumer.source.rowImage=any sends such rows as they are"
            )

    def _generated(
        self, shape: Shape, rows: Rows, at: int, first_row: int
    ) -> tuple[list[Record], int]:
        body = rows.body
        texts = shape.template.texts(rows.origin)
        records: list[Record] = []
        row, end = first_row, len(body)
        if shape.plan is not None:
            at, row = shape.plan.write(body, at, row, rows.is_last, texts, records)
            while at < end:
                # The plan has stopped before a row that it cannot write.
                at, row, _ = self._plain_row(body, at, end, row, rows, records)
                at, row = shape.plan.write(body, at, row, rows.is_last, texts, records)
            return records, row - first_row
        size = (len(shape.first) + 7) // 8
        second_size = (len(shape.second) + 7) // 8
        while at < end:
            nulls = body[at : at + size]
            function = shape.latest.get(nulls)
            if function is None:
                # A guess: most updates do not change which cells are NULL.
                second_nulls = nulls if size == second_size else bytes(second_size)
                function = self._fitting(shape, nulls, second_nulls)
            at, row, second_at = function(body, at, end, row, rows, records, *texts)
            if second_at >= 0:
                function = self._fitting(shape, nulls, body[second_at : second_at + second_size])
                at, row, _ = function(body, at, end, row, rows, records, *texts)
        return records, row - first_row

    def _fitting(self, shape: Shape, first: bytes, second: bytes) -> RowFunction:
        """The function for these patterns of NULLs, generated if new."""
        function = shape.functions.get((first, second))
        if function is None:
            # Not kept by its pattern, as there can be millions of them.
            if len(shape.functions) >= PATTERNS:
                return self._plain_row
            source = FunctionSource(
                self._columns, self._codes, self._key, shape, first, second, self._plain_row
            )
            function = source.function()
            shape.functions[first, second] = function
            self._on_code(len(shape.first) + len(shape.second))
        shape.latest[first] = function
        return function

    def _plain_row(
        self, body: bytes, at: int, end: int, row: int, rows: Rows, records: list[Record], *_: str
    ) -> tuple[int, int, int]:
        """Writes one row on the row-at-a-time path."""
        found, _start = rows.layout()
        (before, after), next_at = images_at(body, at, found, self._table)
        is_last = rows.is_last and next_at >= end
        records += self._row_at_a_time(
            RowChange(self._table.table, found.op, before, after, rows.origin, row, is_last)
        )
        return next_at, row + 1, -1
