"""How rows of a source table become rows of a target table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange, Table
from cdcbus.plugins.transform.cells.expression import Expression
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.local_times import LocalTime


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows of `source` become rows of `target`."""

    source: Table
    target: TargetTable
    # The table of the mapped rows: the target's columns, with types as the source has them.
    table: Table
    # Source column -> target column; None: left out.
    names: Mapping[str, str | None]
    # The source columns.
    known: frozenset[str]
    # Rows are taken as they are.
    is_same: bool
    # Target column -> what it holds.
    computed: Mapping[str, Expression]
    # By source column.
    masks: Mapping[str, Mask]
    # Wanted columns that the target lacks, under its names.
    dropped: tuple[str, ...]
    # Rows of other source tables go to the target too.
    is_shared: bool = False
    # By source column, moments that become local times; computed columns see the moments.
    local: Mapping[str, LocalTime] = field(default_factory=dict)

    def describes(self, image: Mapping[str, object] | None) -> bool:
        """Whether the source table, as its record describes it, has all columns of a row, or of
        many."""
        return image is None or self.known.issuperset(image)

    def map(self, change: RowChange) -> RowChange:
        """The same change under the target's names. Raises DataError for a row that does not fit
        its own table, or lacks a column that an expression takes; and for a truncate of a table
        that shares its target."""
        if self.is_shared and change.op is Op.TRUNCATE:
            raise DataError(
                f"TRUNCATE of {self.source.id}: target table {self.target.id} holds rows of other "
                "source tables too, and would lose them; "
                "delete the rows of this one there, then set the position behind the record"
            )
        before = self._row(change.before)
        after = self._row(change.after)
        if self.computed:
            before, after = self._with_computed(change, before, after)
        return RowChange(
            self.table, change.op, before, after, change.origin, change.row, change.is_last
        )

    def _row(self, row: Row | None) -> Row | None:
        if row is None or (self.is_same and self.known.issuperset(row)):
            return row
        if self.masks or self.local:
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
        """Masks and local times in place of the cells; a column has one of the two at most."""
        replaced = {**row}
        for column, mask in self.masks.items():
            if column in row:
                replaced[column] = mask.cell(row[column])
        for column, local in self.local.items():
            cell = row.get(column)
            if cell is not None:
                replaced[column] = local.cell(cell)
        return replaced

    def _with_computed(
        self, change: RowChange, before: Row | None, after: Row | None
    ) -> tuple[Row | None, Row | None]:
        """Adds the computed columns. A partial image only gets those that take a column which it
        has: what an image lacks has not changed."""
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
