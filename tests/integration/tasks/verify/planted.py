"""A table with a column of each type: cells that are equal on both sides, and what is planted."""

from __future__ import annotations


def utc(moment: str) -> str:
    """Whatever zone the session is in."""
    return f"CONVERT_TZ({moment}, '+00:00', @@time_zone)"


ALL_TYPES = {
    "id": ("BIGINT UNSIGNED PRIMARY KEY", "numeric(20) PRIMARY KEY"),
    "i": ("INT", "integer"),
    "d": ("DECIMAL(12,4)", "numeric(14,6)"),
    "b": ("BIT(8)", "bit(8)"),
    "flag": ("TINYINT(1)", "boolean"),
    "y": ("YEAR", "smallint"),
    "day": ("DATE", "date"),
    "at": ("DATETIME(6)", "timestamp"),
    "ts": ("TIMESTAMP(3) NULL", "timestamptz"),
    "clock": ("TIME(2)", "interval"),
    "c": ("CHAR(8)", "char(8)"),
    "v": ("VARCHAR(40)", "varchar(40)"),
    "old": ("VARCHAR(40) CHARACTER SET latin1", "varchar(40)"),
    "t": ("MEDIUMTEXT", "text"),
    "bin": ("BINARY(4)", "bytea"),
    "blobs": ("BLOB", "bytea"),
    "e": ("ENUM('a','B','c d')", "text"),
    "s": ("SET('x','y')", "text"),
}


ONLY_AS_ROWS = {
    "f": ("FLOAT", "real"),
    "x": ("DOUBLE", "double precision"),
    "j": ("JSON", "jsonb"),
}


FULL: dict[str, str | tuple[str, str]] = {
    "i": "-5",
    "d": "'12.5000'",
    "b": ("b'00000101'", "B'00000101'"),
    "flag": ("1", "true"),
    "y": "2024",
    "day": "'2024-02-29'",
    "at": "'2024-02-29 23:59:59.123450'",
    "ts": (utc("'2024-07-01 12:00:00.120'"), "'2024-07-01 12:00:00.120+00'"),
    "clock": ("'-30:01:02.50'", "'-30:01:02.5'"),
    "c": "'ab'",
    "v": "'Größe 😀'",
    "old": "'é€'",
    "t": "'line\nbreak''s'",
    "bin": ("x'00ff0001'", "'\\x00ff0001'"),
    "blobs": ("x'c3a900'", "'\\xc3a900'"),
    "e": "'c d'",
    "s": "'x,y'",
    "f": "0.1",
    "x": "0.30000000000000004",
    "j": """'{"b": [1, 2.50], "a": "é"}'""",
}


PLANTS: dict[str, tuple[str, str, str | None]] = {
    "another number": ("i", "-6", None),
    "a digit behind the point": ("d", "'12.5001'", None),
    "a bit": ("b", "b'00000100'", "B'00000100'"),
    "a flag": ("flag", "0", "false"),
    "a year": ("y", "2023", None),
    "a day": ("day", "'2024-02-28'", None),
    "a microsecond": ("at", "'2024-02-29 23:59:59.123451'", None),
    "a time zone": ("ts", utc("'2024-07-01 14:00:00.120'"), "'2024-07-01 14:00:00.120+00'"),
    "a hundredth of a second": ("clock", "'-30:01:02.51'", None),
    "a character": ("c", "'ac'", None),
    "a blank at the end": ("v", "'Größe 😀 '", None),
    "case": ("v", "'größe 😀'", None),
    "an accent": ("old", "'e€'", None),
    "the empty text for NULL": ("t", "''", None),
    "NULL for a text": ("t", "NULL", None),
    "a byte": ("bin", "x'00ff0000'", "'\\x00ff0000'"),
    "a zero byte at the end": ("blobs", "x'c3a9'", "'\\xc3a9'"),
    "a label": ("e", "'B'", None),
    "a member": ("s", "'x'", None),
    "the last bit of a float": ("f", "0.10000001", None),
    "the last bit of a double": ("x", "0.3", None),
    "a value in JSON": ("j", """'{"a": "e", "b": [1, 2.50]}'""", None),
}


def cells(given: str | tuple[str, str]) -> tuple[str, str]:
    return given if isinstance(given, tuple) else (given, given)
