"""Finds Java, and resolves Maven artifacts from Maven Central into a cache, with the Ivy that
pyspark ships.

Every set of artifacts has a folder of its own. It is filled under another name and renamed when it
is complete, so everything in the cache is whole, even after a download was killed.
"""

import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from cdcbus.plugins.errors import NO_ROOM, CdcError, ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

OLDEST_JAVA = 17
# The environment variable with the address of a mirror to use instead of Maven Central.
MIRROR = "CDCBUS_MAVEN"
_CENTRAL = "https://repo1.maven.org/maven2/"

# Ivy's own defaults also look into ~/.m2, where a half-filled entry breaks them; these settings
# name one repository only. The two properties save two requests per artifact, for its sources and
# its documentation.
_SETTINGS = """<ivysettings>
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" root={root}/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One Maven artifact."""

    organisation: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> "Coordinate":
        """Reads `organisation:name:version`; raises ValueError for anything else."""
        organisation, name, version = text.split(":")
        return cls(organisation, name, version)

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Artifacts that are used together, with all their dependencies.

    `without` names modules to leave out, together with dependencies that only they need.
    `megabytes` is the approximate size of the download, for the progress bar (0: unknown).
    """

    label: str
    coordinates: tuple[Coordinate, ...]
    without: tuple[str, ...] = ()
    megabytes: int = 0

    @property
    def folder(self) -> Path:
        """The folder of the jars, once they are fetched."""
        text = "\n".join([*map(str, self.coordinates), "without", *sorted(self.without)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return cache_folder() / "jars" / f"{self.coordinates[0].name}-{digest}"

    def jars(self) -> list[Path]:
        """The jars by name; call `fetch` first."""
        return sorted(self.folder.glob("*.jar"))


def cache_folder() -> Path:
    """`$CDCBUS_CACHE`, or the user's cache; for root a folder that others can read, as root's
    databases run as another user."""
    if chosen := os.environ.get("CDCBUS_CACHE"):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/cdcbus")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cdcbus"


def resolve(
    coordinates: Sequence[Coordinate],
    *,
    without: Collection[str] = (),
    console: "Console | None" = None,
) -> list[Path]:
    """The jars of these artifacts and of all their dependencies; a second call for the same ones
    only reads a folder.

    Raises ConfigError when there is no Java, CdcError when a download fails.
    """
    jar_set = JarSet(coordinates[0].name, tuple(coordinates), tuple(without))
    fetch([jar_set], console)
    return jar_set.jars()


def kafka_connector_jars(console: "Console | None" = None) -> list[Path]:
    """The jars of Spark's Kafka source, for the installed pyspark, that pyspark does not ship."""
    version = importlib.metadata.version("pyspark")
    source = Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", version)
    shipped = sorted(set(map(_artifact, pyspark_jars())))
    jar_set = JarSet("Spark's Kafka source", (source,), tuple(shipped), megabytes=10)
    fetch([jar_set], console)
    return jar_set.jars()


def java() -> Path:
    """The `java` program, 17 or newer, from JAVA_HOME or else from the PATH. Raises ConfigError
    when there is none."""
    return _java(os.environ.get("JAVA_HOME"), os.environ.get("PATH"))


@contextmanager
def making(folder: Path) -> Iterator[Path | None]:
    """Yields an empty folder that becomes `folder` if the block succeeds, or None when `folder`
    exists already.

    Only one process at a time enters the block. The others wait, also for programs that a killed
    process had started with `close_fds=False` to fill the folder. Their leftovers are removed
    first.

    Raises ConfigError for a place where nothing can be written, CdcError for a full disk.
    """
    if folder.is_dir():
        yield None
        return
    part = folder.with_name(folder.name + ".part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(folder.name + ".lock").open("w")
    except OSError as error:
        raise _unwritable(folder.parent, error) from error
    with lock:
        # The lock is free once every process with the file descriptor has ended, however it ended.
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)
        if folder.is_dir():
            yield None
            return
        try:
            if part.exists():
                shutil.rmtree(part)
            part.mkdir()
        except OSError as error:
            raise _unwritable(folder.parent, error) from error
        try:
            yield part
            part.rename(folder)
        except OSError as error:
            # The block can meet other errors, as of the network.
            if error.errno not in NO_ROOM:
                raise
            raise _unwritable(folder.parent, error) from error


