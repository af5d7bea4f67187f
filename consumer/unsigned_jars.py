"""Spark's compiler of what it generates, as jars without signatures.

Janino's jars are signed: Java checks all that it loads from them, 366 classes at each start, and keeps none of it in a class archive. That
takes some tenths of a second.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from cdcbus.consumer.jars import cache_folder
from cdcbus.plugins.errors import ConfigError

_SIGNED = re.compile(r"(janino|commons-compiler)-[0-9][^/]*\.jar")
_SIGNATURE = re.compile(r"META-INF/[^/]*\.(SF|RSA|DSA|EC)")
_MANIFEST = "META-INF/MANIFEST.MF"


def unsigned(jars: Sequence[Path]) -> list[Path]:
    """The jars, some as the copies that `make_unsigned` has made."""
    return [copy if _SIGNED.fullmatch(jar.name) and (copy := _copy_of(jar)).is_file() else jar for jar in jars]


def make_unsigned(jars: Sequence[Path]) -> None:
    """Makes copies, in the cache, of those that are better without. Raises ConfigError where nothing can be written."""
    for jar in jars:
        if _SIGNED.fullmatch(jar.name) and not (copy := _copy_of(jar)).is_file():
            part = copy.with_name(f"{copy.name}.{os.getpid()}")
            try:
                copy.parent.mkdir(parents=True, exist_ok=True)
                _write(jar, part)
            except OSError as error:
                raise ConfigError(f"no copy of {jar.name} can be written to {copy.parent}: {error.strerror}") from error
            shutil.copystat(jar, part)  # a class archive knows its jars by their times
            part.rename(copy)


def _copy_of(jar: Path) -> Path:
    return cache_folder() / "unsigned-jars" / f"{jar.stem}-{jar.stat().st_size}.jar"


def _write(jar: Path, copy: Path) -> None:
    """All but signatures, and what the manifest says of single files, which are their digests."""
    with ZipFile(jar) as signed, ZipFile(copy, "w", ZIP_DEFLATED) as written:
        for entry in signed.infolist():
            content = signed.read(entry)
            if entry.filename == _MANIFEST:
                content = re.split(rb"(?<=\n)\r?\n", content)[0]
            if not _SIGNATURE.fullmatch(entry.filename):
                written.writestr(entry, content)
