"""Source names to target names: which tables a row goes to, and which cells its columns get."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import ConfigError, ConversionError, DataError, UnmappedColumn
from cdcbus.plugins.loaders.add_column import add_columns
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId, Unclear
from cdcbus.plugins.transform.cells.expression import Expression
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.local_times import LocalTime, local_times
from cdcbus.plugins.transform.rules import MapperRule

ANYTHING = MapperRule()
MAX_PLANS = 10_000
PATTERN = re.compile(r"[\\\[\](){}*+?|^]")

Selector = tuple[str | None, str | None]


class Mapper:
    """The rules of one task. Thread-safe."""

    def __init__(
        self,
        rules: Sequence[MapperRule],
        includes: frozenset[str] = frozenset(),
        excludes: frozenset[str] = frozenset(),
        zone: tzinfo | None = None,
    ) -> None:
        """Several rules that select the same send rows to several tables; of those that also
        name the same target, the first counts. `includes`, `excludes`: the task's, which tell
        which source tables can share a target. `zone`: TIMESTAMP cells become times of its clocks
        where the target's columns have no zone; None: they stay as they are."""
        self._zone = zone
        self._includes = includes
        self._excludes = excludes
        self._rules: dict[Selector, dict[tuple[str | None, str | None], MapperRule]] = {}
        for rule in rules:
            self._rules.setdefault(selector(rule), {}).setdefault(targets(rule), rule)
        self._routes: dict[TableId, tuple[Route, ...]] = {}

    def routes(self, source: TableId) -> tuple[Route, ...]:
        """Where rows of this table go, by the rules of the most telling selector: schema and
        table, table only, schema only, any; within one of these a name before a pattern."""
        routes = self._routes.get(source)
        if routes is None:
            routes = tuple(self._route(source, rule) for rule in self._selected(source))
            self._routes[source] = routes
        return routes

    def _route(self, source: TableId, rule: MapperRule) -> Route:
        is_shared = self._is_shared(source, _target(rule, source))
        return Route(source, rule, is_shared, self._zone)

    def _selected(self, source: TableId) -> Iterable[MapperRule]:
        matching = [
            found
            for found in self._rules
            if _matches(found[0], source.schema) and _matches(found[1], source.table)
        ]
        if not matching:
            return [ANYTHING]
        # the first of the most telling ones, as `max` gives it
        return self._rules[max(matching, key=_specificity)].values()

    def _is_shared(self, source: TableId, target: TableId) -> bool:
        """Whether rows of another source table go to the target too, as far as rules and filter
        tell: of `includes` where there are some, else of the tables that rules name, each
        pattern standing for several. A table without a rule counts only in `includes`: else any
        new name could be that of a further source table."""
        if self._includes:
            return bool(self._included_by_target.get(_lower(target), set()) - {_lower(source)})
        leading: list[MapperRule] = []
        for rules in self._rules.values():
            leading += [rule for rule in rules.values() if leads_to(rule, target)]
        if any(_has_pattern(rule) for rule in leading):
            return True
        named = [rule for rule in leading if rule.schema or rule.table]
        others = {_lower(source_of(rule, target)) for rule in named} - {_lower(source)}
        for other in others:
            if str(other).upper() in self._excludes:
                continue
            # A rule that says more of the other table may send its rows elsewhere.
            for rule in self._selected(other):
                if _lower(_target(rule, other)) == _lower(target):
                    return True
        return False

    @cached_property
    def _included_by_target(self) -> dict[TableId, set[TableId]]:
        """The source tables of `includes`, in lower case as their targets are."""
        found: dict[TableId, set[TableId]] = {}
        for name in self._includes:
            source = _lower(TableId(*name.partition(".")[::2]))
            for rule in self._selected(source):
                found.setdefault(_lower(_target(rule, source)), set()).add(source)
        return found


