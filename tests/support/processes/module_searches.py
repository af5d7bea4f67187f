"""Modules that Python looks for, which takes long where they are not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


@contextmanager
def module_searches() -> Iterator[list[str]]:
    """The names of modules that are searched for inside the block, but are not loaded yet."""
    names: list[str] = []

    class Listener(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            names.append(fullname)

    listener = Listener()
    sys.meta_path.insert(0, listener)
    try:
        yield names
    finally:
        sys.meta_path.remove(listener)
