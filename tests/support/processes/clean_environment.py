"""A virtual environment as `pip install cdcbus` makes it, without the minutes and the gigabyte: it
links what cdcbus requires, directly and not, from the environment of the tests, and has nothing
else."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def make_environment(folder: Path) -> Path:
    """Its Python, with pip, and everything that cdcbus needs except cdcbus itself."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    [packages] = folder.glob("lib/python3.*/site-packages")
    for distribution in needed("cdcbus"):
        for file in distribution.files or ():
            first = file.parts[0]
            if first not in ("..", "__pycache__", "bin") and not (packages / first).exists():
                (packages / first).symlink_to(str(distribution.locate_file(first)))
    return folder / "bin" / "python"


def needed(name: str) -> Iterator[Distribution]:
    """What a distribution requires here, directly and not, without itself."""
    seen = {canonicalize_name(name)}
    waiting: list[tuple[Distribution, tuple[str, ...]]] = []
    waiting.append((importlib.metadata.distribution(name), ("",)))
    while waiting:
        distribution, extras = waiting.pop()
        for requirement in map(Requirement, distribution.requires or ()):
            marker, key = requirement.marker, canonicalize_name(requirement.name)
            is_wanted = not marker or any(marker.evaluate({"extra": each}) for each in extras)
            if is_wanted and key not in seen:
                seen.add(key)
                found = importlib.metadata.distribution(requirement.name)
                waiting.append((found, ("", *requirement.extras)))
                yield found
