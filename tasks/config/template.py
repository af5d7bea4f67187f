"""Makes a new task file from an example with other values, so that one text serves both. Pure,
except for reading the example."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

# A remark counts if it is a key that was commented out: nothing between # and the key.
LINE = re.compile(r"#?(?P<key>[^#!=\s]+)=(?P<value>.*)")


def example_text(route: str) -> str:
    """The example for a route such as `mysql-to-kafka`."""
    return (
        resources.files("cdcbus.tasks")
        .joinpath("examples", f"{route}.properties")
        .read_text(encoding="utf-8")
    )


def task_text(example: str, values: Mapping[str, str]) -> str:
    """The example with other values: a line `key=...` gets its value, also where it is a remark. An
    empty value turns the line into a remark, which shows what could be set. Raises KeyError for a
    key that the example lacks, because its value would be lost."""
    missing = set(values)
    text = ""
    for line in example.splitlines():
        if found := LINE.fullmatch(line):
            missing.discard(found["key"])
        text += f"{_line(line, values)}\n"
    if missing:
        raise KeyError(*sorted(missing))
    return text


def _line(line: str, values: Mapping[str, str]) -> str:
    found = LINE.fullmatch(line)
    if found is None or found["key"] not in values:
        return line
    value = values[found["key"]]
    if not value:
        return f"#{line.removeprefix('#')}"
    return f"{found['key']}={_escaped(value)}"


def _escaped(value: str) -> str:
    """The value escaped as little as the format allows: people read these files."""
    # A leading blank would be taken as part of the separator.
    return re.sub(r"^(?=[ \t\f])", r"\\", value.replace("\\", r"\\"))
