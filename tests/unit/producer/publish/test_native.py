"""The compiled part: that it is only ever a matter of speed whether it is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdcbus.producer.publish import native

ROOT = Path(__file__).parents[4]


def said(variables: dict[str, str]) -> str:
    """Why it is not used, by another process."""
    code = "from cdcbus.producer.publish import native; print(native.without() or native.make_plan)"
    environment = {**os.environ, "CDCBUS_PURE_PYTHON": "", **variables}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


@pytest.mark.skipif(native.compiled is None, reason="it is not built")
def test_it_is_used_where_it_is_built_unless_it_is_switched_off() -> None:
    assert "Plan" in said({})
    assert said({"CDCBUS_PURE_PYTHON": "1"}) == "CDCBUS_PURE_PYTHON is set"


def built(folder: Path, compiler: str) -> list[str]:
    """What is built with a compiler."""
    command = [
        sys.executable,
        "setup.py",
        "-q",
        "build_ext",
        "--build-lib",
        str(folder),
        "--build-temp",
        str(folder / "temporary"),
    ]
    subprocess.run(
        command, cwd=ROOT, env={**os.environ, "CC": compiler}, check=True, capture_output=True
    )
    return [path.name for path in folder.rglob("_native*") if path.suffix != ".o"]


def test_an_installation_without_a_compiler_is_one_all_the_same(tmp_path: Path) -> None:
    assert built(tmp_path, "/no/such/compiler") == []


@pytest.mark.skipif(native.compiled is None, reason="there is no compiler, or it is not wanted")
def test_one_build_serves_all_versions_of_python(tmp_path: Path) -> None:
    assert built(tmp_path, os.environ.get("CC", "cc")) == ["_native.abi3.so"]
