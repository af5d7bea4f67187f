import base64
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdcbus.tasks.config.encryption import KEY_FILE_VARIABLE, decrypt, encrypt
from cdcbus.tasks.config.placeholders import has_placeholder, interpolate, masked, sealed


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "key"
    file.write_bytes(Fernet.generate_key() + b"\n")
    return {KEY_FILE_VARIABLE: str(file), "A": "a"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_sealed_is_filled_with_the_key_and_with_nothing_else(
    environ: dict[str, str], text: str
) -> None:
    kept = sealed(f"s3cret{text}", environ)
    assert "s3cret" not in kept
    assert interpolate(kept, environ) == interpolate(f"s3cret{text}", environ)
    assert masked(kept) == kept
    with pytest.raises(
        ValueError,
        match=r"expected secret\.keyFile in cdcbus\.properties, or \$CDCBUS_SECRET_KEYFILE",
    ):
        interpolate(kept, {"A": "a"})


def test_placeholders_in_what_is_sealed_stay(environ: dict[str, str]) -> None:
    kept = sealed("x${env:A}y${file:/f}", environ)
    assert kept.count("${encrypted:") == 2
    assert "}${env:A}$" in kept and kept.endswith("}${file:/f}")
    assert has_placeholder(kept)
    assert sealed("${env:A}", {}) == "${env:A}"


def test_a_key_in_plain_base64_works_too(tmp_path: Path) -> None:
    file = tmp_path / "key"
    # as `openssl rand -base64 32` writes it
    file.write_bytes(base64.b64encode(b"\xfb\xef\xff" * 10 + b"xx") + b"\n")
    assert b"+" in file.read_bytes() and b"/" in file.read_bytes()
    environ = {KEY_FILE_VARIABLE: str(file)}
    assert decrypt(encrypt("s3cret", environ), environ) == "s3cret"


def test_what_is_wrong_with_a_key_is_said_without_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    token = encrypt("s3cret", environ)
    other = tmp_path / "other"
    other.write_bytes(Fernet.generate_key())
    short = tmp_path / "short"
    short.write_text("s3cret key", encoding="utf-8")
    for path, sentence in {
        other: "cannot be decrypted with the key in",
        short: "holds no key; expected 32 random bytes in base64",
        tmp_path / "none": "cannot be read: No such file",
    }.items():
        with pytest.raises(ValueError, match=sentence) as raised:
            decrypt(token, {KEY_FILE_VARIABLE: str(path)})
        assert "s3cret" not in str(raised.value) and token not in str(raised.value)
    for token in ("", "ü", "s3cret"):
        with pytest.raises(ValueError, match="cannot be decrypted"):
            decrypt(token, environ)
