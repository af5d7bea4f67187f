"""The public API: complete, lazy, described, and there on Spark's executors as well."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cdcbus

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", cdcbus.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(cdcbus, name) is not None


def test_type_checkers_see_the_names_that_are_given_out() -> None:
    tree = ast.parse(Path(str(cdcbus.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted([*seen, "__version__"]) == cdcbus.__all__ == sorted(cdcbus.__dir__())


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        cdcbus.nothing  # noqa: B018


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys, cdcbus; print([name for name in sys.modules if name.startswith('cdcbus.')])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        == "[]\n"
    )


def test_the_page_describes_each_name_and_no_other() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    described = re.findall(r"^- ((?:`[A-Za-z_]+`(?:, )?)+)", page, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(described))) == cdcbus.__all__
