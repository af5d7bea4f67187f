"""The classes of Spark's JVM as Java holds them in memory, in a file that each JVM maps: it need
not find, parse and verify them.

Java calls this application class-data sharing. An archive fits one Java and one class path; where
it does not, Java starts without, and says nothing, as it is told to.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cdcbus.consumer.jvm.maven import cache_folder, java, making
from cdcbus.plugins.errors import ConfigError

# Without a word, and where the archive expects to be: Java would map it elsewhere, and write all
# its addresses anew, 110 MB for each JVM. A Java that knows no such option makes no archive.
MAPPED = (
    "-Xlog:cds=off -Xlog:cds+dynamic=off -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
)

KEPT = 3  # of all archives


def archive_file(jars: Sequence[Path]) -> Path:
    """Where the archive for a class path that begins with these jars is, or would be. Raises
    ConfigError when there is no Java."""
    # Images keep full seconds.
    found = [
        f"{file} {stat.st_size} {int(stat.st_mtime)}"
        for file in (java().resolve(), *jars)
        for stat in [file.stat()]
    ]
    return (
        cache_folder()
        / "spark-classes"
        / hashlib.sha256("\n".join(found).encode()).hexdigest()[:12]
        / "classes.jsa"
    )


def archive_option(jars: Sequence[Path]) -> str:
    """Java's options to use the archive; none where it was not made."""
    file = archive_file(jars)
    return f"-XX:SharedArchiveFile={file} {MAPPED}" if file.is_file() else ""


def make_archive(file: Path) -> None:
    """Makes what `archive_file` names, unless it is there: it takes most of a minute, and some
    170 MB. The KEPT of all stay that were made or asked for last, as installations may share a
    cache. Raises ConfigError when Java does not make it."""
    with making(file.parent) as part:
        if part is None:
            with suppress(OSError):  # a cache that somebody else fills, maybe read only
                os.utime(file.parent)
            return
        _training_run(part / file.name)
        others = [
            other
            for other in file.parent.parent.iterdir()
            if other.is_dir() and other.suffix != part.suffix
        ]
        # another installation has made one at the same time, and removes them
        with suppress(FileNotFoundError):
            for other in sorted(others, key=lambda folder: folder.stat().st_mtime)[: 1 - KEPT]:
                shutil.rmtree(other, ignore_errors=True)


def _training_run(file: Path) -> None:
    log = file.with_suffix(".log")
    with log.open("wb") as output:
        command = [sys.executable, "-m", "cdcbus.consumer.cds_training", str(file)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its Java as well
    if code or not file.is_file():
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        reason = said[-1] if said else "no word was said"
        raise ConfigError(f"cannot archive Spark's classes: {reason}; all of it: {log}")
    with file.open("rb") as archive:
        os.fsync(archive.fileno())  # Java breaks down when it maps a part of an archive
    log.unlink()
