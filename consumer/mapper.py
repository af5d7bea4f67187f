"""Source names to target names: which table a row goes to, and which columns its cells go to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cdcbus.consumer.task import MapperRule
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import ConfigError, DataError, UnmappedColumn
from cdcbus.plugins.loaders.add_column import add_column
from cdcbus.plugins.rowchange import Column, Row, RowChange, Table, TableId

ANYTHING = MapperRule()
MAX_PLANS = 10_000


class Mapper:
    """The rules of one task. Thread-safe."""

    def __init__(self, rules: Sequence[MapperRule]) -> None:
        """Of rules that select the same, the first counts."""
        self._rules = {_selector(rule): rule for rule in reversed(rules)}
        self._targets: dict[TableId, TableId] = {}
        self._plans: dict[int, _Plan] = {}

    def target(self, source: TableId) -> TableId:
        """The target table's name: the source's own, unless the rule for it says otherwise."""
        target = self._targets.get(source)
        if target is None:
            rule = self._rule(source)
            target = TableId(rule.schema[1] if rule.schema else source.schema, rule.table[1] if rule.table else source.table)
            self._targets[source] = target
        return target

    def map(self, change: RowChange, target: TargetTable) -> RowChange:
        """The same change under the target's table and column names; columns match in exact spelling first, then in any case.

        Columns that the target computes itself are left out. Raises UnmappedColumn for a source column that the target lacks, unless the
        rule says `force_matched=False`: then it is left out too.
        """
        plan = self._plans.get(id(change.table))
        if plan is None or plan.source is not change.table or plan.target is not target:
            plan = self._new_plan(change.table, target)
        return plan.apply(change)

    def _rule(self, source: TableId) -> MapperRule:
        """The one rule for a table: schema and table, table only, schema only, any."""
        schema, table = source.schema.lower(), source.table.lower()
        for selector in ((schema, table), (None, table), (schema, None), (None, None)):
            if selector in self._rules:
                return self._rules[selector]
        return ANYTHING

    def _new_plan(self, source: Table, target: TargetTable) -> _Plan:
        """Kept by the source table's identity, which costs a row less than comparing columns; the plan holds the table, so the identity
        stays its own."""
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        plan = self._plans[id(source)] = _plan(source, target, self._rule(source.id))
        return plan


@dataclass(frozen=True, slots=True)
class _Plan:
    """How rows of `source` become rows of `target`. `names`: source column -> target column, None = left out; None for `names` itself
    where all names are equal. `table` is what the mapped rows are of."""

    source: Table
    target: TargetTable
    table: Table
    names: Mapping[str, str | None] | None

    def apply(self, change: RowChange) -> RowChange:
        return RowChange(self.table, change.op, self.row(change.before), self.row(change.after), change.origin, change.row, change.is_last)

    def row(self, row: Row | None) -> Row | None:
        names = self.names
        if row is None or names is None:
            return row
        try:
            return {name: cell for column, cell in row.items() if (name := names[column]) is not None}
        except KeyError as unknown:
            raise DataError(f"a row of {self.source.id} holds column {unknown.args[0]}, which its record does not describe") from None


def _selector(rule: MapperRule) -> tuple[str | None, str | None]:
    return rule.schema[0].lower() if rule.schema else None, rule.table[0].lower() if rule.table else None


def _plan(source: Table, target: TargetTable, rule: MapperRule) -> _Plan:
    names = {column.name: _target_name(source, column, target, rule) for column in source.columns}
    _refuse_twice(source.id, target.id, names)
    columns = tuple(Column(name, c.mysql_type, c.sql_type) for c in source.columns if (name := names[c.name]) is not None)
    table = Table(target.id, columns, target.key)
    return _Plan(source, target, table, names if any(name != column for column, name in names.items()) else None)


def _target_name(source: Table, column: Column, target: TargetTable, rule: MapperRule) -> str | None:
    wanted = _any_case(rule.columns, column.name)
    name = rule.columns[wanted] if wanted is not None else column.name
    found = _any_case(target.columns, name)
    if found is None and rule.force_matched:
        cure = add_column(target, Column(name, column.mysql_type, column.sql_type))
        raise UnmappedColumn(
            f"column {column.name} of source table {source.id} has no column {name} in target table {target.id}: add it ({cure}), "
            "rename it with mapper[i].column, or set mapper[i].forceMatched=false to drop it"
        )
    return None if found is None or target.columns[found].is_generated else found


def _any_case(names: Iterable[str], wanted: str) -> str | None:
    """The name itself, else the first that differs in case only."""
    names = list(names)
    if wanted in names:
        return wanted
    return next((name for name in names if name.lower() == wanted.lower()), None)


def _refuse_twice(source: TableId, target: TableId, names: Mapping[str, str | None]) -> None:
    taken: dict[str, str] = {}
    for column, name in names.items():
        if name is not None and taken.setdefault(name, column) != column:
            raise ConfigError(f"columns {taken[name]} and {column} of source table {source} both go to column {name} of {target}")
