"""Paths and commands as a user would type them."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from cdcbus.ops.stack.stack import default_home


def shown(path: Path) -> str:
    """The path, with ~ for the user's home."""
    home = Path.home()
    if not path.is_relative_to(home):
        return str(path)
    return f"~/{path.relative_to(home)}"


def command(*words: str, home: Path, rest: Sequence[str] = ()) -> str:
    """A command line of this program to paste; between its words and the rest it names the
    stack's home where it has to."""
    option: list[str] = []
    if home != default_home():
        option = ["--home", str(home)]
    return shlex.join([_program(), *words, *option, *rest])


def _program() -> str:
    """`cdcbus` if the shell finds it, else the path that was called."""
    called = Path(sys.argv[0])
    if shutil.which("cdcbus") or called.name != "cdcbus":
        return "cdcbus"
    if called.is_relative_to(Path.cwd()):
        called = called.relative_to(Path.cwd())
    return str(called)