def _unwritable(folder: Path, error: OSError) -> CdcError:
    if error.errno in NO_ROOM:
        return CdcError(
            f"cannot fill {folder} ({error.strerror}): make room there, or choose another folder "
            "(CDCBUS_CACHE; of a stack, --home)"
        )
    return ConfigError(
        f"cannot write in {folder} ({error.strerror}): allow it, or choose another folder "
        "(CDCBUS_CACHE; of a stack, --home)"
    )


def fetch(jar_sets: Sequence[JarSet], console: "Console | None" = None) -> None:
    """Downloads the sets that are missing in the cache, side by side; shows the progress on
    `console` (else stderr).

    Raises ConfigError when there is no Java, CdcError when a download fails; complete sets stay.
    """
    missing = sorted(set(jar_sets), key=attrgetter("folder"))
    missing = [each for each in missing if not each.folder.is_dir()]
    if not missing:
        return
    # Checked before anything is announced.
    java()
    console = console or _stderr()
    total = sum(map(attrgetter("megabytes"), missing))
    size = f"about {total} MB, once; " if total else ""
    labels = ", ".join(map(attrgetter("label"), missing))
    _say(console, f"downloading {labels} from {_place()} ({size}kept in {cache_folder()})")
    with _progress(console) as progress, ExitStack() as downloads:
        waiting: dict[_Download, ExitStack] = {}
        # In the order of their folders, so that no two processes wait for each other.
        for jar_set in missing:
            own = downloads.enter_context(ExitStack())
            if download := own.enter_context(_downloading(jar_set, progress)):
                waiting[download] = own
        while waiting:
            for download in list(waiting):
                if download.advance():
                    waiting.pop(download).close()
            time.sleep(0.1)


class _Download:
    """A running Ivy, and its progress bar."""

    def __init__(self, jar_set: JarSet, part: Path, progress: "Progress") -> None:
        self.jar_set = jar_set
        self.work = part / ".ivy"
        self.work.mkdir()
        self.progress = progress
        self.task = progress.add_task(
            jar_set.label, total=jar_set.megabytes * 1_000_000 or None, note=""
        )
        self.started = time.monotonic()
        root = quoteattr(os.environ.get(MIRROR) or _CENTRAL)
        (self.work / "settings.xml").write_text(_SETTINGS.format(root=root), encoding="utf-8")
        (self.work / "ivy.xml").write_text(_module(jar_set), encoding="utf-8")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                _command(self.work, part),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                close_fds=False,
            )

    @property
    def log(self) -> Path:
        """The file with Ivy's output."""
        return self.work / "log"

    def advance(self) -> bool:
        """Shows how much has been downloaded; returns whether Ivy has ended."""
        ended = self.process.poll() is not None
        arrived = 0
        for file in self.work.rglob("*"):
            # Ivy renames complete files meanwhile.
            with suppress(FileNotFoundError):
                arrived += file.stat().st_size
        # Shown as well, as many small files come before the first jar.
        found = self.log.read_text(errors="replace").count("\tfound ")
        self.progress.update(self.task, completed=arrived, note=f"{found} parts found")
        return ended

    def finish(self) -> None:
        """Removes Ivy's own files. Raises CdcError when Ivy failed, which a later attempt may not
        do."""
        if self.process.wait() != 0:
            reason = failure(self.log.read_text(errors="replace"))
            raise CdcError(
                f"cannot download {self.jar_set.label} from {_place()}: {reason}; "
                "check the network (a proxy is named in JAVA_TOOL_OPTIONS, as "
                "-Dhttps.proxyHost=...) and try again; "
                f"Ivy's whole output: {self.log}"
            )
        size = sum(file.stat().st_size for file in self.work.parent.glob("*.jar"))
        self.progress.update(self.task, total=size, completed=size, note="")
        if not self.progress.console.is_terminal:
            seconds = time.monotonic() - self.started
            _say(
                self.progress.console,
                f"downloaded {self.jar_set.label}: {size / 1e6:.0f} MB in {seconds:.0f} s",
            )
        shutil.rmtree(self.work)


