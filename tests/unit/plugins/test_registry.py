"""Converters by name: the built-in ones, and those that another package adds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.errors import ConfigError, ConversionError
from cdcbus.plugins.registry import CONVERTER_GROUP, converter_names, make_converter

PLUGIN = """
class Shout:
    def to_bytes(self, change):
        return change.table.id.table.upper().encode()

    def from_bytes(self, value):
        return []
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package beside ours, as pip leaves it: a module, and metadata with an entry point."""
    (tmp_path / "shouting.py").write_text(PLUGIN)
    metadata = tmp_path / "shouting-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{CONVERTER_GROUP}]\nshout = shouting:Shout\ncanalRow = shouting:Shout\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shouting", raising=False)
    return "shout"


def test_the_built_in_converters_have_porter_s_names() -> None:
    assert isinstance(make_converter("canalRow"), CanalRow)
    assert isinstance(make_converter("oggJson"), OggJson)


@pytest.mark.parametrize(
    "name", ["canalCompat", "porterCompat", "debeziumJson", "maxwellJson", "porterJson", "auto"]
)
def test_every_built_in_name_makes_a_converter(name: str) -> None:
    assert name in converter_names()
    with pytest.raises(ConversionError):
        make_converter(name).from_bytes(b"?")


def test_a_package_adds_a_converter_by_entry_point(installed: str) -> None:
    assert type(make_converter(installed)).__name__ == "Shout"


@pytest.mark.usefixtures("installed")
def test_a_built_in_name_cannot_be_taken_over() -> None:
    assert isinstance(make_converter("canalRow"), CanalRow)


@pytest.mark.usefixtures("installed")
def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigError,
        match=r"no converter is called canalrow; known are oggJson, canalRow, .*, auto, shout$",
    ):
        make_converter("canalrow")
