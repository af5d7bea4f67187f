"""Packages of plug-ins, as pip leaves them: modules on Python's path, and metadata beside them."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def add_package(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    points: Mapping[str, Mapping[str, str]],
    code: str = "",
) -> None:
    """A package `name` 1.0 in `folder`, whose entry points are by group; with `code`, a module of
    that name."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    text = ""
    for group, own in points.items():
        text += f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in own.items())
    (metadata / "entry_points.txt").write_text(text)
    if code:
        (folder / f"{name}.py").write_text(code)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(folder)


def add_example(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of `examples/NAME`, with the entry points that its pyproject.toml names, in an
    empty `folder`."""
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text(encoding="utf-8"))
    for module in project["tool"]["setuptools"]["py-modules"]:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(EXAMPLES / name)
    add_package(folder, monkeypatch, project["project"]["name"], project["project"]["entry-points"])