@contextmanager
def _downloading(jar_set: JarSet, progress: "Progress") -> Iterator[_Download | None]:
    """Starts Ivy; leaving the block waits for it and puts the folder in place. Yields None where
    another process has done that."""
    with making(jar_set.folder) as part:
        if part is None:
            yield None
            return
        download = _Download(jar_set, part, progress)
        try:
            yield download
            download.finish()
        finally:
            download.process.kill()
            download.process.wait()


def _place() -> str:
    """The name of the repository, not its address, which can contain a password."""
    return f"the mirror that {MIRROR} names" if os.environ.get(MIRROR) else "Maven Central"


_FAILURES = (
    r"Host \S+ not found",
    r"UnknownHostException: [\w.-]+",
    r":: \S+#\S+: not found",
    r"\w+Exception: .+",
    r"\[FAILED\s*\] .+",
    r"Error: .+",
)


def failure(log: str) -> str:
    """The line of Ivy's output that best explains why it failed."""
    for pattern in _FAILURES:
        if found := re.search(pattern, log):
            return found.group().strip(": ")
    lines = log.strip().splitlines()
    return lines[-1] if lines else "Ivy ended without output"


def _module(jar_set: JarSet) -> str:
    """The set as an Ivy module."""
    dependencies = ""
    for each in jar_set.coordinates:
        dependencies += (
            f"<dependency org={quoteattr(each.organisation)} name={quoteattr(each.name)} "
            f'rev={quoteattr(each.version)} conf="default->default"/>'
        )
    for name in jar_set.without:
        dependencies += f"<exclude module={quoteattr(name)}/>"
    return (
        '<ivy-module version="2.0"><info organisation="cdcbus" '
        f"module={quoteattr(jar_set.coordinates[0].name)}/>"
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>\n"
    )


def _command(work: Path, part: Path) -> list[str]:
    ivy = next((jar for jar in pyspark_jars() if jar.name.startswith("ivy-")), None)
    if ivy is None:
        raise ConfigError(f"no Ivy in {_pyspark_folder()}: install pyspark again")
    return [
        *(str(java()), "-jar", str(ivy)),
        *("-settings", str(work / "settings.xml"), "-cache", str(work / "cache")),
        *("-ivy", str(work / "ivy.xml"), "-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", f"{part}/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def pyspark_jars() -> list[Path]:
    """The jars of the installed pyspark, by name. Raises ConfigError when it is not installed."""
    return sorted(_pyspark_folder().glob("*.jar"))


def _pyspark_folder() -> Path:
    # Finds it without importing it, which would take a while.
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise ConfigError("pyspark is not installed: install cdcbus with its dependencies")
    return Path(package.origin).parent / "jars"


def _artifact(jar: Path) -> str:
    """`log4j-1.2-api-2.24.3.jar` -> `log4j-1.2-api`."""
    return re.sub(r"^(.+)-\d.*$", r"\1", jar.stem)


@functools.cache
def _java(home: str | None, path: str | None) -> Path:
    advice = (
        f"install Java {OLDEST_JAVA} or newer (for example openjdk-17-jre-headless), or let "
        "JAVA_HOME name one"
    )
    found = Path(home) / "bin" / "java" if home else shutil.which("java", path=path)
    if found is None or not os.access(found, os.X_OK):
        where = "there is no Java on the PATH"
        if home:
            where = f"JAVA_HOME is {home}, which has no bin/java"
        raise ConfigError(f"{where}: {advice}")
    command = [found, "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    version = java_version(answer.stderr)
    if version is None or version < OLDEST_JAVA:
        raise ConfigError(
            f"{found} is Java {version or 'of an unknown version'}, which is too old: {advice}"
        )
    return Path(found)


def java_version(said: str) -> int | None:
    """The version in the output of `java -version`: 8 for "1.8.0_402", 17 for "17.0.15"; None when
    it names none."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else None


def _stderr() -> "Console":
    from rich.console import Console

    return Console(stderr=True)


def _say(console: "Console", sentence: str) -> None:
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def _progress(console: "Console") -> "Progress":
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    name, note = TextColumn("  {task.description:<12}"), TextColumn("{task.fields[note]}")
    columns = (name, BarColumn(), DownloadColumn(), TimeElapsedColumn(), note)
    return Progress(*columns, console=console, disable=not console.is_terminal)
