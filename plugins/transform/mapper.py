"""Finds the rules of a task that apply to a source table, and so the target tables of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from functools import cached_property

from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.route import Route
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.plugins.transform.selectors import (
    Selector,
    has_pattern,
    leads_to,
    lowered,
    matches,
    selector,
    source_of,
    specificity,
    target_of,
    targets,
)

ANYTHING = MapperRule()


class Mapper:
    """The rules of one task. Thread-safe."""

    def __init__(
        self,
        rules: Sequence[MapperRule],
        includes: frozenset[str] = frozenset(),
        excludes: frozenset[str] = frozenset(),
        zone: tzinfo | None = None,
    ) -> None:
        """Several rules that select the same tables send their rows to several targets; if they
        also name the same target, the first counts. `includes`, `excludes`: the task's filter,
        which decides which source tables can share a target. `zone`: TIMESTAMP cells become local
        times of this zone where the target's columns have no zone; None: they stay unchanged."""
        self._zone = zone
        self._includes = includes
        self._excludes = excludes
        self._rules: dict[Selector, dict[tuple[str | None, str | None], MapperRule]] = {}
        for rule in rules:
            self._rules.setdefault(selector(rule), {}).setdefault(targets(rule), rule)
        self._routes: dict[TableId, tuple[Route, ...]] = {}

    def routes(self, source: TableId) -> tuple[Route, ...]:
        """The routes of this table's rows, by the rules of the most specific selector: schema and
        table, table only, schema only, any; within each of these a name before a pattern."""
        if source not in self._routes:
            rules = self._selected(source)
            self._routes[source] = tuple(self._route(source, rule) for rule in rules)
        return self._routes[source]

    def _route(self, source: TableId, rule: MapperRule) -> Route:
        is_shared = self._is_shared(source, target_of(rule, source))
        return Route(source, rule, is_shared, self._zone)

    def _selected(self, source: TableId) -> Iterable[MapperRule]:
        matching = [each for each in self._rules if matches(each, source)]
        if not matching:
            return [ANYTHING]
        # `max` returns the first of equally specific selectors, so the task file's order decides.
        return self._rules[max(matching, key=specificity)].values()

    def _is_shared(self, source: TableId, target: TableId) -> bool:
        """Whether rows of another source table go to the target too, as far as rules and filter
        show. The other tables are those of `includes` where it names some, else those that rules
        name, each pattern standing for several. A table without a rule counts only in `includes`:
        otherwise any new name could be that of another source table."""
        if self._includes:
            sharing = self._included_by_target.get(lowered(target), set())
            return bool(sharing - {lowered(source)})
        leading = self._leading_to(target)
        if any(map(has_pattern, leading)):
            return True
        others = set[TableId]()
        for rule in leading:
            if rule.schema or rule.table:
                others.add(lowered(source_of(rule, target)))
        others.discard(lowered(source))
        return any(self._sends(other, target) for other in others)

    def _leading_to(self, target: TableId) -> list[MapperRule]:
        found: list[MapperRule] = []
        for rules in self._rules.values():
            for rule in rules.values():
                if leads_to(rule, target):
                    found.append(rule)
        return found

    def _sends(self, other: TableId, target: TableId) -> bool:
        """Whether rows of a table that a rule names really go to the target: the filter can leave
        the table out, or a more specific rule can send its rows elsewhere."""
        if str(other).upper() in self._excludes:
            return False
        targets_of_other = [target_of(rule, other) for rule in self._selected(other)]
        return lowered(target) in map(lowered, targets_of_other)

    @cached_property
    def _included_by_target(self) -> dict[TableId, set[TableId]]:
        """The source tables of `includes` by their targets, both in lower case."""
        found: dict[TableId, set[TableId]] = {}
        for name in self._includes:
            schema, _, table = name.partition(".")
            source = lowered(TableId(schema, table))
            for rule in self._selected(source):
                found.setdefault(lowered(target_of(rule, source)), set()).add(source)
        return found
