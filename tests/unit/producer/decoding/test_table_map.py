"""Table maps, put together here byte by byte; what real servers send is in tests/golden/source."""

from __future__ import annotations

import pytest
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.event_types import packed_integer
from cdcbus.producer.decoding.column_types import BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR
from cdcbus.producer.decoding.table import decodable
from cdcbus.producer.decoding.table_map import TableMap, parse, table_id, table_name

CHARSETS = {8: "latin1", 28: "gbk", 45: "utf8mb4", 63: "binary"}


def table_map(
    types: bytes, meta: bytes, *metadata: tuple[int, bytes], table: str = "orders"
) -> bytes:
    """A TABLE_MAP event's body."""
    name = table.encode()
    head = (
        (77).to_bytes(6, "little")
        + b"\x01\x00"
        + b"\x04shop\x00"
        + bytes((len(name),))
        + name
        + b"\x00"
    )
    columns = (
        bytes((len(types),)) + types + bytes((len(meta),)) + meta + bytes((len(types) + 7) // 8)
    )
    return head + columns + b"".join(bytes((kind, len(value))) + value for kind, value in metadata)


def strings(*values: str) -> bytes:
    return b"".join(bytes((len(value.encode()),)) + value.encode() for value in values)


def read(
    types: bytes, meta: bytes, *metadata: tuple[int, bytes], is_mariadb: bool = False
) -> TableMap:
    return parse(table_map(types, meta, *metadata), CHARSETS, is_mariadb=is_mariadb)


def test_name_and_number_are_read_alone() -> None:
    body = table_map(bytes((TYPE.LONG,)), b"", table="größe")
    assert table_name(body) == TableId("shop", "größe")
    assert table_id(body) == 77


def test_without_optional_metadata_it_is_not_complete() -> None:
    found = read(bytes((TYPE.LONG, TYPE.VARCHAR)), b"\x2c\x01")
    assert not found.is_complete
    assert not found.has_signs
    assert [(column.name, column.type, column.meta) for column in found.columns] == [
        ("", TYPE.LONG, (0, 0)),
        ("", TYPE.VARCHAR, (300, 0)),
    ]


def test_signedness_counts_only_numeric_columns() -> None:
    types = bytes((TYPE.LONG, TYPE.DATE, TYPE.TINY, TYPE.YEAR, TYPE.DOUBLE, TYPE.LONGLONG))
    found = read(
        types, b"\x08", (1, bytes((0b01101000,))), (4, strings("a", "b", "c", "d", "e", "f"))
    )
    assert [column.name for column in found.columns if column.unsigned] == ["c", "d", "f"]
    assert found.has_signs


@pytest.mark.parametrize(
    ("names", "signs", "is_mariadb", "hidden"),
    [
        (("id", "a", "DB_ROW_HASH_1", "DB_ROW_HASH_2"), 0b0011_0000, True, [2, 3]),
        (("id", "DB_ROW_HASH_1", "b", "DB_ROW_HASH_2"), 0b0101_0000, True, [3]),
        # columns of the table's own
        (("id", "a", "b", "DB_ROW_HASH_1"), 0b0000_0000, True, []),
        (("id", "a", "b", "db_row_hash_1"), 0b0001_0000, True, []),
        (("id", "a", "b", "DB_ROW_HASH_1"), 0b0001_0000, False, []),
        (tuple(f"DB_ROW_HASH_{number}" for number in range(1, 5)), 0b1111_0000, True, [1, 2, 3]),
    ],
)
def test_the_hashes_of_long_unique_keys_are_hidden(
    names: tuple[str, ...], signs: int, is_mariadb: bool, hidden: list[int]
) -> None:
    types = bytes((TYPE.LONGLONG,) * 4)
    found = read(types, b"", (1, bytes((signs,))), (4, strings(*names)), is_mariadb=is_mariadb)
    assert [number for number, column in enumerate(found.columns) if column.is_hidden] == hidden
    shown = [name for number, name in enumerate(names) if number not in hidden]
    table = decodable(found)
    assert list(table.table.names) == shown
    assert len(table.readers) == 4


def test_a_default_character_set_has_exceptions_by_the_number_of_the_character_column() -> None:
    types = bytes((TYPE.VARCHAR, TYPE.LONG, TYPE.VARCHAR, TYPE.BLOB))
    found = read(
        types,
        b"\x0a\x00\x0a\x00\x02",
        (2, bytes((45, 1, 28, 2, 63))),
        (4, strings("a", "b", "c", "d")),
    )
    assert [column.charset for column in found.columns] == ["utf8mb4", "", "gbk", "binary"]


def test_character_sets_may_be_listed_one_by_one() -> None:
    found = read(
        bytes((TYPE.VARCHAR, TYPE.LONG, TYPE.VARCHAR)),
        b"\x0a\x00\x0a\x00",
        (3, bytes((8, 28))),
        (4, strings("a", "b", "c")),
    )
    assert [column.charset for column in found.columns] == ["latin1", "", "gbk"]


@pytest.mark.parametrize(
    ("kind", "is_mariadb", "counts"),
    [(TYPE.GEOMETRY, True, True), (TYPE.GEOMETRY, False, False), (VECTOR, False, True)],
)
def test_geometry_counts_as_character_column_on_mariadb_and_vector_on_mysql(
    kind: int, is_mariadb: bool, counts: bool
) -> None:
    charsets = bytes((63, 28)) if counts else bytes((28,))
    found = read(
        bytes((kind, TYPE.VARCHAR)),
        b"\x04\x0a\x00",
        (3, charsets),
        (4, strings("a", "b")),
        is_mariadb=is_mariadb,
    )
    assert found.columns[1].charset == "gbk"


def test_compressed_columns_have_metadata_and_character_sets_like_others() -> None:
    types = bytes((VARCHAR_COMPRESSED, BLOB_COMPRESSED, TYPE.VARCHAR))
    found = read(
        types,
        b"\xb1\x04\x02\x0a\x00",
        (3, bytes((45, 63, 28))),
        (4, strings("a", "b", "c")),
        is_mariadb=True,
    )
    assert [(column.meta, column.charset) for column in found.columns] == [
        ((1201, 0), "utf8mb4"),
        ((2, 0), "binary"),
        ((10, 0), "gbk"),
    ]


def test_labels_have_a_character_set_of_their_own() -> None:
    types = bytes((TYPE.STRING, TYPE.STRING, TYPE.STRING))
    meta = bytes((TYPE.SET, 1, TYPE.ENUM, 1, 0xFE, 10))
    gbk, latin1 = "漢".encode("gbk"), "é".encode("latin-1")
    sets, enums = bytes((1, len(gbk))) + gbk, bytes((2, len(latin1))) + latin1 + b"\x01x"
    found = read(
        types,
        meta,
        (2, b"\x2d"),
        (4, strings("s", "e", "c")),
        (5, sets),
        (6, enums),
        (11, bytes((28, 8))),
    )
    assert [(column.name, column.type, column.labels) for column in found.columns] == [
        ("s", TYPE.SET, ("漢",)),
        ("e", TYPE.ENUM, ("é", "x")),
        ("c", TYPE.STRING, ()),
    ]


@pytest.mark.parametrize(("kind", "value"), [(8, bytes((1, 0))), (9, bytes((1, 0, 0, 10)))])
def test_the_key_is_named_in_its_order_with_prefixes_or_without(kind: int, value: bytes) -> None:
    found = read(bytes((TYPE.LONG, TYPE.LONG)), b"", (4, strings("a", "b")), (kind, value))
    assert found.key == ("b", "a")


def test_the_length_of_a_long_char_is_put_together() -> None:
    found = read(bytes((TYPE.STRING,)), bytes((0xFE ^ 0x30, 0xFC)))
    assert found.columns[0].meta == (1020, 0)


def test_bits_are_counted_over_bytes() -> None:
    assert read(bytes((TYPE.BIT,)), bytes((1, 8))).columns[0].meta == (65, 0)


@pytest.mark.parametrize(
    ("raw", "number", "size"),
    [("fa", 250, 1), ("fcfb00", 251, 3), ("fd000001", 65536, 4), ("fe" + "ff" * 8, 2**64 - 1, 9)],
)
def test_packed_integers_of_every_length(raw: str, number: int, size: int) -> None:
    assert packed_integer(bytes.fromhex("00" + raw), 1) == (number, 1 + size)


def test_types_that_do_not_fit_their_metadata_stop() -> None:
    with pytest.raises(
        UnreadableEvent,
        match=r"shop\.orders: the table map's types 03 do not fit its metadata 0a00",
    ):
        read(bytes((TYPE.LONG,)), b"\x0a\x00")
    with pytest.raises(UnreadableEvent, match="types fc do not fit its metadata 05"):
        read(bytes((TYPE.BLOB,)), b"\5")


@pytest.mark.parametrize("kind", [0xF0, TYPE.NULL])
def test_an_unknown_type_stops(kind: int) -> None:
    with pytest.raises(UnreadableEvent, match=rf"shop\.orders: column a has type {kind},"):
        decodable(read(bytes((kind,)), b"", (4, strings("a"))))


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param((4, b"\xff"), id="a length that is none"),
        pytest.param((4, b"\1a"), id="a name too few"),
        pytest.param((4, b"\1\xff"), id="a name that is no text"),
        pytest.param((8, b"\7"), id="a key of a column that is not there"),
    ],
)
def test_damaged_metadata_stops(metadata: tuple[int, bytes]) -> None:
    with pytest.raises(UnreadableEvent, match=r"shop\.orders: its table map is damaged"):
        read(bytes((TYPE.LONG, TYPE.LONG)), b"", (4, strings("a", "b")), metadata)


def test_a_collation_that_the_server_does_not_list_stops() -> None:
    with pytest.raises(
        UnreadableEvent, match=r"shop\.orders: the server does not list the collation number 9"
    ):
        read(bytes((TYPE.VARCHAR,)), b"\x0a\x00", (2, b"\x09"), (4, strings("a")))
