"""One concept has one name: words that were retired do not come back as names in the code. The
glossary is in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("plugins", "producer", "consumer", "tasks", "ops")
# ZooKeeper holds these names, and older nodes read them.
STORED = {"ops/alarms/state.py": {"told", "told_at"}}


def retired(pattern: str = r"`(\w+)`") -> dict[str, str]:
    """Of the glossary: each retired word -> the word in its place."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`[^|]*) \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    return {word: name for name, words in rows for word in re.findall(pattern, words)}


def retired_parts() -> dict[str, str]:
    """As `retired`, of the words that must not be a part of a name either."""
    return retired(r"`\*(\w+)\*`")


def parts(name: str) -> set[str]:
    """The words of a name: between its underscores, and of its camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names(path: Path) -> Iterator[str]:
    """The names of classes, functions, arguments, variables and attributes that a module makes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_the_glossary_has_retired_words() -> None:
    assert {"Teller", "Observation", "BatchScheduler"} <= retired().keys()
    assert {"told", "telling"} <= retired_parts().keys()


@pytest.mark.parametrize(
    "name", ["told", "_told_at", "IS_TOLD", "CannotTell", "tellsRows", "XTold"]
)
def test_a_part_of_a_name_is_found_in_each_case(name: str) -> None:
    assert parts(name) & retired_parts().keys()


def test_what_only_contains_the_letters_of_a_retired_part_is_another_word() -> None:
    assert not parts("_stellar_intellect2") & retired_parts().keys()


def test_no_retired_word_is_a_name() -> None:
    words = retired()
    found = {
        f"{path.relative_to(ROOT)}: {name} is {words[name]}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for name in names(path)
        if name in words
    }
    assert sorted(found) == []


def test_no_name_has_a_retired_part() -> None:
    words = retired_parts()
    found = {
        f"{where}: {name} has {part}: {words[part]}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for where in [str(path.relative_to(ROOT))]
        for name in names(path)
        if name not in STORED.get(where, ())
        for part in parts(name) & words.keys()
    }
    assert sorted(found) == []
