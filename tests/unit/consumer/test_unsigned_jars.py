"""Jars without signatures: what stays, and which are taken."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from cdcbus.consumer.unsigned_jars import make_unsigned, unsigned
from cdcbus.plugins.errors import ConfigError

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
    """A signed one of the compiler's and one of somebody else's, and an empty cache."""
    monkeypatch.setenv("CDCBUS_CACHE", str(tmp_path / "cache"))
    found = [tmp_path / "janino-3.1.9.jar", tmp_path / "bcprov-1.80.jar"]
    for jar in found:
        with ZipFile(jar, "w") as written:
            for name, text in ENTRIES.items():
                written.writestr(name, text)
    return found


def test_the_copy_has_all_but_what_signs_it_and_stands_in_its_place(jars: list[Path]) -> None:
    assert unsigned(jars) == jars  # nothing is made by asking
    make_unsigned(jars)
    [copy, other] = unsigned(jars)
    assert (copy != jars[0], other) == (True, jars[1])
    with ZipFile(copy) as found:
        assert {name: found.read(name).decode() for name in found.namelist()} == {
            "META-INF/MANIFEST.MF": MAIN,
            "META-INF/services/a.A": "a.B",
            "a/A.class": "class",
        }
    assert copy.stat().st_mtime == jars[0].stat().st_mtime
    assert [*copy.parent.iterdir()] == [copy]


def test_a_copy_stays_as_it_is(jars: list[Path]) -> None:
    make_unsigned(jars)
    before = unsigned(jars)[0].stat()
    make_unsigned(jars)
    assert unsigned(jars)[0].stat() == before


def test_another_jar_of_the_name_has_a_copy_of_its_own(jars: list[Path]) -> None:
    make_unsigned(jars)
    with ZipFile(jars[0], "a") as written:
        written.writestr("a/B.class", "class")
    assert unsigned(jars) == jars


def test_it_is_said_where_no_copy_can_be_written(jars: list[Path], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    with pytest.raises(ConfigError, match=r"^no copy of janino-3.1.9.jar can be written to .*/unsigned-jars: Not a directory$"):
        make_unsigned(jars)


def test_spark_has_the_compiler_s_jars_signed_and_they_are_known_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    monkeypatch.setenv("CDCBUS_CACHE", str(tmp_path))
    make_unsigned(jars)
    copied = [(jar, copy) for jar, copy in zip(jars, unsigned(jars), strict=True) if jar != copy]
    assert [jar.name.rsplit("-", 1)[0] for jar, _ in copied] == ["commons-compiler", "janino"]
    for jar, copy in copied:
        with ZipFile(jar) as signed, ZipFile(copy) as found:
            left_out = {name for name in signed.namelist() if name.endswith((".SF", ".RSA", ".DSA", ".EC"))}
            assert left_out and {*found.namelist()} == {*signed.namelist()} - left_out
            assert b"-Digest:" not in found.read("META-INF/MANIFEST.MF")
