"""The source tables that a rule selects, and their names at the target."""

from __future__ import annotations

import re

from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.rules import MapperRule

PATTERN = re.compile(r"[\\\[\](){}*+?|^]")

# Schema and table of the source, in lower case unless a pattern; None: any.
Selector = tuple[str | None, str | None]


def is_pattern(name: str) -> bool:
    """Whether a name in a rule or a list of tables is a regular expression."""
    return PATTERN.search(name) is not None


def selector(rule: MapperRule) -> Selector:
    """The tables that a rule is for. Patterns keep their case, which matters in them: `\\d` is not
    `\\D`."""
    return _folded(rule.schema), _folded(rule.table)


def _folded(pair: tuple[str, str] | None) -> str | None:
    if pair is None:
        return None
    name, _ = pair
    if is_pattern(name):
        return name
    return name.lower()


def targets(rule: MapperRule) -> tuple[str | None, str | None]:
    """A rule's target schema and table, in lower case; None: the source's name is kept."""
    return _lowered_target(rule.schema), _lowered_target(rule.table)


def _lowered_target(pair: tuple[str, str] | None) -> str | None:
    if pair is None:
        return None
    _, name = pair
    return name.lower()


def leads_to(rule: MapperRule, target: TableId) -> bool:
    """Whether the rule can give a table this name at the target."""
    return lowered(target_of(rule, target)) == lowered(target)


def has_pattern(rule: MapperRule) -> bool:
    return any(pair and is_pattern(pair[0]) for pair in (rule.schema, rule.table))


def matches(selected: Selector, source: TableId) -> bool:
    """Whether a rule with this selector is for the source table."""
    schema, table = selected
    return _matches(schema, source.schema) and _matches(table, source.table)


def _matches(wanted: str | None, name: str) -> bool:
    if wanted is None:
        return True
    if is_pattern(wanted):
        return re.fullmatch(wanted, name, re.IGNORECASE) is not None
    return wanted == name.lower()


def specificity(selected: Selector) -> tuple[bool, bool, bool, bool]:
    """How specific a selector is, for comparison: first whether it has a table and a schema, as in
    porter; then whether these are names. The table weighs more than the schema."""
    schema, table = selected
    return (
        table is not None,
        schema is not None,
        not is_pattern(table or ""),
        not is_pattern(schema or ""),
    )


def target_of(rule: MapperRule, source: TableId) -> TableId:
    """The target name of a source table that the rule selects."""
    _, target = _ends(rule, source)
    return target


def source_of(rule: MapperRule, target: TableId) -> TableId:
    """The source table, as the rule spells it, whose rows the rule sends to this target. The rule
    must lead to it."""
    source, _ = _ends(rule, target)
    return source


def _ends(rule: MapperRule, kept: TableId) -> tuple[TableId, TableId]:
    """Source and target of a rule; where it names none, both keep the name of `kept`."""
    schemas = rule.schema or (kept.schema, kept.schema)
    tables = rule.table or (kept.table, kept.table)
    return TableId(schemas[0], tables[0]), TableId(schemas[1], tables[1])


def lowered(table: TableId) -> TableId:
    return TableId(table.schema.lower(), table.table.lower())
