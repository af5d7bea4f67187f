"""The route from one source table to one target table: how each column is named there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import tzinfo
from typing import Final

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import ConfigError, UnmappedColumn
from cdcbus.plugins.rowchange import Column, Table, TableId, Unclear
from cdcbus.plugins.transform.cells.expression import Expression
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.label_texts import label_texts
from cdcbus.plugins.transform.local_times import local_times
from cdcbus.plugins.transform.plan import Conversion, Plan
from cdcbus.plugins.transform.refusals import (
    lacking_columns,
    refuse_twice,
    refuse_unclear,
    refuse_without_key,
)
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.plugins.transform.selectors import target_of

MAX_PLANS: Final = 10_000


class Route:
    """The route of rows from one source table to one target table. Thread-safe."""

    def __init__(
        self, source: TableId, rule: MapperRule, is_shared: bool, zone: tzinfo | None = None
    ) -> None:
        self.source = source
        self.rule = rule
        self.zone = zone
        self.is_shared = is_shared
        self.target = target_of(rule, source)
        self._plans: dict[int, Plan] = {}

    def plan(self, source: Table, target: TargetTable, is_dropping: bool = False) -> Plan:
        """The plan by which rows of `source` become rows of `target`. `is_dropping`: columns that
        the target lacks are left out, whatever the rule says.

        Raises UnmappedColumn for source columns that the target lacks, unless they are left out;
        ConversionError for ambiguous cells; ConfigError.
        """
        plan = self.known_plan(source, target)
        if plan is None:
            plan = self._new_plan(source, target, is_dropping or not self.rule.force_matched)
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            self._plans[id(source)] = plan
        return plan

    def known_plan(self, source: Table, target: TargetTable) -> Plan | None:
        """The plan of an earlier call, None without one. Plans are kept by the source table's
        identity, which costs less per row than comparing columns. The plan holds the table, so no
        other table can have its identity."""
        plan = self._plans.get(id(source))
        if plan and plan.source is source and plan.target is target:
            return plan
        return None

    def passing_plan(self, source: Table, target: TargetTable) -> Plan:
        """The plan for rows that are only looked at: the known one, else one that leaves out
        columns that the target lacks, and is not kept."""
        return self.known_plan(source, target) or self._new_plan(source, target, is_dropping=True)

    def wanted(self, column: str) -> str | None:
        """The target name of a source column, as the task file has it; the target can lack it.
        None: the column is left out."""
        lower = column.lower()
        if lower in self.rule.ignored:
            return None
        if self.rule.included and lower not in self.rule.included:
            return None
        return self._renamed(column)

    def _renamed(self, column: str) -> str:
        renamed = any_case(self.rule.columns, column)
        if renamed is None:
            return column
        return self.rule.columns[renamed]

    def columns(self, source: Table) -> list[Column]:
        """The columns, under their target names, that a target must have for rows of `source`."""
        return [*self._copied_columns(source).values(), *self._computed_columns()]

    def _copied_columns(self, source: Table) -> dict[str, Column]:
        """Source column -> the column under the target's name. A computed column replaces one that
        is only copied."""
        computed = {name.lower() for name in self.rule.computed}
        columns: dict[str, Column] = {}
        for column in source.columns:
            name = self.wanted(column.name)
            if name is None or name.lower() in computed:
                continue
            written = replace(column, name=name)
            mask = self.rule.masks.get(column.name.lower())
            if mask:
                # A masked cell is not ambiguous.
                written = replace(written, unclear=Unclear.NOTHING)
                if mask.kind == "hash":
                    written = replace(written, mysql_type="char(64)", is_bound=False)
            columns[column.name] = written
        return columns

    def _computed_columns(self) -> list[Column]:
        return list(map(Column, self.rule.computed))

    def _new_plan(self, source: Table, target: TargetTable, is_dropping: bool) -> Plan:
        copied = self._copied_columns(source)
        computed = self._computed_columns()
        dropped = self._lacking(copied, computed, target, is_dropping)
        columns: list[Column] = []
        names: dict[str, str | None] = dict.fromkeys(source.names)
        for name, column in copied.items():
            written = _written(column, target)
            if written is not None:
                refuse_unclear(source.id, name, column, target, written.name)
                names[name] = written.name
                columns.append(written)
        spelled = {name.lower(): name for name in source.names}
        expressions = {}
        for column in computed:
            written = _written(column, target)
            if written is not None:
                expressions[written.name] = self.rule.computed[column.name].bound(spelled)
                columns.append(written)

        refuse_twice(source.id, target.id, names)
        left_out = self._left_out_of_key(source, target, {*names.values(), *expressions})
        refuse_without_key(source.id, target.id, left_out)
        masks = self._masks(source, target, names)
        unmasked = {column: name for column, name in names.items() if column not in masks}
        converted: dict[str, Conversion] = {
            **local_times(self.zone, source, target, unmasked),
            **label_texts(source, target, unmasked),
        }
        is_renaming = any(name != column for column, name in names.items())
        return Plan(
            source,
            target,
            table=replace(source, id=target.id, columns=tuple(columns), key=target.key),
            names=names,
            known=frozenset(names),
            is_same=not (is_renaming or expressions or masks or converted),
            computed=expressions,
            masks=masks,
            dropped=tuple(dropped),
            is_shared=self.is_shared,
            converted=converted,
            loose=_loose(source, target, names, expressions),
        )

    def _lacking(
        self,
        copied: Mapping[str, Column],
        computed: Iterable[Column],
        target: TargetTable,
        is_dropping: bool,
    ) -> list[str]:
        """The needed columns that the target lacks. Raises UnmappedColumn for them unless
        `is_dropping`."""
        lacking: dict[str, Column] = {}
        for name, column in copied.items():
            if any_case(target.columns, column.name) is None:
                lacking[name] = column
        lacking_computed: list[Column] = []
        for column in computed:
            if any_case(target.columns, column.name) is None:
                lacking_computed.append(column)
        if (lacking or lacking_computed) and not is_dropping:
            raise UnmappedColumn(lacking_columns(self.source, target, lacking, lacking_computed))
        return [column.name for column in (*lacking.values(), *lacking_computed)]

    def _left_out_of_key(
        self, source: Table, target: TargetTable, written: Collection[str | None]
    ) -> list[str]:
        """The source columns that the rule leaves out although their names are in the target's key,
        unless another column is written there."""
        unwritten = [name for name in target.key if name in target.columns and name not in written]
        left_out: list[str] = []
        for name in source.names:
            is_of_key = any_case(unwritten, self._renamed(name)) is not None
            if is_of_key and self.wanted(name) is None:
                left_out.append(name)
        return left_out

    def _masks(
        self, source: Table, target: TargetTable, names: Mapping[str, str | None]
    ) -> dict[str, Mask]:
        """Source column -> its mask. Raises ConfigError for a key column whose mask makes different
        cells equal."""
        masks: dict[str, Mask] = {}
        for column, name in names.items():
            mask = self.rule.masks.get(column.lower())
            if mask is None:
                continue
            if name in target.key and not mask.keeps_difference:
                raise ConfigError(
                    f"mapper[i].mask.{column}: column {name} is part of the key of target table "
                    f"{target.id}, and with this mask rows of {source.id} would become one: use "
                    "hash"
                )
            masks[column] = mask
        return masks


def _loose(
    source: Table,
    target: TargetTable,
    names: Mapping[str, str | None],
    expressions: Mapping[str, Expression],
) -> dict[str, frozenset[str]]:
    """See `Plan.loose`. Nothing where records do not name the source's key."""
    found: dict[str, frozenset[str]] = {}
    if not source.key:
        return found
    # Writers can spell a column otherwise in the key.
    own = {column.lower() for column in source.key}
    made_of = {name: frozenset((column,)) for column, name in names.items() if name is not None}
    for name, expression in expressions.items():
        made_of[name] = expression.columns
    for name in target.key:
        columns = made_of.get(name, frozenset())
        if not own.issuperset(map(str.lower, columns)):
            found[name] = columns
    return found


def _written(column: Column, target: TargetTable) -> Column | None:
    """The column in the target's spelling; None where the target lacks it, or generates it from
    other columns."""
    name = any_case(target.columns, column.name)
    if name is None or target.columns[name].is_generated:
        return None
    return replace(column, name=name, unclear=Unclear.NOTHING)


def any_case(names: Iterable[str], wanted: str) -> str | None:
    """The name itself, else the first that differs only in case; None without one."""
    names = list(names)
    if wanted in names:
        return wanted
    lower = wanted.lower()
    for name in names:
        if name.lower() == lower:
            return name
    return None
