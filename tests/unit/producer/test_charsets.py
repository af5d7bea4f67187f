"""Character sets: that every one gives the server's text is checked against the server, in tests/integration/producer/test_charsets.py."""

from __future__ import annotations

import pytest

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.charsets import decoder


def test_binary_is_one_character_per_byte() -> None:
    assert [ord(character) for character in decoder("binary", "c")(bytes(range(256)))] == list(range(256))


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("utf8mb4", b"a\xffb", r"a\xffb"),
        ("ascii", b"\xe9", r"\xe9"),
        ("gbk", b"\xba\xba\xff", r"汉\xff"),
        ("utf16", b"\x00a\xd8", r"a\xd8"),
    ],
)
def test_an_undecodable_byte_is_shown_and_stops_nothing(charset: str, raw: bytes, text: str) -> None:
    assert decoder(charset, "c")(raw) == text


@pytest.mark.parametrize("charset", ["", "swe7", "klingon"])
def test_a_character_set_without_a_codec_is_named_with_the_column(charset: str) -> None:
    with pytest.raises(UnreadableEvent, match=rf"column c has character set {charset or '.unknown.'}"):
        decoder(charset, "c")
