"""Packs this package into a zip file for Spark's executors, where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

PACKAGES = ("cdcbus.plugins", "cdcbus.consumer", "cdcbus.producer", "cdcbus.tasks")
"""The packages that apply a partition, or load a chunk of a table directly; see
tests/unit/test_layout.py for their imports."""


def package_zip(folder: Path) -> Path:
    """Writes a new zip file into `folder`, from wherever the package is installed, without files of
    other packages."""
    file = folder / "cdcbus.zip"
    with ZipFile(file, "w", ZIP_DEFLATED) as zipped:
        zipped.write(_folder("cdcbus") / "__init__.py", Path("cdcbus", "__init__.py"))
        for package in PACKAGES:
            root = _folder(package)
            for source in sorted(filter(_is_code, root.rglob("*.*"))):
                inside = source.relative_to(root)
                zipped.write(source, Path(*package.split("."), inside))
    return file


def _is_code(file: Path) -> bool:
    """Whether a file is code, or read by the code: `.desc` of Protocol Buffers."""
    return file.suffix in (".py", ".desc")


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec and spec.submodule_search_locations
    return Path(*spec.submodule_search_locations)
