"""Every character set that the source lists gives the text that the server itself gives: the
server is the oracle for each character."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.producer.decoding.charsets import NAMES, decoder, stored
from tests.integration.producer.reading import connect

pytestmark = [pytest.mark.integration, pytest.mark.source]

CHUNK = 8000  # rows in one statement
ANSWER_BYTES = 16 << 20


@pytest.fixture(scope="module")
def cursor(source: Database) -> Iterator[Cursor]:
    """A cursor with two temporary tables: `characters`, all but the surrogates; `codes`, all of
    one and two bytes, and three of EUC-JP."""
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"SET group_concat_max_len = {ANSWER_BYTES}")
        cursor.execute("CREATE DATABASE IF NOT EXISTS cdcbus_charsets")
        cursor.execute("USE cdcbus_charsets")
        cursor.execute(
            "CREATE TEMPORARY TABLE characters (n INT PRIMARY KEY AUTO_INCREMENT, "
            "c VARCHAR(1) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)"
        )
        points = [
            *range(0x10000),
            *range(0x10000, 0x110000, 61),
            *range(0x1F300, 0x1F700),
            *range(0x20000, 0x20100),
            0x10FFFF,
        ]
        characters = []
        for point in points:
            is_surrogate = 0xD800 <= point < 0xE000
            if not is_surrogate and point != 0xFFFD:
                characters.append(f"_utf32 x'{point:08x}'")
        insert(cursor, "characters (c)", characters)
        cursor.execute(
            "CREATE TEMPORARY TABLE codes (n INT PRIMARY KEY AUTO_INCREMENT, b VARBINARY(4))"
        )
        codes = list(map(bytes, product(range(256))))
        codes += map(bytes, product(range(256), repeat=2))
        codes += map(bytes, product([0x8F], range(0xA1, 0xFF), range(0xA1, 0xFF)))
        insert(cursor, "codes (b)", [f"x'{code.hex()}'" for code in codes])
        yield cursor
        cursor.execute("DROP DATABASE cdcbus_charsets")


def insert(cursor: Cursor, table: str, values: list[str]) -> None:
    for start in range(0, len(values), CHUNK):
        cursor.execute(
            f"INSERT INTO {table} VALUES "
            + ",".join(f"({value})" for value in values[start : start + CHUNK])
        )


def fetched(cursor: Cursor, query: str, *expressions: str) -> Iterator[tuple[bytes, ...]]:
    """The bytes that the expressions have in each row. They come as one row, as these are millions,
    and the driver reads each on its own."""
    columns = ", ".join(f"GROUP_CONCAT(HEX({each}) ORDER BY n)" for each in expressions)
    cursor.execute(f"SELECT COUNT(*), {columns} FROM {query}")
    [(count, *texts)] = cursor.fetchall()
    cells = [list(map(bytes.fromhex, (text or "").split(","))) for text in texts]
    assert {len(column) for column in cells} == {count or 1}, query
    return zip(*cells, strict=True)


def charsets(cursor: Cursor) -> list[str]:
    cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
    return [name for (name,) in cursor.fetchall() if name != "binary"]


def test_every_character_that_a_character_set_holds_is_read(cursor: Cursor) -> None:
    """From characters to bytes: also those of three and four bytes."""
    wrong = {}
    for charset in charsets(cursor):
        decode = decoder(charset, "c")
        found = []
        for character, raw in fetched(
            cursor,
            f"characters WHERE BINARY CONVERT(CONVERT(c USING {charset}) USING utf8mb4) = BINARY c",
            "c",
            f"CONVERT(c USING {charset})",
        ):
            found.append((character.decode(), raw, decode(raw)))
        assert len(found) > 120, (
            f"{charset}: the server holds too few characters for this to test anything"
        )
        if bad := [
            (f"U+{ord(text):04X}", raw.hex(), shown) for text, raw, shown in found if text != shown
        ]:
            wrong[charset] = bad
    assert wrong == {}


def test_what_a_character_set_cannot_hold_is_stored_as_the_server_stores_it(cursor: Cursor) -> None:
    """Or is not known to be."""
    wrong, known = {}, set()
    texts = [raw.decode() for (raw,) in fetched(cursor, "characters", "c")]
    for charset in {*charsets(cursor)} & NAMES:
        kept = fetched(cursor, "characters", f"CONVERT(CONVERT(c USING {charset}) USING utf8mb4)")
        found = []
        for text, (raw,) in zip(texts, kept, strict=True):
            found.append((text, raw.decode(), stored(charset, text)))
        bad = []
        for text, as_kept, told in found:
            if told == "?":
                known.add(charset)
            if told is not None and told != as_kept:
                bad.append((f"U+{ord(text):04X}", as_kept, told))
        if bad:
            wrong[charset] = bad[:50]
    assert wrong == {}
    assert {"ascii", "latin1", "utf8mb3"} <= known


def test_every_code_that_a_character_set_holds_is_read(cursor: Cursor) -> None:
    """From bytes to characters: also those that have more than one code. What the server cannot
    read either, it shows as `?`, as nothing or as U+FFFD; there it is enough that nothing stops."""
    wrong = {}
    for charset in charsets(cursor):
        decode = decoder(charset, "c")
        readable = {}
        for raw, answer in fetched(
            cursor,
            f"codes WHERE CHAR_LENGTH(CONVERT(b USING {charset})) = 1 AND CAST(CONVERT(b USING "
            f"{charset}) AS BINARY) = b",
            "b",
            f"CONVERT(CONVERT(b USING {charset}) USING utf8mb4)",
        ):
            shown, ours = answer.decode("utf-8", "replace"), decode(raw)
            if shown and "�" not in shown and (shown != "?" or ours == "?"):
                readable[raw] = shown, ours
        assert len(readable) > 120 or charset == "utf32", (
            f"{charset}: too few codes for this to test anything"
        )
        if bad := [
            (raw.hex(), shown, ours) for raw, (shown, ours) in readable.items() if shown != ours
        ]:
            wrong[charset] = bad
    assert wrong == {}
