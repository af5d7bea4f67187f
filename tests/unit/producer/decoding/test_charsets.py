"""Character sets: that every one gives the server's text is checked against the server, in the
integration test of `charsets`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.decoding.charsets import _CODECS, _TABLES, decoder, encoded, sql_text


def test_binary_is_one_character_per_byte() -> None:
    assert [ord(character) for character in decoder("binary", "c")(bytes(range(256)))] == list(
        range(256)
    )


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("utf8mb4", b"a\xffb", r"a\xffb"),
        ("utf8mb4", b"\xed\xa0\x80", r"\xed\xa0\x80"),
        ("ascii", b"\xe9", r"\xe9"),
        ("gbk", b"\xba\xba\xff", r"汉\xff"),
        ("utf16", b"\x00a\xd8", r"a\xd8"),
        ("utf32", b"\x00\x00\x00a\x00\x11\x00\x00", r"a\x00\x11\x00\x00"),
        ("swe7", b"a\x7f\xff", r"a\x7f\xff"),
        ("geostd8", b"\xc0\xff", r"ა\xff"),
        ("ujis", b"\xb0\xa1\xff\x8f", r"亜\xff\x8f"),
        ("eucjpms", b"\xad\xff\xad\xa1", r"\xad\xff①"),
    ],
)
def test_an_undecodable_byte_is_shown_and_stops_nothing(
    charset: str, raw: bytes, text: str
) -> None:
    assert decoder(charset, "c")(raw) == text


@pytest.mark.parametrize("charset", sorted({*_CODECS, *_TABLES, "binary"}))
@given(raw=st.binary(max_size=60))
def test_no_bytes_stop_a_character_set_or_give_what_cannot_be_sent(
    charset: str, raw: bytes
) -> None:
    text = decoder(charset, "c")(raw)
    text.encode()  # no lone surrogate: JSON and UTF-8 take it
    assert bool(text) == bool(raw)


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        (
            "latin1",
            bytes((0x80, 0x81, 0x8D, 0x8F, 0x90, 0x9D, 0x9F, 0xE9)),
            "€\x81\x8d\x8f\x90\x9dŸé",
        ),
        ("swe7", b"@[\\]^`{|}~", "ÉÄÖÅÜéäöåü"),
        ("ujis", b"\xa1\xc0", "\\"),
        ("ujis", b"\xf5\xa1\xfe\xfe\x8f\xf5\xa1\x8f\xfe\xfe", "\ue000\ue3ab\ue3ac\ue757"),
        ("eucjpms", b"\xad\xa1\x8f\xf3\xf3\x8f\xf4\xfe", "①ⅰ黑"),
        ("eucjpms", b"~\x8f\xa2\xb7\xa1\xc1", "~～～"),
        ("ucs2", b"\xd8\x3d\xde\x00", "😀"),
    ],
)
def test_what_the_servers_have_otherwise_than_the_codecs(
    charset: str, raw: bytes, text: str
) -> None:
    assert decoder(charset, "c")(raw) == text


@pytest.mark.parametrize("charset", ["", "klingon"])
def test_an_unknown_character_set_is_named_with_the_column(charset: str) -> None:
    with pytest.raises(
        UnreadableEvent, match=rf"column c has character set {charset or '.unknown.'}"
    ):
        decoder(charset, "c")


@pytest.mark.parametrize("charset", ["latin1", "gbk", "sjis", "ujis", "big5", "cp1251", "utf8mb4"])
def test_a_statement_is_text_only_where_it_is_known_to_the_last_character(charset: str) -> None:
    for text in ("ALTER TABLE `t`", "größe\\n", "表ソ\\'", "Ж"):
        raw = encoded(charset, text)
        if raw is not None:
            assert sql_text(charset, raw) == text
    assert sql_text(charset, b"\xff\xff\xfe") in (None, "ÿÿþ", "яяю")


def test_a_statement_whose_character_set_does_not_tell_its_signs_is_no_text() -> None:
    assert sql_text("swe7", b"a") is None
    assert sql_text("", "ä".encode()) is None
    assert sql_text("binary", "ä".encode()) is None
    assert sql_text("", b"a") == "a"
    assert sql_text("sjis", b"\x81\x5f") is None