class Route:
    """Rows of one source table on their way to one target table. Thread-safe."""

    def __init__(
        self, source: TableId, rule: MapperRule, is_shared: bool, zone: tzinfo | None = None
    ) -> None:
        self.source = source
        self.rule = rule
        self.zone = zone
        self.is_shared = is_shared
        self.target = _target(rule, source)
        self._plans: dict[int, Plan] = {}

    def plan(self, source: Table, target: TargetTable, is_dropping: bool = False) -> Plan:
        """How rows of `source` become rows of `target`. `is_dropping`: columns that the target
        lacks are left out, whatever the rule says.

        Raises UnmappedColumn for source columns that the target lacks, unless they are to be left
        out; ConversionError for cells that may mean something else than they read; ConfigError.
        """
        plan = self.known_plan(source, target)
        if plan is None:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            plan = self._plans[id(source)] = self._new_plan(
                source, target, is_dropping or not self.rule.force_matched
            )
        return plan

    def known_plan(self, source: Table, target: TargetTable) -> Plan | None:
        """The plan of an earlier call. Plans are kept by the source table's identity, which
        costs a row less than comparing columns; the plan holds the table, so the identity stays
        its own."""
        plan = self._plans.get(id(source))
        return plan if plan and plan.source is source and plan.target is target else None

    def passing_plan(self, source: Table, target: TargetTable) -> Plan:
        """The plan for rows that are only looked at: the known one, else one that leaves out
        what the target lacks and is not kept."""
        return self.known_plan(source, target) or self._new_plan(source, target, is_dropping=True)

    def wanted(self, column: str) -> str | None:
        """The target's name of a source column, as the task file has it; the target may lack it.
        None: it is left out."""
        lower = column.lower()
        if lower in self.rule.ignored:
            return None
        if self.rule.included and lower not in self.rule.included:
            return None
        return self._renamed(column)

    def _renamed(self, column: str) -> str:
        renamed = any_case(self.rule.columns, column)
        return column if renamed is None else self.rule.columns[renamed]

    def columns(self, source: Table) -> list[Column]:
        """The columns, under their target names, that a target must have for rows of `source`."""
        return list(self._wanted_columns(source).values())

    def _wanted_columns(self, source: Table) -> dict[str, Column]:
        """Source column, or for a computed one its own name in brackets -> the column under the
        target's name. A computed column takes the place of one that is only copied."""
        computed = {name.lower() for name in self.rule.computed}
        columns: dict[str, Column] = {}
        for column in source.columns:
            name = self.wanted(column.name)
            if name is not None and name.lower() not in computed:
                mask = self.rule.masks.get(column.name.lower())
                mysql_type = "char(64)" if mask and mask.kind == "hash" else column.mysql_type
                columns[column.name] = Column(
                    name, mysql_type, column.sql_type, Unclear.NOTHING if mask else column.unclear
                )
        return columns | {f"[{name}]": Column(name, "") for name in self.rule.computed}

    def _new_plan(self, source: Table, target: TargetTable, is_dropping: bool) -> Plan:
        wanted = self._wanted_columns(source)
        names: dict[str, str | None] = {column.name: None for column in source.columns}
        computed: dict[str, Expression] = {}
        dropped: list[str] = []
        columns: list[Column] = []
        spelled = {column.name.lower(): column.name for column in source.columns}
        there = {key: any_case(target.columns, column.name) for key, column in wanted.items()}
        missing = {key: column for key, column in wanted.items() if there[key] is None}
        if missing and not is_dropping:
            raise UnmappedColumn(self._remedy(missing, target))
        for key, column in wanted.items():
            found = there[key]
            if found is None:
                dropped.append(column.name)
                continue
            # The target computes it from what the other columns bring.
            if target.columns[found].is_generated:
                continue
            _refuse_unclear(source.id, key, column, target, found)
            columns.append(Column(found, column.mysql_type, column.sql_type))
            if key in names:
                names[key] = found
            else:
                computed[found] = self.rule.computed[column.name].bound(spelled)
        _refuse_twice(source.id, target.id, names)
        self._refuse_without_key(source, target, {*names.values(), *computed})
        masks = self._masks(source, target, names)
        copied = {column: name for column, name in names.items() if column not in masks}
        local = local_times(self.zone, source, target, copied)
        is_copied = all(name == column for column, name in names.items())
        is_same = is_copied and not computed and not masks and not local
        table = Table(target.id, tuple(columns), target.key, source.is_described)
        return Plan(
            source,
            target,
            table,
            names,
            frozenset(names),
            is_same,
            computed,
            masks,
            tuple(dropped),
            self.is_shared,
            local,
        )

    def _remedy(self, missing: Mapping[str, Column], target: TargetTable) -> str:
        """One sentence, and one statement, for all: each look that finds one more would cost the
        operator a round. `missing`: as of `_wanted_columns`."""
        copied = {key: column.name for key, column in missing.items() if not key.startswith("[")}
        computed = [column.name for key, column in missing.items() if key.startswith("[")]
        it, s = ("it", "") if len(missing) == 1 else ("them", "s")
        lacking = {column.name: column for column in missing.values()}
        remedy = f"add {it} ({add_columns(target, list(lacking.values()))})"
        computing = f"mapper[i] computes column{'s' * (len(computed) > 1)} {', '.join(computed)}"
        if not copied:
            return (
                f"{computing}, which target table {target.id} lacks: {remedy}, or remove the "
                f"line{s}"
            )
        it, s, have = ("it", "", "has") if len(copied) == 1 else ("them", "s", "have")
        return (
            f"column{s} {', '.join(copied)} of source table {self.source} {have} no column{s} "
            f"{', '.join(copied.values())} in target table "
            f"{target.id}{f', and {computing}, which it lacks too' if computed else ''}: {remedy}, "
            f"rename {it} with mapper[i].column, or set mapper[i].forceMatched=false to drop {it}"
        )

    def _refuse_without_key(
        self, source: Table, target: TargetTable, brought: Collection[str | None]
    ) -> None:
        """Raises ConfigError where the rule leaves out a part of the target's key: no row could
        be told from another."""
        lacking = [name for name in target.key if name in target.columns and name not in brought]
        left_out = [
            c.name
            for c in source.columns
            if self.wanted(c.name) is None and any_case(lacking, self._renamed(c.name)) is not None
        ]
        if left_out:
            raise ConfigError(
                f"mapper[i] leaves out column {', '.join(left_out)} of source table {source.id}, "
                "which is part of the key of target table "
                f"{target.id}: rows could not be told apart; keep it, or compute it with "
                "mapper[i].expression"
            )

    def _masks(
        self, source: Table, target: TargetTable, names: Mapping[str, str | None]
    ) -> dict[str, Mask]:
        of_rule = self.rule.masks
        masks = {name: of_rule[name.lower()] for name in names if of_rule.get(name.lower())}
        for name, mask in masks.items():
            if names[name] in target.key and not mask.keeps_difference:
                raise ConfigError(
                    f"mapper[i].mask.{name}: column {names[name]} is part of the key of target "
                    f"table {target.id}, and with this mask "
                    f"rows of {source.id} would become one: use hash"
                )
        return masks


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows of `source` become rows of `target`.

    `names`: source column -> target column, None = left out; `known`: the source columns.
    `is_same`: rows are taken as they are. `computed`: target column -> what it holds; `masks` are
    by source column. `dropped`: columns that the target lacks. `table` is what the mapped rows are
    of. `is_shared`: rows of other source tables go to the target too. `local`: by source column,
    moments that become times of a zone's clocks; computed columns see them as they were.
    """

    source: Table
    target: TargetTable
    table: Table
    names: Mapping[str, str | None]
    known: frozenset[str]
    is_same: bool
    computed: Mapping[str, Expression]
    masks: Mapping[str, Mask]
    dropped: tuple[str, ...]
    is_shared: bool = False
    local: Mapping[str, LocalTime] = field(default_factory=dict)

    def describes(self, image: Mapping[str, object] | None) -> bool:
        """Whether all columns of a row, or of many, are of the source table as its record
        describes it."""
        return image is None or self.known.issuperset(image)

    def map(self, change: RowChange) -> RowChange:
        """The same change under the target's names. Raises DataError for a row that does not fit
        its own table, or that lacks what an expression takes; for a truncate of a table that
        shares its target."""
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
        names = self.names
        if row is None or (self.is_same and self.known.issuperset(row)):
            return row
        try:
            if self.masks:
                row = {
                    column: mask.cell(cell) if (mask := self.masks.get(column)) else cell
                    for column, cell in row.items()
                }
            if self.local:
                row = {
                    column: made.cell(cell)
                    if cell is not None and (made := self.local.get(column))
                    else cell
                    for column, cell in row.items()
                }
            return {
                name: cell for column, cell in row.items() if (name := names[column]) is not None
            }
        except KeyError as unknown:
            raise DataError(
                f"a row of {self.source.id} holds column {unknown.args[0]}, which its record does "
                "not describe"
            ) from None

    def _with_computed(
        self, change: RowChange, before: Row | None, after: Row | None
    ) -> tuple[Row | None, Row | None]:
        """A partial image gets the computed columns of which it has something; what an image
        lacks has not changed."""
        old = change.before
        new = change.after
        if old is not None and before is not None:
            before = {**before}
            for name, made in self.computed.items():
                if made.columns <= old.keys():
                    before[name] = made.cell(self.source.id, old)
        if new is not None and after is not None:
            after = {**after}
            whole = {**(old or {}), **new}
            is_insert = change.op is Op.INSERT
            for name, made in self.computed.items():
                if is_insert or not made.columns or made.columns & new.keys():
                    after[name] = self._computed(name, made, whole)
        return before, after

    def _computed(self, name: str, made: Expression, row: Row) -> str | None:
        try:
            return made.cell(self.source.id, row)
        except KeyError as lacking:
            column = lacking.args[0]
            raise DataError(
                f"mapper[i].expression.{name} takes column {column}, which a row of "
                f"{self.source.id} does not have"
            ) from None


def is_pattern(name: str) -> bool:
    """Whether a source name of a rule is a regular expression."""
    return PATTERN.search(name) is not None


def selector(rule: MapperRule) -> Selector:
    """Which tables a rule is for. Patterns keep their case, in which it counts: `\\d` is not
    `\\D`."""
    return _folded(rule.schema), _folded(rule.table)


def _folded(pair: tuple[str, str] | None) -> str | None:
    if pair is None:
        return None
    name, _ = pair
    return name if is_pattern(name) else name.lower()


def targets(rule: MapperRule) -> tuple[str | None, str | None]:
    """What a rule calls schema and table at the target, in lower case."""
    schema = rule.schema[1].lower() if rule.schema else None
    table = rule.table[1].lower() if rule.table else None
    return schema, table


def leads_to(rule: MapperRule, target: TableId) -> bool:
    """Whether the rule gives rows that name."""
    return _lower(_target(rule, target)) == _lower(target)


def _has_pattern(rule: MapperRule) -> bool:
    return any(pair and is_pattern(pair[0]) for pair in (rule.schema, rule.table))


def _matches(name: str | None, found: str) -> bool:
    if name is None:
        return True
    if is_pattern(name):
        return re.fullmatch(name, found, re.IGNORECASE) is not None
    return name == found.lower()


def _specificity(found: Selector) -> tuple[bool, bool, bool, bool]:
    """Which of schema and table it has, as porter compares them; then whether these are names.
    The table weighs more than the schema."""
    schema, table = found
    return (
        table is not None,
        schema is not None,
        not is_pattern(table or ""),
        not is_pattern(schema or ""),
    )


def _target(rule: MapperRule, source: TableId) -> TableId:
    return TableId(
        rule.schema[1] if rule.schema else source.schema,
        rule.table[1] if rule.table else source.table,
    )


def source_of(rule: MapperRule, target: TableId) -> TableId:
    """The source table, as the rule spells it, whose rows the rule sends to a target that it
    leads to."""
    return TableId(
        rule.schema[0] if rule.schema else target.schema,
        rule.table[0] if rule.table else target.table,
    )


def _lower(table: TableId) -> TableId:
    return TableId(table.schema.lower(), table.table.lower())


def any_case(names: Iterable[str], wanted: str) -> str | None:
    """The name itself, else the first that differs in case only."""
    names = list(names)
    if wanted in names:
        return wanted
    return next((name for name in names if name.lower() == wanted.lower()), None)


def _refuse_twice(source: TableId, target: TableId, names: Mapping[str, str | None]) -> None:
    taken: dict[str, str] = {}
    for column, name in names.items():
        if name is not None and taken.setdefault(name, column) != column:
            raise ConfigError(
                f"columns {taken[name]} and {column} of source table {source} both go to column "
                f"{name} of {target}"
            )


TIMES = re.compile(r"date|datetime|time|timestamp|timetz|timestamptz|interval", re.IGNORECASE)
BYTES = re.compile(
    r"bytea|raw|long raw|(var|long ?)?binary|(tiny|medium|long)?blob|vector|geometry", re.IGNORECASE
)
BITS = re.compile(r"bit( varying)?|varbit", re.IGNORECASE)


def _refuse_unclear(
    source: TableId, name: str, column: Column, target: TargetTable, found: str
) -> None:
    kind = target.columns[found].type.strip('"')
    for unclear, types, meaning in (
        (Unclear.TIMES, TIMES, "a time from a number"),
        (Unclear.BYTES, BYTES, "bytes from base64"),
        (Unclear.BITS, BITS, "bits from base64"),
    ):
        if unclear in column.unclear and types.match(kind):
            # Of the formats without types, Debezium's is the one that can send them.
            types_too = (
                "send the types too (value.converter.schemas.enable=true), or "
                if Unclear.BITS in column.unclear
                else ""
            )
            raise ConversionError(
                f"column {name} of {source} comes without its type, so {meaning} cannot be told, "
                f"and column {found} of target table "
                f"{target.id} is of type {kind}: {types_too}leave it out with mapper[i].ignore"
            )
