"""Settings -> the rules of `mapper[i].*`, and the event processor before them."""

from __future__ import annotations

import re

from cdcbus.plugins.transform.cells.expression import Expression, constant
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.processor import KEY as PROCESSOR_KEY
from cdcbus.plugins.transform.processor import is_python
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.plugins.transform.selectors import is_pattern, selector, targets
from cdcbus.tasks.config.guards.unsafe_rules import (
    KEEPS_BACK,
    keeping_back,
    report_column_patterns,
    report_idle_rules,
)
from cdcbus.tasks.config.keys.definition import INDEX
from cdcbus.tasks.config.keys.mapper import EXPRESSION, MASK
from cdcbus.tasks.config.keys.types import FLAG, NAMES, PAIR, TABLES, TEXT
from cdcbus.tasks.config.settings import Settings

MAPPER_KEY = re.compile(
    rf"mapper\[({INDEX})\]\.((schema|table|include|ignore|forceMatched)|(column|constant|expression|mask)\.(.+))",
    re.DOTALL,
)


def mapper_rules(settings: Settings) -> tuple[MapperRule, ...]:
    """The rules in the order of their numbers. Faults in them become diagnostics."""
    numbers: set[int] = set()
    for name in settings.entries:
        found = MAPPER_KEY.fullmatch(name)
        if found is None:
            continue
        # mapper[01] and mapper[1] would be two keys of one rule, and one of them would be lost.
        if found[1] != str(int(found[1])):
            settings.reject(
                name, f"a number with leading zeros; expected mapper[{int(found[1])}].{found[2]}"
            )
        elif settings.has(name):
            numbers.add(int(found[1]))
        elif KEEPS_BACK.fullmatch(name):
            settings.unsafe(name, "empty, so nothing is withheld: give it a value, or remove it")
        else:
            settings.warn(name, "empty, the same as no line: remove it, or give it a value")
    rules = {number: _rule(settings, f"mapper[{number}]") for number in sorted(numbers)}
    _report_repeated(settings, rules)
    report_column_patterns(settings)
    # Only with a full list of tables is it certain that a rule matches none of them.
    includes = settings.get("consumer.includes", TABLES)
    # A processor may move rows to other tables, which the rules are for.
    is_processed = is_python(settings.get(PROCESSOR_KEY, TEXT) or ".")
    if includes and not includes.patterns and not is_processed:
        report_idle_rules(settings, rules, includes.names)
    return tuple(rules.values())


def processor_name(settings: Settings) -> str:
    name = settings.get(PROCESSOR_KEY, TEXT) or ""
    if not name or is_python(name):
        return name
    settings.unsafe(
        PROCESSOR_KEY,
        "Java classes are not run, and rows would pass unchanged: name a Python function",
    )
    return ""


def _rule(settings: Settings, name: str) -> MapperRule:
    return MapperRule(
        schema=_pair(settings, f"{name}.schema"),
        table=_pair(settings, f"{name}.table"),
        columns=_texts(settings, f"{name}.column."),
        included=_lowered(settings, f"{name}.include"),
        ignored=_lowered(settings, f"{name}.ignore"),
        computed=_computed(settings, name),
        masks=_masks(settings, name),
        force_matched=bool(settings.get(f"{name}.forceMatched", FLAG)),
    )


def _pair(settings: Settings, name: str) -> tuple[str, str] | None:
    pair = settings.get(name, PAIR)
    if pair and is_pattern(pair[0]):
        try:
            re.compile(pair[0])
        except (re.error, RecursionError, OverflowError) as error:
            settings.reject(
                name,
                f"{pair[0]!r} is not a regular expression: {error}; expected a name, or one such "
                "as orders_[0-9]+",
            )
            return None
    return pair


def _texts(settings: Settings, prefix: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for column, key in settings.keys_below(prefix).items():
        texts[column] = settings.get(key, TEXT) or ""
    return texts


def _lowered(settings: Settings, name: str) -> frozenset[str]:
    return frozenset(column.lower() for column in settings.get(name, NAMES) or ())


def _computed(settings: Settings, name: str) -> dict[str, Expression]:
    computed: dict[str, Expression] = {}
    for column, text in _texts(settings, f"{name}.constant.").items():
        computed[column] = constant(text)
    for column, key in settings.keys_below(f"{name}.expression.").items():
        if column in computed:
            settings.reject(key, f"column {column} has a constant too; remove one of the two lines")
        if (expression := settings.get(key, EXPRESSION)) is not None:
            computed[column] = expression
    return computed


def _masks(settings: Settings, name: str) -> dict[str, Mask]:
    masks = {}
    for column, key in settings.keys_below(f"{name}.mask.").items():
        mask = settings.get(key, MASK)
        if mask is not None:
            masks[column.lower()] = mask
    return masks


def _report_repeated(settings: Settings, rules: dict[int, MapperRule]) -> None:
    seen: dict[tuple[object, ...], int] = {}
    for number, rule in rules.items():
        # The mapper takes the first rule for a table and a target, so later ones never act.
        first = seen.setdefault((*selector(rule), *targets(rule)), number)
        if first == number:
            continue
        sentence = f"without effect: mapper[{first}] is for the same tables and the same target"
        for name in keeping_back(settings, number):
            settings.unsafe(name, f"{sentence}; move the line there")
        key = "forceMatched"
        if rule.table:
            key = "table"
        elif rule.schema:
            key = "schema"
        settings.warn(f"mapper[{number}].{key}", f"{sentence}; move its lines there")
