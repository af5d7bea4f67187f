"""The command line with which cdcbus starts a part of itself as a child process."""

from __future__ import annotations

import sys


def own_program(module: str, *words: str) -> list[str]:
    """`python -m module words`, without the current folder on Python's path: a folder `cdcbus` in
    it, as that of a clone, would take the place of an editable installation."""
    return [sys.executable, "-P", "-m", module, *words]
