"""Which archive of Spark's classes is whose, and what is left of one that cannot be made."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cdcbus.consumer.jvm.cds_archive import KEPT, archive_file, archive_option, make_archive
from cdcbus.plugins.errors import ConfigError


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two, and an empty cache."""
    monkeypatch.setenv("CDCBUS_CACHE", str(tmp_path / "cache"))
    found = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in found:
        jar.write_text(jar.name)
        os.utime(jar, (1_000, 1_000))
    return found


def other_java(folder: Path) -> Path:
    """The home of one that tells its version and can do nothing else."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 && exit\necho no '
        "room >&2\nexit 1\n"
    )
    program.chmod(0o755)
    return folder


def test_an_archive_is_for_these_jars_in_this_order(jars: list[Path]) -> None:
    first = archive_file(jars)
    assert archive_file(jars) == first
    assert archive_file(jars[::-1]) != first
    os.utime(jars[0], ns=(1_000 * 10**9, 1_000 * 10**9 + 5))
    assert archive_file(jars) == first  # an image has kept the second only
    os.utime(jars[0], (1_001, 1_001))
    assert archive_file(jars) != first


def test_an_archive_is_for_one_java(
    jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = archive_file(jars)
    monkeypatch.setenv("JAVA_HOME", str(other_java(tmp_path / "java")))
    assert archive_file(jars) != first


def test_java_is_told_of_an_archive_that_is_there(jars: list[Path]) -> None:
    assert archive_option(jars) == ""
    file = archive_file(jars)
    file.parent.mkdir(parents=True)
    file.touch()
    assert f"-XX:SharedArchiveFile={file} " in archive_option(jars)


@pytest.fixture
def older(jars: list[Path]) -> Path:
    """The folder of an archive for other jars."""
    folder = archive_file(jars).parent.with_name("older")
    folder.mkdir(parents=True)
    return folder


def test_of_all_archives_the_newest_stay_and_so_does_what_is_at_work(
    jars: list[Path], older: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installations that share a cache keep theirs. A script stands in for the training run."""
    newer = [older.with_name(f"newer {number}") for number in range(1, KEPT)]
    for number, folder in enumerate(newer, 1):
        folder.mkdir()
        os.utime(folder, (number, number))
    os.utime(older, (0, 0))
    begun = older.with_name("another.part")
    begun.mkdir()
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho classes > "$4"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    file = archive_file(jars)
    make_archive(file)
    assert {entry.name for entry in file.parent.iterdir()} == {file.name}
    assert not older.exists()
    assert all(folder.exists() for folder in newer)
    assert begun.exists()


def test_an_archive_that_java_does_not_make_is_none_and_others_stay(
    jars: list[Path], older: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = archive_file(jars)
    monkeypatch.setenv("JAVA_HOME", str(other_java(tmp_path / "java")))
    with pytest.raises(ConfigError, match=r"^cannot archive Spark's classes: "):
        make_archive(file)
    assert not file.exists()
    assert archive_option(jars) == ""
    assert older.exists()


def test_an_archive_that_is_asked_for_counts_as_new(jars: list[Path]) -> None:
    file = archive_file(jars)
    file.parent.mkdir(parents=True)
    os.utime(file.parent, (0, 0))
    make_archive(file)
    assert file.parent.stat().st_mtime > 0
