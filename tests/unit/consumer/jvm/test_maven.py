import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cdcbus.consumer.jvm import maven
from cdcbus.consumer.jvm.maven import Coordinate, failure, java_version, making, resolve
from cdcbus.plugins.errors import CdcError, ConfigError

LIBRARY = Coordinate.parse("org.example:library:1.0")

# Stands in for java: `-version` says 17, else it does as Ivy does, and notes that it was called.
JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.15" 2025-04-15' >&2; exit; fi
echo x >> {calls}
{ivy}
"""
IVY = """for word; do pattern=$word; done
echo jar > "$(dirname "$pattern")/library-1.0.jar"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CDCBUS_CACHE", str(tmp_path / "cache"))
    maven._java.cache_clear()
    yield tmp_path / "cache"
    maven._java.cache_clear()


def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ivy: str = IVY) -> Path:
    """Makes java a script; returns the file with a line for each call."""
    calls = tmp_path / "calls"
    program = tmp_path / "jdk/bin/java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(JAVA.format(calls=calls, ivy=ivy))
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    return calls


def test_a_coordinate_is_read_as_it_is_written() -> None:
    assert str(LIBRARY) == "org.example:library:1.0"
    with pytest.raises(ValueError):
        Coordinate.parse("library:1.0")


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("nonsense", None),
    ],
)
def test_version_of_java(said: str, version: int | None) -> None:
    assert java_version(said) == version


def test_java_is_that_of_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, monkeypatch)
    assert maven.java() == tmp_path / "jdk/bin/java"


def test_no_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no Java on the PATH: install Java 17 or newer"):
        maven.java()


def test_java_home_without_java_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        maven.java()


def test_an_old_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, monkeypatch)
    program = tmp_path / "jdk/bin/java"
    program.write_text(program.read_text().replace("17.0.15", "1.8.0_402"))
    with pytest.raises(ConfigError, match="is Java 8, which is too old"):
        maven.java()


def test_the_second_call_starts_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    calls = fake_java(tmp_path, monkeypatch)
    first = resolve([LIBRARY])
    assert [jar.name for jar in first] == ["library-1.0.jar"]
    assert first[0].is_relative_to(cache)
    assert resolve([LIBRARY]) == first
    assert calls.read_text() == "x\n"


def test_what_is_left_out_makes_another_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, monkeypatch)
    assert resolve([LIBRARY])[0].parent != resolve([LIBRARY], without=["logging"])[0].parent


def test_a_failed_download_says_why_and_poisons_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = IVY + "echo 'java.net.UnknownHostException: central'; exit 1"
    fake_java(tmp_path, monkeypatch, half)
    with pytest.raises(
        CdcError,
        match="cannot download library from Maven Central: UnknownHostException: central",
    ):
        resolve([LIBRARY])
    fake_java(tmp_path, monkeypatch)
    assert len(resolve([LIBRARY])) == 1


@pytest.mark.parametrize("mirror", ["", "https://nexus.example/maven2/?a&b"])
def test_artifacts_come_from_maven_central_or_the_mirror_that_is_named(
    mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(maven.MIRROR, mirror)
    given = tmp_path / "given.xml"
    fake_java(tmp_path, monkeypatch, f'cp "$4" {given}\n{IVY}')
    resolve([LIBRARY])
    [resolver] = ElementTree.parse(given).iter("ibiblio")
    assert resolver.get("root") == (mirror or "https://repo1.maven.org/maven2/")


def test_ivy_is_asked_for_the_whole_set() -> None:
    text = maven._module(
        maven.JarSet("some", (LIBRARY, Coordinate("org.e&o", "b", "2")), without=("logging",))
    )
    assert (
        '<dependency org="org.example" name="library" rev="1.0" conf="default->default"/>' in text
    )
    assert 'org="org.e&amp;o"' in text
    assert '<exclude module="logging"/>' in text


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            "Server access error (java.net.UnknownHostException: central)",
            "UnknownHostException: central",
        ),
        ("WARN :: UNRESOLVED\n :: org.x#y;1: not found\n", "org.x#y;1: not found"),
        (
            "WARNINGS\n\tHost central not found. url=...\n\tmodule not found: x",
            "Host central not found",
        ),
        ("first\nlast\n", "last"),
        ("", "Ivy ended without output"),
    ],
)
def test_reason_of_a_failure(log: str, reason: str) -> None:
    assert failure(log) == reason


@pytest.mark.parametrize(
    ("file", "artifact"),
    [
        ("log4j-1.2-api-2.24.3.jar", "log4j-1.2-api"),
        ("scala-library-2.13.16.jar", "scala-library"),
        ("spark-tags_2.13-4.0.0.jar", "spark-tags_2.13"),
    ],
)
def test_artifact_of_a_jar(file: str, artifact: str) -> None:
    assert maven._artifact(Path(file)) == artifact


def test_the_connector_comes_without_what_pyspark_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(
        tmp_path, monkeypatch, IVY + 'cp "$(dirname "$pattern")/.ivy/ivy.xml" ' + str(tmp_path)
    )
    assert maven.kafka_connector_jars()
    asked = (tmp_path / "ivy.xml").read_text()
    assert 'name="spark-sql-kafka-0-10_2.13"' in asked
    assert '<exclude module="hadoop-client-api"/>' in asked
    assert '<exclude module="kafka-clients"/>' not in asked


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "a/b"
    with making(folder) as part:
        assert part is not None
        (part / "file").touch()
        assert not folder.exists()
    assert (folder / "file").exists()
    with making(folder) as part:
        assert part is None


def test_a_folder_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with pytest.raises(ZeroDivisionError), making(folder) as part:
        assert part is not None
        (part / "left over").touch()
        _ = 1 / 0
    assert not folder.exists()
    with making(folder) as part:
        assert part is not None
        assert not list(part.iterdir())


def test_only_one_makes_it(tmp_path: Path) -> None:
    made = []

    def make() -> None:
        with making(tmp_path / "a") as part:
            if part is not None:
                made.append(part)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_right_to_write_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot write in"), making(tmp_path / "a/b"):
        pass


@pytest.mark.parametrize(
    ("number", "error", "words"),
    [
        (
            errno.EROFS,
            ConfigError,
            r"cannot write in .*/a \(Read-only file system\): allow it",
        ),
        (errno.ENOSPC, CdcError, r"cannot fill .*/a \(No space left on device\): make room there"),
    ],
)
@pytest.mark.parametrize("made", ["a", "b.part"])
def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: type[CdcError],
    words: str,
    made: str,
) -> None:
    make = Path.mkdir

    def refuse(folder: Path, **options: Any) -> None:
        if folder.name == made:
            raise OSError(number, os.strerror(number))
        make(folder, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(error, match=words) as raised, making(tmp_path / "a/b"):
        pass
    assert type(raised.value) is error


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file/a/b"
    with (
        pytest.raises(ConfigError, match=r"cannot write in .*file/a \(Not a directory\)"),
        making(place),
    ):
        pass


def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CdcError, match=r"cannot fill .*: make room"), making(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
