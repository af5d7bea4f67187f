"""docs/migration.md: keys that it names are known, on both sides."""

import fnmatch
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.foreign import canal, debezium, maxwell
from cdcbus.tasks.foreign.conversion import Rule

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
OURS = re.compile(r"`((?:consumer|loader|mapper\[i\]|alarm|kafka|taskId)[\w.\[\]<>*]*)(?:=\S+)?`")
TOOLS = {"canal": canal.RULES, "Debezium": debezium.RULES, "Maxwell": maxwell.RULES}


def rows(tool: str) -> list[tuple[str, str]]:
    """The table of keys below a tool's heading."""
    section = PAGE.split(f"\n## {tool}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (?!---)(.+?) \| (.+) \|$", section, re.MULTILINE)[1:]


def ours(text: str) -> list[str]:
    return [re.sub(r"<\w+>", "X", key) for key in OURS.findall(text)]


@pytest.mark.parametrize("tool", ["porter", "canal", "otter", "Debezium", "Maxwell"])
def test_each_tool_has_a_table_and_every_key_of_ours_in_it_is_known(tool: str) -> None:
    named = [key for _, here in rows(tool) for key in ours(here)]
    assert len(named) >= 7
    for key in named:
        assert find_key(key.replace("[i]", "[0]").replace("*", "x")), key


def test_every_key_of_ours_on_the_page_is_known() -> None:
    own = PAGE
    for tool, rules in TOOLS.items():  # the other tools' keys may look like ours
        for theirs, _ in rows(tool):
            own = own.replace(f"| {theirs} |", "|", 1)
        assert rules
    unknown = {
        key for key in ours(own) if not find_key(key.replace("[i]", "[0]").replace("*", "x"))
    }
    assert unknown == set()


@pytest.mark.parametrize("tool", TOOLS)
def test_keys_of_the_other_tool_are_imported_as_the_page_says(tool: str) -> None:
    rules: Mapping[str, Rule] = TOOLS[tool]
    for theirs, here in rows(tool):
        key = theirs.strip("`")
        rule = rules.get(key) or next(
            (each for name, each in rules.items() if fnmatch.fnmatchcase(key, name)), None
        )
        assert rule is not None, key
        assert not rule.ours or rule.ours in here, key
