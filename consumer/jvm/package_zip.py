"""This package as a zip file, for Spark's executors, where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

PACKAGES = ("cdcbus.plugins", "cdcbus.consumer", "cdcbus.producer", "cdcbus.tasks")
"""What applies a partition, and what loads a chunk of a table directly; see
tests/unit/test_layout.py for what they import."""


def package_zip(folder: Path) -> Path:
    """A new file in `folder`, wherever the package is installed; what others have written is not
    in it."""
    file = folder / "cdcbus.zip"
    with ZipFile(file, "w", ZIP_DEFLATED) as zipped:
        zipped.write(_folder("cdcbus") / "__init__.py", Path("cdcbus", "__init__.py"))
        for package in PACKAGES:
            for source in sorted(
                found for found in _folder(package).rglob("*.*") if _is_code(found)
            ):
                zipped.write(
                    source, Path(*package.split("."), source.relative_to(_folder(package)))
                )
    return file


def _is_code(file: Path) -> bool:
    """Also what is read by the code: `.desc` of Protocol Buffers."""
    return file.suffix in (".py", ".desc")


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec and spec.submodule_search_locations
    return Path(*spec.submodule_search_locations)
