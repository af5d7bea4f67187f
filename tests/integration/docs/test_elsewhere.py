"""What no reader types, asked as far as it can be: what make would do, and the options of measures."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.integration.docs.reading import READ, ROOT, commands

pytestmark = pytest.mark.integration
LINES = sorted({line for page in READ for line in commands(page)})


def said(words: list[str]) -> str:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("python -m tests.")])
def test_what_measures_has_the_options_of_the_docs(line: str) -> None:
    module, *words = line.removeprefix("python -m ").partition(" -- ")[0].split()
    options = re.findall(r"--[\w-]+", said([sys.executable, "-m", module, "--help"]))
    assert [word for word in words if word.startswith("--") and word not in options] == []


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make ")])
def test_make_knows_what_it_would_do(line: str) -> None:
    assert said([*line.split(), "--dry-run", "--always-make"])
