"""porter's `dist` JSON, the whole TaskConfig that it keeps in ZooKeeper, as the lines of a task file with the same meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import javaproperties

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.keys import KEYS, find_key

CONTAINERS = frozenset(
    {
        "receiver",
        "receiver[i]",
        "consumer",
        "consumer.source",
        "consumer.eventProcessor",
        "consumer.metaSource",
        "loader",
        "loader.source",
        "mapper",
        "mapper[i]",
        "mapper[i].column",
    }
)
HEADINGS = {"consumer": "read", "loader": "write", "mapper": "names: source,target"}
SECTIONS = tuple(HEADINGS)
HEADING_WIDTH = 119
ORDER = {name: number for number, name in enumerate(KEYS)}
NUMBER = re.compile(r"\[([0-9]+)\]")


def parse_dist(text: str) -> dict[str, Any]:
    """The object that a JSON text holds; numbers stay as they are written. Raises ConfigError for anything else, and for a field that is
    given twice, as one of its values would get lost."""
    try:
        config = json.loads(text, object_pairs_hook=_once, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        raise ConfigError(f"line {error.lineno}, column {error.colno}: not JSON; expected what porter's dist node holds") from error
    except RecursionError as error:
        raise ConfigError("nested too deeply; expected what porter's dist node holds") from error
    if not isinstance(config, dict):
        raise ConfigError('not a task; expected one JSON object, as porter\'s dist node holds it; example: {"taskId":"1084", ...}')
    return config


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ConfigError(f"field {name!r} is given twice in one object; expected it once; remove the wrong one")
        fields[name] = value
    return fields


def properties_lines(config: Mapping[str, Any]) -> list[str]:
    """The lines of the task file, by section, each section in the order of the table of keys.

    Each field becomes a line, also an unknown one, so that reading the file reports it. Only known fields that are null or empty are left
    out: in a task file that is the same as no line.
    """
    pairs = sorted((pair for name, value in config.items() for pair in _flat(name, value)), key=lambda pair: _rank(pair[0]))
    lines: list[str] = []
    heading = ""
    for key, value in pairs:
        found = HEADINGS.get(_section(key), "")
        if found != heading:
            heading = found
            lines += [*[""][: len(lines)], f"# ---- {heading} ".ljust(HEADING_WIDTH, "-")]
        lines.append(javaproperties.join_key_value(key, value, ensure_ascii=not _is_whole(key + value)))
    return lines


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if _is_empty(value):
        if find_key(name) is None and NUMBER.sub("[i]", name) not in CONTAINERS:
            yield name, ""
    elif isinstance(value, dict):
        yield from (pair for field, inner in value.items() for pair in _flat(f"{name}.{field}", inner))
    elif isinstance(value, list) and any(isinstance(element, dict | list) for element in value):
        yield from (pair for number, inner in enumerate(value) for pair in _flat(f"{name}[{number}]", inner))
    elif isinstance(value, list):
        yield name, ",".join(map(_text, value))
    else:
        yield name, _text(value)


def _is_empty(value: Any) -> bool:
    """Whether a task file says it best by no line; a pair of nothings, as porter's pages send it, is nothing too."""
    return value is None or value in ("", {}) or (isinstance(value, list) and all(element is None or element == "" for element in value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _section(key: str) -> str:
    return re.split(r"[.\[]", key, maxsplit=1)[0]


def _rank(key: str) -> tuple[int, int, int, str]:
    known = find_key(key)
    number = NUMBER.search(key)
    section = SECTIONS.index(_section(key)) if _section(key) in SECTIONS else -1
    return section, int(number[1]) if number else -1, ORDER[known.name] if known else len(ORDER), key


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
