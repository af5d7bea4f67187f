"""The class path of Spark's driver.

The jars of Janino, which compiles Spark's generated code, are signed: Java verifies every class
that it loads from them, 366 at each start, and keeps none of them in a CDS archive. So they are
used as copies without signatures, where those have been made.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

from cdcbus.consumer.jvm.maven import cache_folder, kafka_connector_jars, making, pyspark_jars

if TYPE_CHECKING:
    from rich.console import Console

_COMPILER = re.compile(r"(janino|commons-compiler)-[0-9][^/]*\.jar")
_SIGNATURE = re.compile(r"META-INF/[^/]*\.(SF|RSA|DSA|EC)")
_MANIFEST = "META-INF/MANIFEST.MF"


def class_path(console: Console | None = None) -> list[Path]:
    """All jars of Spark's driver, in order. Raises what `fetch` raises."""
    shipped = [_unsigned(jar) for jar in pyspark_jars()]
    return [*kafka_connector_jars(console), *shipped]


def _unsigned(jar: Path) -> Path:
    """The copy of a jar without signatures, where there is one; else the jar itself."""
    if not _COMPILER.fullmatch(jar.name):
        return jar
    copy = _copy_of(jar)
    return copy if copy.is_file() else jar


def make_unsigned() -> None:
    """Makes the copies, unless they exist. Raises ConfigError without the right to write."""
    for jar in pyspark_jars():
        if _COMPILER.fullmatch(jar.name):
            with making(_copy_of(jar).parent) as part:
                if part:
                    _write(jar, part / jar.name)


def _copy_of(jar: Path) -> Path:
    return cache_folder() / "unsigned-jars" / f"{jar.stem}-{jar.stat().st_size}" / jar.name


def _write(jar: Path, copy: Path) -> None:
    """Copies everything except signatures and the manifest's entries for single files, which are
    their digests."""
    with ZipFile(jar) as signed, ZipFile(copy, "w", ZIP_DEFLATED) as written:
        for entry in signed.infolist():
            content = signed.read(entry)
            if entry.filename == _MANIFEST:
                content = re.split(rb"(?<=\n)\r?\n", content)[0]
            if not _SIGNATURE.fullmatch(entry.filename):
                written.writestr(entry, content)
    # A CDS archive identifies its jars by their times.
    shutil.copystat(jar, copy)
