"""Each tests/golden/dist/<name>.json gives exactly <name>.properties.

A new case needs no code: write the JSON, run with CDCBUS_WRITE_GOLDEN=1, and read what was written.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Diagnostics, Severity
from cdcbus.tasks.config.parser import read_entries
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.porter.dist_json import parse_dist, properties_lines

CASES = sorted((Path(__file__).parents[3] / "golden" / "dist").glob("*.json"))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORD = st.text("abcdefXYZ019_-", min_size=1, max_size=8)


def text_of(config: dict[str, Any]) -> str:
    return "".join(f"{line}\n" for line in properties_lines(config))


def written(config: dict[str, Any]) -> dict[str, str]:
    """The entries of the task file, as they are written there."""
    diagnostics = Diagnostics()
    return {
        key: entry.written
        for key, entry in read_entries(text_of(config), {}, diagnostics, Severity.NOTE).items()
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    result = text_of(parse_dist(path.read_text(encoding="utf-8")))
    expected = path.with_suffix(".properties")
    if "CDCBUS_WRITE_GOLDEN" in os.environ:
        expected.write_text(result, encoding="utf-8")
    assert result == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_only_unknown_fields_are_reported_as_unknown(path: Path) -> None:
    diagnostics = inspect_text(
        text_of(parse_dist(path.read_text(encoding="utf-8")))
    ).diagnostics.found
    unknown = [
        diagnostic.key
        for diagnostic in diagnostics
        if diagnostic.sentence.startswith("unknown key")
    ]
    assert len(unknown) == (10 if path.stem == "unknown-fields" else 0)


def test_there_are_cases() -> None:
    assert len(CASES) >= 3


@given(st.dictionaries(WORD, TEXT), st.dictionaries(WORD, TEXT))
def test_every_value_is_read_back(source: dict[str, str], columns: dict[str, str]) -> None:
    """Blanks at the end and remarks are the reader's to answer, so they are not in this."""
    source = {key: f"{value}." for key, value in source.items() if "#" not in value}
    columns = {key: f"{value}." for key, value in columns.items() if "#" not in value}
    found = written(
        {"taskId": "1", "consumer": {"source": source}, "mapper": [{"column": columns}]}
    )
    expected = {f"consumer.source.{key}": value for key, value in source.items()}
    expected |= {f"mapper[0].column.{key}": value for key, value in columns.items()}
    assert found == {"taskId": "1"} | expected


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), ANY_JSON, max_size=4))
def test_every_unknown_field_is_reported(config: dict[str, Any]) -> None:
    fields = {f"x.{name}": value for name, value in config.items()}
    diagnostics = inspect_text(text_of(fields)).diagnostics.found
    for name in fields:
        shown = "".join(
            character if character.isprintable() else repr(character)[1:-1] for character in name
        )
        assert any(
            diagnostic.key.startswith(shown) or "half a character" in diagnostic.sentence
            for diagnostic in diagnostics
        )


def test_numbers_stay_as_they_are_written() -> None:
    assert written(parse_dist('{"taskId": 9007199254740993, "x": 1.50, "y": 1E400}')) == {
        "taskId": "9007199254740993",
        "x": "1.50",
        "y": "1E400",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "line 1, column 2: not JSON"),
        ("", "line 1, column 1: not JSON"),
        ("[]", "not a task; expected one JSON object"),
        ('{"loader": {"source": {"url": "a", "url": "b"}}}', "field 'url' is given twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_task_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match="^" + sentence.replace("(", r"\(")):
        parse_dist(text)


def test_an_empty_known_field_is_no_line_and_an_empty_unknown_one_is() -> None:
    fields: dict[str, Any] = {
        "taskId": "1",
        "nodeId": "",
        "mapper": [],
        "receiver": None,
        "loader": {"source": {}},
    }
    config = fields | {"steps": [], "hint": None}
    assert written(config) == {"taskId": "1", "hint": "", "steps": ""}
