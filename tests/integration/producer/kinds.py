"""Column kinds for random tables: how to declare one, what to put in, and how the database itself
shows what it has made of it.

Values need not fit: the session is not strict, the server changes what it cannot keep, and SELECT
says to what.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hypothesis import strategies as st


def _as_text(ours: str, shown: Any) -> bool:
    return bool(ours == shown)


def _as_number(ours: str, shown: Any) -> bool:
    return float(ours) == float(shown)


def _as_float(ours: str, shown: Any) -> bool:
    return struct.pack("<f", float(ours)) == struct.pack("<f", shown)


def _as_bytes(ours: str, shown: Any) -> bool:
    return ours.encode("latin-1") == bytes.fromhex(shown)


@dataclass(frozen=True, slots=True)
class Kind:
    """`ddl` is the type with its attributes; `select` is how SELECT shows the column `{}`;
    `is_same` compares our text with that."""

    ddl: str
    values: st.SearchStrategy[Any] = field(repr=False)
    select: str = "CAST({} AS CHAR)"
    is_same: Callable[[str, Any], bool] = _as_text


LETTERS = st.sampled_from("aAzZ09_-'\"\\\0\n\t%;` äßéñ€ЖΩčŞאبกაբ漢字表中文あア한글①\ue000😀\u2028")
TEXT = st.text(LETTERS, max_size=30)
BYTES = st.binary(max_size=40) | st.sampled_from([b"\0\0", b"\x01\0", b"  ", bytes(range(256))])
LONG_TEXT = TEXT | st.builds(
    lambda text, count: text * count, TEXT, st.sampled_from([9, 100, 3000])
)
LONG_BYTES = BYTES | st.builds(
    lambda raw, count: raw * count, BYTES, st.sampled_from([7, 256, 3000])
)
EDGES = [
    0,
    1,
    -1,
    *(
        sign * (2**bits - less)
        for bits in (7, 8, 15, 16, 23, 24, 31, 32, 63, 64)
        for sign in (1, -1)
        for less in (0, 1)
    ),
]
INTEGERS = st.sampled_from(EDGES) | st.integers(-(2**63), 2**64 - 1)
CHARSETS = (
    *(
        "utf8mb4",
        "utf8mb3",
        "utf16",
        "utf16le",
        "utf32",
        "ucs2",
        "ascii",
        "gbk",
        "gb2312",
        "big5",
        "sjis",
        "cp932",
        "ujis",
        "eucjpms",
        "euckr",
    ),
    *(
        "latin1",
        "latin2",
        "latin5",
        "latin7",
        "cp850",
        "cp852",
        "cp866",
        "cp1250",
        "cp1251",
        "cp1256",
        "cp1257",
        "greek",
        "hebrew",
        "koi8r",
    ),
    *(
        "koi8u",
        "tis620",
        "macroman",
        "macce",
        "dec8",
        "hp8",
        "swe7",
        "keybcs2",
        "geostd8",
        "armscii8",
    ),
)
CHARSETS_MYSQL = (*CHARSETS, "gb18030")
BINARY = "HEX({})"


def _time_text(limit_seconds: int) -> st.SearchStrategy[str]:
    """[-]HHH:MM:SS.ffffff"""

    def text(micros: int, negative: bool) -> str:
        seconds, fraction = divmod(micros, 1_000_000)
        return f"{'-' * negative}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"

    return st.builds(text, st.integers(0, limit_seconds * 1_000_000), st.booleans())


DATES = st.dates().map(str) | st.sampled_from(
    ["0000-00-00", "2024-00-00", "2024-02-00", "2024-02-30", "9999-12-31", "1000-01-01"]
)
DATETIMES = st.datetimes().map(str) | st.builds(
    "{} {}".format, DATES, st.sampled_from(["00:00:00", "23:59:59.999999", "12:00:00.5"])
)
TIMESTAMPS = st.datetimes(datetime(1970, 1, 2), datetime(2038, 1, 18)).map(str) | st.just(
    "0000-00-00"
)
JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
).map(json.dumps)


@st.composite
def kinds(draw: st.DrawFn, *, is_mariadb: bool, has_compressed: bool = False) -> Kind:
    """Any column that the server has: binary JSON and VECTOR only MySQL; `has_compressed` for
    MariaDB's COMPRESSED ones too."""
    families = [
        _integer(),
        _decimal(),
        _approximate(),
        _bit(),
        _temporal(),
        _text(is_mariadb),
        _binary(),
        _labels(),
        _geometry(),
    ]
    if not is_mariadb:
        families += [_json(), _vector()]
    if has_compressed:
        families.append(_compressed())
    return draw(st.one_of(families))


@st.composite
def _integer(draw: st.DrawFn) -> Kind:
    name = draw(st.sampled_from(["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"]))
    return Kind(name + draw(st.sampled_from(["", " UNSIGNED"])), INTEGERS)


@st.composite
def _decimal(draw: st.DrawFn) -> Kind:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 30)))
    values = st.decimals(allow_nan=False, allow_infinity=False, places=scale) | st.integers(
        -(10**precision), 10**precision
    )
    return Kind(f"DECIMAL({precision},{scale})", values.map(lambda value: f"{value:f}"))


