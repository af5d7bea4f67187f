"""The workflows of GitHub follow its schema, and call what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def checked(*files: Path) -> subprocess.CompletedProcess[str]:
    tool = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    return subprocess.run([*tool, *map(str, files)], capture_output=True, text=True, check=False)


def test_workflows_follow_the_schema_of_github(tmp_path: Path) -> None:
    done = checked(*WORKFLOWS)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text(encoding="utf-8").replace("runs-on", "run-on"))
    assert checked(wrong).returncode == 1


def test_make_targets_that_they_run_are_there() -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    run = {
        target
        for file in WORKFLOWS
        for target in re.findall(r"run: make (\S+)", file.read_text(encoding="utf-8"))
    }
    assert {"lint", "sbom"} <= run <= made
