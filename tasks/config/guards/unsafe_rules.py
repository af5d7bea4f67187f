"""Finds lines of `mapper[i].*` that look as if they withheld cells, and have no effect."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.plugins.transform.selectors import is_pattern, selector, targets
from cdcbus.plugins.transform.table_list import OTHER_SEPARATOR
from cdcbus.tasks.config.keys.definition import INDEX
from cdcbus.tasks.config.keys.types import NAMES
from cdcbus.tasks.config.settings import Settings

COLUMN_LISTS = re.compile(rf"mapper\[{INDEX}\]\.(ignore|include)")
OF_A_COLUMN = re.compile(rf"mapper\[{INDEX}\]\.(?:mask|column)\.(.+)", re.DOTALL)
# The keys of a rule that withhold cells: without effect, these would reach the target in clear.
KEEPS_BACK = re.compile(rf"mapper\[{INDEX}\]\.(ignore|include|mask\..+)", re.DOTALL)


def report_column_patterns(settings: Settings) -> None:
    """Reports patterns, and names that are not separated by commas, where columns are named one by
    one: they would match only a column of that very name."""
    for name in settings.entries:
        columns: tuple[str, ...] = ()
        is_list = COLUMN_LISTS.fullmatch(name) is not None
        if is_list:
            columns = settings.get(name, NAMES) or ()
        elif found := OF_A_COLUMN.fullmatch(name):
            columns = (found[1],)
        for column in columns:
            # A space in the name of a key was escaped, so it is meant.
            if OTHER_SEPARATOR.search(column) or (is_list and re.search(r"\s", column)):
                settings.unsafe(
                    name,
                    f"{column} is read as the name of one column: separate names by commas",
                )
            elif is_pattern(column):
                settings.unsafe(
                    name,
                    f"{column} is read as the name of one column, not as a pattern: name the "
                    "columns one by one",
                )


def report_idle_rules(
    settings: Settings, rules: Mapping[int, MapperRule], includes: Collection[str]
) -> None:
    """Reports rules that withhold cells but match none of the tables (SCHEMA.TABLE) in
    `includes`."""
    mapper = Mapper(tuple(rules.values()))
    acting: set[tuple[object, ...]] = set()
    for name in includes:
        # What the mapper itself would choose, so that this check never differs from what tasks do.
        for route in mapper.routes(TableId(*name.split(".", 1))):
            acting.add(_role(route.rule))
    for number, rule in rules.items():
        if _role(rule) in acting:
            continue
        for key in keeping_back(settings, number):
            settings.unsafe(
                key,
                f"without effect: mapper[{number}] matches none of the tables in "
                "consumer.includes; correct its schema and table, or remove the line",
            )


def _role(rule: MapperRule) -> tuple[object, ...]:
    """What a rule matches and where it maps to. Of two rules with the same role only the first
    counts; `mapper_rules` reports the second."""
    return (*selector(rule), *targets(rule))


def keeping_back(settings: Settings, number: int) -> Iterator[str]:
    """The keys of a rule that withhold columns or cells."""
    for name in settings.entries:
        if name.startswith(f"mapper[{number}].") and KEEPS_BACK.fullmatch(name):
            yield name
