"""One concept has one name: words that were retired do not come back as names in the code. The
glossary is in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("plugins", "producer", "consumer", "tasks", "ops")


def retired() -> dict[str, str]:
    """Of the glossary: each retired word -> the word in its place."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`[^|]*) \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    return {word: name for name, words in rows for word in re.findall(r"`(\w+)`", words)}


def names(path: Path) -> Iterator[str]:
    """The names of classes, functions, arguments and variables that a module makes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_the_glossary_has_retired_words() -> None:
    assert {"Teller", "Observation", "BatchScheduler"} <= retired().keys()


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
