"""Spark's jars, and copies without signatures: which are taken, and what they hold."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from cdcbus.consumer.jvm import class_path as places
from cdcbus.consumer.jvm.class_path import class_path, make_unsigned

MAIN = "Manifest-Version: 1.0\r\nBundle-Name: janino\r\n"
DIGEST = "\r\nName: a/A.class\r\nSHA-256-Digest: 0=\r\n\r\n"
ENTRIES = {
    "META-INF/MANIFEST.MF": MAIN + DIGEST,
    "META-INF/KEY.SF": "Signature-Version: 1.0",
    "META-INF/KEY.RSA": "key",
    "META-INF/services/a.A": "a.B",
    "a/A.class": "class",
}


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """All that PySpark has: a signed one of the compiler's and one of somebody else's. And an
    empty cache."""
    monkeypatch.setenv("CDCBUS_CACHE", str(tmp_path / "cache"))
    found = [tmp_path / "janino-3.1.9.jar", tmp_path / "bcprov-1.80.jar"]
    for jar in found:
        with ZipFile(jar, "w") as written:
            for name, text in ENTRIES.items():
                written.writestr(name, text)
    monkeypatch.setattr(places, "kafka_connector_jars", lambda _: [])
    monkeypatch.setattr(places, "pyspark_jars", lambda: found)
    return found


def test_the_copy_has_all_but_what_signs_it_and_stands_in_its_place(jars: list[Path]) -> None:
    assert class_path() == jars  # nothing is made by asking
    make_unsigned()
    [copy, other] = class_path()
    assert (copy != jars[0], copy.name, other) == (True, jars[0].name, jars[1])
    with ZipFile(copy) as found:
        assert {name: found.read(name).decode() for name in found.namelist()} == {
            "META-INF/MANIFEST.MF": MAIN,
            "META-INF/services/a.A": "a.B",
            "a/A.class": "class",
        }
    assert copy.stat().st_mtime == jars[0].stat().st_mtime


def test_a_copy_stays_as_it_is(jars: list[Path]) -> None:
    make_unsigned()
    before = class_path()[0].stat()
    make_unsigned()
    assert class_path()[0].stat() == before


def test_another_jar_of_the_name_has_a_copy_of_its_own(jars: list[Path]) -> None:
    make_unsigned()
    before = class_path()[0]
    with ZipFile(jars[0], "a") as written:
        written.writestr("a/B.class", "class")
    assert class_path() == jars
    make_unsigned()
    assert class_path()[0] not in (before, jars[0])
    assert before.is_file()


def test_spark_has_the_compiler_s_jars_signed_and_they_are_known_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDCBUS_CACHE", str(tmp_path))
    monkeypatch.setattr(places, "kafka_connector_jars", lambda _: [])
    jars = class_path()
    make_unsigned()
    copied = [(jar, copy) for jar, copy in zip(jars, class_path(), strict=True) if jar != copy]
    assert [jar.name.rsplit("-", 1)[0] for jar, _ in copied] == ["commons-compiler", "janino"]
    for jar, copy in copied:
        with ZipFile(jar) as signed, ZipFile(copy) as found:
            left_out = {
                name for name in signed.namelist() if name.endswith((".SF", ".RSA", ".DSA", ".EC"))
            }
            assert left_out and {*found.namelist()} == {*signed.namelist()} - left_out
            assert b"-Digest:" not in found.read("META-INF/MANIFEST.MF")