@st.composite
def _approximate(draw: st.DrawFn) -> Kind:
    name = draw(
        st.sampled_from(
            ["FLOAT", "DOUBLE", "FLOAT UNSIGNED", "DOUBLE UNSIGNED", "FLOAT(10,3)", "DOUBLE(20,5)"]
        )
    )
    # SELECT alone rounds those of a column with a number of digits once more.
    select = "CAST({} AS DOUBLE)"
    if name.startswith("FLOAT"):
        floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
        return Kind(name, floats, select, _as_float)
    doubles = st.floats(allow_nan=False, allow_infinity=False) | st.just(-9.99999999995449e-06)
    return Kind(name, doubles, select, _as_number)


@st.composite
def _bit(draw: st.DrawFn) -> Kind:
    bits = draw(st.integers(1, 64))
    return Kind(f"BIT({bits})", st.integers(0, 2**bits - 1), "CAST(CAST({} AS UNSIGNED) AS CHAR)")


@st.composite
def _temporal(draw: st.DrawFn) -> Kind:
    digits = draw(st.integers(0, 6))
    return draw(
        st.sampled_from(
            [
                Kind("YEAR", st.integers(1901, 2155) | st.just(0)),
                Kind("DATE", DATES),
                Kind(f"TIME({digits})", _time_text(838 * 3600 + 3599)),
                Kind(f"DATETIME({digits})", DATETIMES),
                Kind(f"TIMESTAMP({digits}) NULL", TIMESTAMPS),
            ]
        )
    )


@st.composite
def _text(draw: st.DrawFn, is_mariadb: bool) -> Kind:
    size = draw(st.integers(1, 255))
    charset = draw(st.sampled_from(CHARSETS if is_mariadb else CHARSETS_MYSQL))
    name, values = draw(
        st.sampled_from(
            [
                (f"CHAR({size})", TEXT),
                (f"VARCHAR({size})", TEXT),
                *((name, LONG_TEXT) for name in TEXTS),
            ]
        )
    )
    return Kind(f"{name} CHARACTER SET {charset}", values, "{}")


TEXTS = ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")
BLOBS = ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")


@st.composite
def _binary(draw: st.DrawFn) -> Kind:
    size = draw(st.integers(1, 255))
    name, values = draw(
        st.sampled_from(
            [
                (f"BINARY({size})", BYTES),
                (f"VARBINARY({size})", BYTES),
                *((name, LONG_BYTES) for name in BLOBS),
            ]
        )
    )
    return Kind(name, values, BINARY, _as_bytes)


@st.composite
def _compressed(draw: st.DrawFn) -> Kind:
    size = draw(st.sampled_from([1, 20, 60, 255, 1000]))
    if draw(st.booleans()):
        name = draw(st.sampled_from([f"VARCHAR({size})", *TEXTS]))
        return Kind(
            f"{name} COMPRESSED CHARACTER SET {draw(st.sampled_from(CHARSETS))}", LONG_TEXT, "{}"
        )
    return Kind(
        draw(st.sampled_from([f"VARBINARY({size})", *BLOBS])) + " COMPRESSED",
        LONG_BYTES,
        BINARY,
        _as_bytes,
    )


@st.composite
def _labels(draw: st.DrawFn) -> Kind:
    count = draw(st.sampled_from([1, 2, 8, 9, 17, 64]))
    charset = draw(st.sampled_from(["utf8mb4", "latin1", "gbk", "sjis", "utf16", "swe7"]))
    # where it is held: a character that information_schema does not show
    beyond = "?😀" * (charset in ("utf8mb4", "utf16"))
    labels = [f"label {number} 'é表\\{beyond} zerofill" for number in range(count)]
    declared = ", ".join(
        "'" + label.replace("'", "''").replace("\\", "\\\\") + "'" for label in labels
    )
    if draw(st.booleans()):
        return Kind(
            f"ENUM({declared}) CHARACTER SET {charset}",
            st.sampled_from([*labels, "none of them", ""]),
            "{}",
        )
    chosen = st.lists(st.sampled_from(labels), unique=True).map(",".join)
    return Kind(f"SET({declared}) CHARACTER SET {charset}", chosen, "{}")


def _json() -> st.SearchStrategy[Kind]:
    return st.just(Kind("JSON", JSONS, "CAST({} AS CHAR)"))


COORDINATES = st.floats(-180, 180)


def _geometry() -> st.SearchStrategy[Kind]:
    """Points, as the servers store them: SRID, then WKB."""
    points = st.builds(lambda x, y: struct.pack("<IBIdd", 0, 1, 1, x, y), COORDINATES, COORDINATES)
    return st.sampled_from(
        [Kind(name, points, BINARY, _as_bytes) for name in ("GEOMETRY", "POINT")]
    )


@st.composite
def _vector(draw: st.DrawFn) -> Kind:
    size = draw(st.sampled_from([1, 3, 300]))
    floats = st.lists(st.floats(-1, 1, width=32), min_size=size, max_size=size)
    return Kind(
        f"VECTOR({size})",
        floats.map(lambda values: struct.pack(f"<{size}f", *values)),
        BINARY,
        _as_bytes,
    )
