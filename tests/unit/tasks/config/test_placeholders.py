from pathlib import Path

import pytest

from cdcbus.tasks.config.placeholders import has_placeholder, interpolate


def test_placeholders_stand_anywhere_in_a_value(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3c ret\n\n", encoding="utf-8")
    keyed = tmp_path / "keyed"
    keyed.write_text("a=1\ndb.password : p w\n", encoding="utf-8")
    text = f"<${{env:USER}}|${{file:{secret}}}|${{file:{keyed}:db.password}}>"
    assert has_placeholder(text)
    assert interpolate(text, {"USER": "u"}) == "<u|s3c ret|p w>"


def test_what_comes_in_is_not_looked_at_again() -> None:
    assert interpolate("${env:A}", {"A": "${env:B}", "B": "x"}) == "${env:B}"


@pytest.mark.parametrize("text", ["${other:x}", "$env:A", "${env:A", "${}", "$${x}"])
def test_other_text_stays(text: str) -> None:
    assert not has_placeholder(text)
    assert interpolate(text, {}) == text


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(ValueError, match="environment variable 'NOPE' is not set; expected"):
        interpolate("${env:NOPE}", {"OTHER": "secret"})


def test_what_is_wrong_with_a_file_is_said_without_its_content(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("top=secret\nbroken=\\u12", encoding="utf-8")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfesecret")
    for name, sentence in {
        f"${{file:{tmp_path}/nope}}": "cannot be read: No such file",
        f"${{file:{tmp_path}}}": "cannot be read: Is a directory",
        f"${{file:{file}:top}}": "is not valid",
        f"${{file:{binary}}}": "is not valid",
        "${file:nul\0}": "is not valid",
    }.items():
        with pytest.raises(ValueError, match=sentence) as raised:
            interpolate(name, {})
        assert "secret" not in str(raised.value).replace(str(file), "")
    file.write_text("top=secret", encoding="utf-8")
    with pytest.raises(ValueError, match="has no key 'nope'; expected a line nope="):
        interpolate(f"${{file:{file}:nope}}", {})
