"""Whether anything can be written in a folder, such as that of the logs of tasks."""

from __future__ import annotations

import os
from pathlib import Path


def why_unwritable(folder: Path) -> str:
    """Why no file can be made in a folder, which is created when it is needed; empty if one can."""
    there = nearest(folder)
    if not there.is_dir():
        return f"{there} is not a folder"
    # Also of a file system that is read-only, as root.
    if not os.access(there, os.W_OK | os.X_OK):
        return f"this user cannot write in {there}"
    return ""


def nearest(folder: Path) -> Path:
    """The folder, or the nearest of those above it that exists."""
    there = folder.absolute()
    while not os.path.lexists(there):
        there = there.parent
    return there
