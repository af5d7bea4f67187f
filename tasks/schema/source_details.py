"""Details of a source table besides the names and types of its columns: defaults, comments,
collations, indexes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any, Final

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.type_names import unescaped
from cdcbus.producer.server.connection import query

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

QUOTES_DEFAULTS_FROM: Final = (10, 2, 7)
"""The first version of MariaDB that prints defaults as SQL; before, like MySQL, it prints texts."""
NOW: Final = re.compile(r"(?:current_timestamp|now|localtimestamp)(?:\(([0-6]?)\))?", re.IGNORECASE)
QUOTED: Final = re.compile(r"'(.*)'", re.DOTALL)
NUMBER: Final = re.compile(r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?", re.IGNORECASE)
BITS: Final = re.compile(r"b'([01]*)'", re.IGNORECASE)
BYTES: Final = re.compile(r"0x([0-9a-f]*)", re.IGNORECASE)
# MariaDB's columns of system-versioned tables, which have no other expression.
ROW_TIMES: Final = ("ROW START", "ROW END")


class DefaultKind(StrEnum):
    """TEXT: a literal, in the form of a cell. NOW: the time of the insert. BITS, BYTES: binary or
    hexadecimal digits. EXPRESSION: SQL of the source. UNCLEAR: a text with a `?`, which may stand
    for a character or byte that the server cannot show."""

    TEXT = auto()
    NOW = auto()
    BITS = auto()
    BYTES = auto()
    EXPRESSION = auto()
    UNCLEAR = auto()


@dataclass(frozen=True, slots=True)
class Default:
    kind: DefaultKind
    text: str


@dataclass(frozen=True, slots=True)
class ColumnDetails:
    """Details of a column. `collation`: empty for none. `is_generated`: the source computes it."""

    default: Default | None = None
    collation: str = ""
    comment: str = ""
    is_generated: bool = False


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A column in an index; None: an expression. `length`: of the prefix; 0: the whole column."""

    column: str | None
    length: int = 0
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """An index. `kind`: BTREE, HASH, FULLTEXT, SPATIAL, VECTOR. The primary key is named
    PRIMARY."""

    name: str
    is_unique: bool
    kind: str
    parts: tuple[IndexPart, ...]

    @property
    def columns(self) -> list[str]:
        """The names of its columns; an expression is an empty name."""
        return [part.column or "" for part in self.parts]

    @property
    def shown(self) -> str:
        """Its columns in lower case, each with the length of its prefix."""
        parts = []
        for part in self.parts:
            length = f"({part.length})" if part.length else ""
            parts.append(f"{(part.column or '').lower()}{length}")
        return ",".join(parts)

    @property
    def has_prefix(self) -> bool:
        """Whether it holds only the beginning of a column."""
        return any(part.length for part in self.parts)


@dataclass(frozen=True, slots=True)
class TableDetails:
    columns: Mapping[str, ColumnDetails]
    indexes: tuple[Index, ...] = ()
    collation: str = ""
    comment: str = ""


def read_details(connection: Connection, tables: Iterable[TableId]) -> dict[TableId, TableDetails]:
    """The details of the tables, from four queries for any number of tables."""
    wanted = sorted(tables)
    # Two lists instead of pairs: a few more tables may match, which nobody asks for.
    # MariaDB takes a list of names that differ in case only for one name.
    names = {"", *(table.schema for table in wanted)}, {"", *(table.table for table in wanted)}

    def rows(columns: str, view: str, order: str) -> Iterator[tuple[TableId, list[Any]]]:
        sql = (
            f"SELECT table_schema, table_name, {columns} FROM information_schema.{view} WHERE "
            f"table_schema IN %s AND table_name IN %s ORDER BY {order}"
        )
        for schema, table, *row in query(connection, sql, names):
            yield TableId(schema, table), row

    has_quotes = quotes_defaults(str(query(connection, "SELECT VERSION()")[0][0]))
    columns = defaultdict[TableId, dict[str, ColumnDetails]](dict)
    asked = (
        "column_name, data_type, column_default, extra, collation_name, column_comment, "
        "generation_expression"
    )
    for table, row in rows(asked, "columns", "ordinal_position"):
        name, data_type, default, extra, collation, comment, expression = row
        is_generated = bool(expression) or expression in ROW_TIMES
        known_default = None
        if not is_generated:
            known_default = read_default(default, extra, data_type, has_quotes)
        columns[table][name] = ColumnDetails(
            known_default, collation or "", comment or "", is_generated
        )
    indexes = defaultdict[TableId, dict[str, Index]](dict)
    asked = "index_name, non_unique, index_type, column_name, sub_part, collation"
    for table, row in rows(asked, "statistics", "seq_in_index"):
        name, is_common, kind, column, length, direction = row
        known = indexes[table].get(name, Index(name, not is_common, kind, ()))
        part = IndexPart(column, length or 0, direction == "D")
        indexes[table][name] = Index(name, known.is_unique, kind, (*known.parts, part))
    found = {}
    for table, row in rows("table_collation, table_comment", "tables", "table_name"):
        collation, comment = row
        found[table] = TableDetails(
            columns[table], tuple(indexes[table].values()), collation or "", comment or ""
        )
    return found


def quotes_defaults(version: str) -> bool:
    """Whether a server of this version prints defaults as SQL."""
    numbers = tuple(map(int, re.findall(r"[0-9]+", version)[:3]))
    return "mariadb" in version.lower() and numbers >= QUOTES_DEFAULTS_FROM


def read_default(text: str | None, extra: str, data_type: str, has_quotes: bool) -> Default | None:
    """Reads a column's default as information_schema prints it; None for no default, or NULL."""
    if text is None or (has_quotes and text.upper() == "NULL"):
        return None
    # MySQL 8's mark of a default that is an expression.
    is_expression = "DEFAULT_GENERATED" in extra.upper()
    is_time = data_type in ("datetime", "timestamp", "date", "time")
    if (has_quotes or is_expression or is_time) and (now := NOW.fullmatch(text)):
        return Default(DefaultKind.NOW, now[1] or "")
    if is_expression:
        return Default(DefaultKind.EXPRESSION, text)
    if data_type == "bit" and (bits := BITS.fullmatch(text)):
        return Default(DefaultKind.BITS, bits[1])
    if data_type in ("binary", "varbinary") and (found := BYTES.fullmatch(text)):
        return Default(DefaultKind.BYTES, found[1])
    # Such a server prints a text without quotes, so anything is a literal.
    if not has_quotes:
        return _literal(text, data_type)
    if quoted := QUOTED.fullmatch(text):
        return _literal(unescaped(quoted[1]), data_type)
    if NUMBER.fullmatch(text):
        return Default(DefaultKind.TEXT, text)
    return Default(DefaultKind.EXPRESSION, text)


def _literal(text: str, data_type: str) -> Default:
    # information_schema shows ? for what its own character set lacks.
    is_shown = "?" not in text and (text.isascii() or "binary" not in data_type)
    return Default(DefaultKind.TEXT if is_shown else DefaultKind.UNCLEAR, text)
