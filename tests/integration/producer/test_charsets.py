"""Every character set that the source knows gives the text that the server itself gives: the server is the oracle for each character."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.charsets import decoder
from tests.integration.producer.reading import connect

pytestmark = [pytest.mark.integration, pytest.mark.source]

# Without a codec in Python: their columns stop the task by name.
UNREADABLE = {"dec8", "hp8", "swe7", "armscii8", "geostd8", "keybcs2"}
# Characters that Python's codec does not have: private use, NEC and IBM extensions.
GAPS = {"ujis": 1880, "eucjpms": 2054}


@pytest.fixture(scope="module")
def characters(source: Database) -> Iterator[Cursor]:
    """A cursor with a temporary table of all characters but the surrogates."""
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS cdcbus_charsets")
        cursor.execute("USE cdcbus_charsets")
        cursor.execute("CREATE TEMPORARY TABLE characters (c VARCHAR(1) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)")
        points = [
            point
            for point in (*range(0x10000), *range(0x1F300, 0x1F700), *range(0x20000, 0x20100))
            if not 0xD800 <= point < 0xE000 and point != 0xFFFD
        ]
        for start in range(0, len(points), 8000):
            cursor.execute(
                "INSERT INTO characters VALUES " + ",".join(f"(_utf32 x'{point:08x}')" for point in points[start : start + 8000])
            )
        yield cursor
        cursor.execute("DROP DATABASE cdcbus_charsets")


def charsets(cursor: Cursor) -> list[str]:
    cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
    return [name for (name,) in cursor.fetchall() if name != "binary"]


def test_every_character_that_a_character_set_holds_is_read(characters: Cursor) -> None:
    wrong = {}
    for charset in charsets(characters):
        if charset in UNREADABLE:
            continue
        decode = decoder(charset, "c")
        characters.execute(
            f"SELECT c, CAST(CONVERT(c USING {charset}) AS BINARY) FROM characters"
            f" WHERE BINARY CONVERT(CONVERT(c USING {charset}) USING utf8mb4) = BINARY c"
        )
        found = [(text, raw, decode(raw)) for text, raw in characters.fetchall()]
        assert len(found) > 120, f"{charset}: the server holds too few characters for this to test anything"
        if bad := [(f"U+{ord(text):04X}", raw.hex(), shown) for text, raw, shown in found if text != shown]:
            wrong[charset] = bad
    for charset, gap in GAPS.items():
        assert len(wrong.pop(charset, ())) <= gap
    assert wrong == {}


def test_character_sets_without_a_codec_stop_by_name(characters: Cursor) -> None:
    for charset in UNREADABLE & set(charsets(characters)):
        with pytest.raises(UnreadableEvent, match=f"column c has character set {charset}"):
            decoder(charset, "c")
