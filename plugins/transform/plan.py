"""The plan by which rows of a source table become rows of a target table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange, Table
from cdcbus.plugins.transform.cells.expression import Expression
from cdcbus.plugins.transform.cells.mask import Mask


class Conversion(Protocol):
    """Converts the cells of a column. `changes_valid`: also cells that the target takes as they
    are."""

    changes_valid: ClassVar[bool]

    def cell(self, text: str) -> str:
        """A cell that is not NULL. Raises DataError for one that it cannot convert."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows of `source` become rows of `target`."""

    source: Table
    target: TargetTable
    # The table of the mapped rows: the target's columns, with the source's types.
    table: Table
    # Source column -> target column; None: left out.
    names: Mapping[str, str | None]
    # The source columns.
    known: frozenset[str]
    # Rows are unchanged.
    is_same: bool
    # Target column -> its expression.
    computed: Mapping[str, Expression]
    # Source column -> the mask for its cells.
    masks: Mapping[str, Mask]
    # Columns that are left out as the target lacks them, under its names.
    dropped: tuple[str, ...]
    # Rows of other source tables go to the target too.
    is_shared: bool = False
    # Source column -> the conversion of its cells, to local time or for labels; computed columns
    # take the cells before it.
    converted: Mapping[str, Conversion] = field(default_factory=dict)
    # Column of the target's key -> the source columns that it is made of, where one of these is not
    # in the source's key: what an old image does not hold of them is unknown.
    loose: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def changed(self) -> set[str]:
        """The source columns of which the target holds other cells."""
        found = {*self.masks}
        for column, conversion in self.converted.items():
            if conversion.changes_valid:
                found.add(column)
        return found

    def describes(self, image: Mapping[str, object] | None) -> bool:
        """Whether the source table, as its record describes it, has all columns of a row, or of
        rows as columns."""
        return image is None or self.known.issuperset(image)

    def map(self, change: RowChange) -> RowChange:
        """The same change under the target's names. Raises DataError for a row that does not fit
        its own table, or lacks a column that an expression needs; and for a truncate of a table
        that shares its target."""
        if self.is_shared and change.op is Op.TRUNCATE:
            raise DataError(
                f"TRUNCATE of {self.source.id}: target table {self.target.id} holds rows of other "
                "source tables too, and would lose them; "
                "delete the rows of this one there, then set the position after the record"
            )
        if self.loose and change.op is Op.UPDATE:
            self._refuse_unknown_key(change)
        before = self._row(change.before)
        after = self._row(change.after)
        if self.computed:
            before, after = self._with_computed(change, before, after)
        return RowChange(
            self.table, change.op, before, after, change.origin, change.row, change.is_last
        )

    def _refuse_unknown_key(self, change: RowChange) -> None:
        """Raises DataError for an update that brings a part of the target's key and does not say
        what it was: the row would stay under its old key, and come again under the new one."""
        old, new = change.before or {}, change.after or {}
        for name, columns in self.loose.items():
            unknown = sorted((columns & new.keys()) - old.keys())
            if unknown:
                raise DataError(
                    f"table {self.target.id}: UPDATE without its primary key column {name}: the "
                    f"old row lacks {', '.join(unknown)} of {self.source.id}, which its own key "
                    "does not have. Let the source log full row images (binlog_row_image=FULL), or "
                    "give the target the source's key"
                )

    def _row(self, row: Row | None) -> Row | None:
        if row is None or (self.is_same and self.known.issuperset(row)):
            return row
        if self.masks or self.converted:
            row = self._replaced(row)
        names = self.names
        mapped: dict[str, Cell] = {}
        try:
            for column, cell in row.items():
                name = names[column]
                if name is not None:
                    mapped[name] = cell
        except KeyError as unknown:
            raise DataError(
                f"a row of {self.source.id} holds column {unknown.args[0]}, which its record does "
                "not describe"
            ) from None
        return mapped

    def _replaced(self, row: Row) -> dict[str, Cell]:
        """The row with masked and converted cells; a column has at most one of the two."""
        replaced = {**row}
        for column, mask in self.masks.items():
            if column in row:
                replaced[column] = mask.cell(row[column])
        for column, conversion in self.converted.items():
            cell = row.get(column)
            if cell is not None:
                replaced[column] = conversion.cell(cell)
        return replaced

    def _with_computed(
        self, change: RowChange, before: Row | None, after: Row | None
    ) -> tuple[Row | None, Row | None]:
        """The images with their computed columns. A partial image only gets those that use a column
        which it has, as columns that an image lacks have not changed."""
        old = change.before
        new = change.after
        if old is not None and before is not None:
            before = {**before}
            for name, expression in self.computed.items():
                if expression.columns <= old.keys():
                    before[name] = expression.cell(self.source.id, old)
        if new is not None and after is not None:
            after = {**after}
            whole = {**(old or {}), **new}
            is_insert = change.op is Op.INSERT
            for name, expression in self.computed.items():
                takes = expression.columns
                if is_insert or not takes or takes & new.keys():
                    after[name] = self._computed(name, expression, whole)
        return before, after

    def _computed(self, name: str, expression: Expression, row: Row) -> Cell:
        try:
            return expression.cell(self.source.id, row)
        except KeyError as lacking:
            column = lacking.args[0]
            raise DataError(
                f"mapper[i].expression.{name} takes column {column}, which a row of "
                f"{self.source.id} does not have"
            ) from None
