"""Where Spark's driver finds its classes.

The jars of Janino, Spark's compiler of what it generates, are signed: Java checks all that it loads
from them, 366 classes at each start, and keeps none of it in a class archive. So they are used as
copies without signatures, where those were made.
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
    """All jars that Spark's driver has, in this order. Raises ConfigError as `fetch` does."""
    shipped = [
        copy if _COMPILER.fullmatch(jar.name) and (copy := _copy_of(jar)).is_file() else jar
        for jar in pyspark_jars()
    ]
    return [*kafka_connector_jars(console), *shipped]


def make_unsigned() -> None:
    """Makes the copies, unless they are there. Raises ConfigError where there is no right to
    write."""
    for jar in pyspark_jars():
        if _COMPILER.fullmatch(jar.name):
            with making(_copy_of(jar).parent) as part:
                if part:
                    _write(jar, part / jar.name)


def _copy_of(jar: Path) -> Path:
    return cache_folder() / "unsigned-jars" / f"{jar.stem}-{jar.stat().st_size}" / jar.name


def _write(jar: Path, copy: Path) -> None:
    """All but signatures, and what the manifest says of single files, which are their digests."""
    with ZipFile(jar) as signed, ZipFile(copy, "w", ZIP_DEFLATED) as written:
        for entry in signed.infolist():
            content = signed.read(entry)
            if entry.filename == _MANIFEST:
                content = re.split(rb"(?<=\n)\r?\n", content)[0]
            if not _SIGNATURE.fullmatch(entry.filename):
                written.writestr(entry, content)
    shutil.copystat(jar, copy)  # a class archive knows its jars by their times
