"""Finds rules that withhold columns or cells, and have nothing to withhold them from: without a
table, or with names of columns that none of their tables has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.rules import MapperRule

TABLES_SHOWN = 5


def idle_columns(mapper: Mapper, tables: Mapping[TableId, Iterable[str]]) -> Iterator[str]:
    """Yields a sentence for each such column. `tables`: the columns of each source table. A column
    that only some tables of a rule have is not idle, and a rule without any table has none."""
    rules: dict[int, MapperRule] = {}
    known: dict[int, set[str]] = {}
    names: dict[int, list[str]] = {}
    for table, columns in sorted(tables.items()):
        lowered = set(map(str.lower, columns))
        for route in mapper.routes(table):
            number = id(route.rule)
            rules[number] = route.rule
            known.setdefault(number, set()).update(lowered)
            names.setdefault(number, []).append(str(table))
    for number, rule in rules.items():
        where = _listed(names[number])
        for line, column, effect in _named(rule):
            if column not in known[number]:
                yield f"{line}: there is no column {column} in {where}, so the line {effect}"


def idle_rules(
    mapper: Mapper, rules: Sequence[MapperRule], tables: Iterable[TableId]
) -> Iterator[str]:
    """Yields a sentence for each rule with such lines that none of the tables uses. `rules`: those
    of the mapper."""
    acting = {id(route.rule) for table in tables for route in mapper.routes(table)}
    for rule in rules:
        lines = [line for line, _, _ in _named(rule)]
        if lines and id(rule) not in acting:
            yield (
                f"{', '.join(dict.fromkeys(lines))} of the entry for {_selected(rule)}: none of "
                "the tables that the task reads uses the entry, so it withholds nothing"
            )


def _selected(rule: MapperRule) -> str:
    schema, table = (pair[0] if pair else "any" for pair in (rule.schema, rule.table))
    return f"schema {schema}, table {table}"


def _named(rule: MapperRule) -> Iterator[tuple[str, str, str]]:
    """The line, the column and the effect that is missing."""
    for column in sorted(rule.ignored):
        yield "mapper[i].ignore", column, "leaves nothing out"
    for column in sorted(rule.included):
        yield "mapper[i].include", column, "adds nothing"
    for column in sorted(rule.masks):
        yield f"mapper[i].mask.{column}", column, "masks nothing"


def _listed(tables: list[str]) -> str:
    more = len(tables) - TABLES_SHOWN
    if more > 0:
        return f"{', '.join(tables[:TABLES_SHOWN])} and {more} more"
    return ", ".join(tables)
