"""Converts porter's `dist` JSON, the whole TaskConfig that it stores in ZooKeeper, to the lines of
an equivalent task file, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import javaproperties

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.task import KEYS, find_key
from cdcbus.tasks.config.parser import is_whole
from cdcbus.tasks.config.placeholders import has_placeholder

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
# Remarks above the sections of an exported task file.
HEADINGS = {"consumer": "read", "loader": "write", "mapper": "names: source,target"}
SECTIONS = dict(zip(HEADINGS, count()))
HEADING_WIDTH = 119
ORDER = dict(zip(KEYS, count()))
NUMBER = re.compile(r"\[([0-9]+)\]")
# A key of a task file: the list that holds it, the number of the element, the object in that
# element, and the field.
IN_LIST = re.compile(r"(mapper|receiver)\[([0-9]+)\](?:\.(column))?\.(.+)", re.DOTALL)
IN_OBJECT = re.compile(
    r"(?:(consumer)(?:\.(source|eventProcessor|metaSource))?|(loader)(?:\.(source))?)\.(.+)",
    re.DOTALL,
)
# In these objects porter stores every value as a string.
STRING_MAPS = ("source", "metaSource", "column")


def is_dist(file: Path, text: str) -> bool:
    """Whether a file holds JSON, not the lines of a task file."""
    return file.suffix == ".json" or text.lstrip()[:1] in ("{", "[")


def read_dist(file: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ConfigError that names the file."""
    try:
        return parse_dist(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read: {error.strerror}; check its name and rights"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: not UTF-8 text; expected the content of a dist znode of porter"
        ) from error
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def parse_dist(text: str) -> dict[str, Any]:
    """The object in a JSON text; numbers stay as they are written. Raises ConfigError for anything
    else, and for a field that is given twice, as one of its values would be lost."""
    try:
        # Numbers as text, so that a long one or 1.0 comes out as it went in.
        config = json.loads(
            text, object_pairs_hook=_once, parse_int=str, parse_float=str, parse_constant=str
        )
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"line {error.lineno}, column {error.colno}: not JSON; expected the content of a dist "
            "znode of porter"
        ) from error
    except RecursionError as error:
        raise ConfigError(
            "nested too deeply; expected the content of a dist znode of porter"
        ) from error
    if not isinstance(config, dict):
        raise ConfigError(
            "not a task; expected one JSON object, as in a dist znode of porter; example: "
            '{"taskId":"1084", ...}'
        )
    return config


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ConfigError(
                f"field {name!r} is given twice in one object; expected it once; remove the wrong "
                "one"
            )
        fields[name] = value
    return fields


def properties_lines(config: Mapping[str, Any]) -> list[str]:
    """The lines of the task file, by section, each section in the order of the table of keys.

    Each field becomes a line, even an unknown one, so that reading the file reports it. Only known
    fields that are null or empty are left out, as in a task file that equals no line.
    """
    pairs: list[tuple[str, str]] = []
    for name, field in config.items():
        pairs += _flat(name, field)
    pairs.sort(key=lambda pair: _rank(pair[0]))
    lines: list[str] = []
    heading = ""
    for key, value in pairs:
        found = HEADINGS.get(_section(key), "")
        if found != heading:
            heading = found
            if lines:
                lines.append("")
            lines.append(f"# ---- {heading} ".ljust(HEADING_WIDTH, "-"))
        lines.append(
            javaproperties.join_key_value(key, value, ensure_ascii=not is_whole(key + value))
        )
    return lines


def properties_text(config: Mapping[str, Any]) -> str:
    """The whole task file."""
    return "".join(f"{line}\n" for line in properties_lines(config))


def dist_object(pairs: Mapping[str, str]) -> dict[str, Any]:
    """The dist object for a task file's known and unknown keys with their texts, which must be
    valid. Numbers, flags and pairs are in porter's form, placeholders as written. The elements of a
    list keep their order, not their numbers."""
    config: dict[str, Any] = {}
    lists: dict[str, dict[int, dict[str, Any]]] = {}
    for name, text in pairs.items():
        key = find_key(name)
        if key is None:
            config[name] = text
        elif text.strip() and (found := IN_LIST.fullmatch(name)):
            element = lists.setdefault(found[1], {}).setdefault(int(found[2]), {})
            _put(element, list(filter(None, found.groups()[2:-1])), found[4], key, text)
        elif text.strip() and (found := IN_OBJECT.fullmatch(name)):
            _put(config, list(filter(None, found.groups()[:-1])), found[5], key, text)
        elif text.strip():
            _put(config, [], name, key, text)
    for name, elements in lists.items():
        config[name] = [elements[number] for number in sorted(elements)]
    return config


def _put(container: dict[str, Any], path: list[str], field: str, key: Key, text: str) -> None:
    for step in path:
        if not isinstance(container.get(step), dict):
            # Replaces an unknown key of that name, which has no effect.
            container[step] = {}
        container = container[step]
    # A placeholder stays text, whatever the key holds.
    is_typed = key.value_type.name in ("number", "true/false", "pair") and not has_placeholder(text)
    if not is_typed or (path and path[-1] in STRING_MAPS):
        container[field] = text
    else:
        container[field] = key.value_type.read(text.strip())


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if _is_empty(value):
        # An unknown field becomes a line even if it is empty, so that it is reported.
        if find_key(name) is None and NUMBER.sub("[i]", name) not in CONTAINERS:
            yield name, ""
    elif isinstance(value, dict):
        for field, inner in value.items():
            yield from _flat(f"{name}.{field}", inner)
    # Lists of objects are numbered keys, lists of plain values are one value with commas.
    elif isinstance(value, list) and any(isinstance(element, dict | list) for element in value):
        for number, inner in enumerate(value):
            yield from _flat(f"{name}[{number}]", inner)
    elif isinstance(value, list):
        yield name, ",".join(map(_text, value))
    else:
        yield name, _text(value)


def _is_empty(value: Any) -> bool:
    """Whether a value should be left out of a task file. So should a list of empty values, which
    porter's pages send for an empty pair."""
    if isinstance(value, list):
        return all(element is None or element == "" for element in value)
    return value is None or value in ("", {})


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = str(value)
    # JSON's spelling, not Python's.
    if isinstance(value, bool):
        return text.lower()
    return text


def _section(key: str) -> str:
    return re.split(r"[.\[]", key, maxsplit=1)[0]


def _rank(key: str) -> tuple[int, int, int, str]:
    # Keys without a section come first, those without a number before the elements of lists.
    section = SECTIONS.get(_section(key), -1)
    number = -1
    if found := NUMBER.search(key):
        number = int(found[1])
    # Unknown keys come last.
    place = len(ORDER)
    if known := find_key(key):
        place = ORDER[known.name]
    return section, number, place, key
