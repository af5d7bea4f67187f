"""Plug-ins by entry point: what is said of those that cannot be used, and how they are listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.transform.processor import make_processor
from tests.support.processes.plugins import add_example, add_package

BROKEN = "import a_module_that_nobody_has\n"


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two packages that add the same names."""
    for name in ("first", "second"):
        points = {
            "cdcbus.converters": {"shout": f"{name}:Shout"},
            "cdcbus.loaders": {"shelf": f"{name}:shelf"},
            "cdcbus.processors": {"rules": f"{name}:rules"},
        }
        add_package(tmp_path / name, monkeypatch, name, points)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"cdcbus.converters": {"lost": "broken_plugin:Lost", "auto": "broken_plugin:Auto"}}
    add_package(tmp_path / "broken", monkeypatch, "broken_plugin", points, BROKEN)


@pytest.mark.usefixtures("two")
def test_a_name_that_two_packages_add_is_refused_with_both() -> None:
    whose = "is added by first 1.0 and second 1.0: which one is meant cannot be told"
    with pytest.raises(ConfigError, match=f"^converter shout {whose}; uninstall one"):
        make_converter("shout")
    with pytest.raises(ConfigError, match=f"^loader shelf {whose}"):
        make_loader("shelf", JdbcTarget("x"))
    with pytest.raises(ConfigError, match=f"className=rules: event processor rules {whose}"):
        make_processor("rules")


@pytest.mark.usefixtures("broken")
def test_a_plug_in_that_is_not_imported_is_named_with_the_error() -> None:
    with pytest.raises(
        ConfigError,
        match=r"converter lost \(broken_plugin:Lost\) cannot be made: ModuleNotFoundError: .*nobody",
    ):
        make_converter("lost")


@pytest.mark.usefixtures("broken")
def test_the_list_has_what_is_installed_and_says_what_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_example("format", tmp_path / "example", monkeypatch)
    found = CliRunner().invoke(main, ["plugin", "list"])
    assert found.exit_code == 1
    assert "converter  exampleLines  example-format 1.0" in found.stdout
    assert "auto is a built-in name and stays so" in found.stderr
    assert "converter lost (broken_plugin:Lost) cannot be made" in found.stderr
    fields = json.loads(CliRunner().invoke(main, ["plugin", "list", "--json"]).stdout)
    [example] = [each for each in fields if each["name"] == "exampleLines"]
    assert example == {
        "kind": "converter",
        "name": "exampleLines",
        "value": "example_format:ExampleLines",
        "package": "example-format 1.0",
        "trouble": "",
    }


def test_without_plug_ins_the_list_says_so() -> None:
    found = CliRunner().invoke(main, ["plugin", "list"])
    assert found.exit_code == 0
    assert found.stderr == "no package adds anything to cdcbus in this environment\n"
