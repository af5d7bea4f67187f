"""The CDS archive: the classes of Spark's JVM as Java holds them in memory, in a file that each JVM
maps, so that it need not find, parse and verify them.

Java calls this application class-data sharing. An archive fits one Java and one class path; where
it does not fit, Java starts without it, and silently, due to MAPPED.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cdcbus.consumer.jvm.maven import cache_folder, java, making
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.own_program import own_program

# Silently, and at the address that the archive expects: Java would otherwise map it elsewhere and
# rewrite all its addresses, 110 MB for each JVM. A Java without these options makes no archive.
MAPPED = (
    "-Xlog:cds=off -Xlog:cds+dynamic=off -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
)

# The number of archives that are kept.
KEPT = 3


def archive_file(jars: Sequence[Path]) -> Path:
    """The path of the archive for a class path that begins with these jars, whether it exists or
    not. Raises ConfigError when there is no Java."""
    found = []
    for file in (java().resolve(), *jars):
        stat = file.stat()
        # In whole seconds, as container images keep no fractions.
        found.append(f"{file} {stat.st_size} {int(stat.st_mtime)}")
    return (
        cache_folder()
        / "spark-classes"
        / hashlib.sha256("\n".join(found).encode()).hexdigest()[:12]
        / "classes.jsa"
    )


def archive_option(jars: Sequence[Path]) -> str:
    """Java's options to use the archive; empty where it has not been made."""
    file = archive_file(jars)
    return f"-XX:SharedArchiveFile={file} {MAPPED}" if file.is_file() else ""


def make_archive(file: Path) -> None:
    """Makes the archive `file`, unless it exists: it takes most of a minute, and about 170 MB.
    Removes all archives except the KEPT ones made or requested last, as installations can share a
    cache. Raises ConfigError when Java does not make it."""
    with making(file.parent) as part:
        if part is None:
            # The cache can be read-only, filled by somebody else.
            with suppress(OSError):
                os.utime(file.parent)
            return
        _training_run(part / file.name)
        others: list[Path] = []
        for other in file.parent.parent.iterdir():
            if other.is_dir() and other.suffix != part.suffix:
                others.append(other)
        # Another installation may make an archive and remove these at the same time.
        with suppress(FileNotFoundError):
            others.sort(key=lambda folder: folder.stat().st_mtime)
            for other in others[: 1 - KEPT]:
                shutil.rmtree(other, ignore_errors=True)


def _training_run(file: Path) -> None:
    log = file.with_suffix(".log")
    with log.open("wb") as output:
        command = own_program("cdcbus.consumer.cds_training", str(file))
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait()
        finally:
            # Its Java as well.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if code or not file.is_file():
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        reason = said[-1] if said else "there was no output"
        raise ConfigError(f"cannot archive Spark's classes: {reason}; the whole output: {log}")
    # Java crashes when it maps an incomplete archive.
    with file.open("rb") as archive:
        os.fsync(archive.fileno())
    log.unlink()
