"""A target table's definition as SQL: CREATE TABLE and what follows it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cdcbus.plugins.loaders.dialect import QUOTING, Quoting
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.schema.definition import ColumnDefinition, TableDefinition
from cdcbus.tasks.schema.source_details import Default, DefaultKind, Index, IndexPart

PLAIN_BACKSLASHES: Final = (
    "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_BACKSLASH_ESCAPES')"
)
"""Makes MySQL take backslashes in texts literally, as the sessions of tasks do."""
NUMERIC: Final = re.compile(r"(tiny|small|medium|big)?int\b|decimal|float|double|year")
BYTES: Final = re.compile(r"(var)?binary|(tiny|medium|long)?blob")
ORACLE_TIMES: Final = {"date": "DATE", "datetime": "TIMESTAMP", "timestamp": "TIMESTAMP"}


def create_schema(schema: str, dialect: str) -> str:
    """The statement that creates the schema if it does not exist. Not for Oracle, whose schemas are
    users."""
    return f"CREATE SCHEMA IF NOT EXISTS {QUOTING[dialect].name(schema)}"


def create_table(table: TableDefinition, dialect: str, *, with_indexes: bool = False) -> list[str]:
    """The statements that create the table, in order."""
    quoting = QUOTING[dialect]
    lines = []
    for column in table.columns:
        lines.append(_column(column, table, dialect, quoting))
    if table.key:
        lines.append(f"PRIMARY KEY ({_parts(table.key, dialect, quoting)})")
    # The others have no indexes inside of CREATE TABLE.
    if dialect == "mysql" and with_indexes:
        for index in table.indexes:
            lines.append(_inline(index, quoting))
    body = ",\n  ".join(lines)
    sql = f"CREATE TABLE {quoting.table(table.id)} (\n  {body}\n)"
    if dialect == "mysql":
        return [sql + _options(table)]
    statements = [sql, *_comments(table, quoting)]
    if with_indexes:
        for index in table.indexes:
            statements.append(_create_index(index, table.id, dialect, quoting))
    return statements


class ExistingIndex(NamedTuple):
    """An index of an existing table; a column is empty for an expression, and all of
    them where the index has a condition."""

    name: str
    is_unique: bool
    columns: tuple[str, ...]

    def stands_for(self, index: Index, dialect: str) -> bool:
        """Whether this index serves the purpose of another one."""
        shapes = [index.columns]
        # There a prefix is an expression, of which no more is known than the name.
        if dialect != "mysql" and self.name == index.name:
            shapes.append(["" if part.length else part.column or "" for part in index.parts])
        # A unique index also serves where a plain one is wanted, but not the other way round.
        return self.is_unique >= index.is_unique and any(
            list(map(str.lower, shape)) == list(map(str.lower, self.columns)) for shape in shapes
        )


def lacking_indexes(
    table: TableDefinition, there: Sequence[ExistingIndex], dialect: str
) -> Iterator[tuple[Index, ExistingIndex | None]]:
    """The indexes of the definition that an existing table lacks, and the one that has the name."""
    # MySQL's names of indexes do not differ by case, unlike PostgreSQL's.
    fold = str.lower if dialect == "mysql" else str
    by_name = {fold(each.name): each for each in there}
    for index in table.indexes:
        if not any(each.stands_for(index, dialect) for each in there):
            yield index, by_name.get(fold(index.name))


def missing_indexes(
    table: TableDefinition, there: Sequence[ExistingIndex], dialect: str
) -> list[str]:
    """The statements for the indexes that an existing table lacks, and whose names are free."""
    statements = []
    for index, other in lacking_indexes(table, there, dialect):
        if other is None:
            statements.append(_create_index(index, table.id, dialect, QUOTING[dialect]))
    return statements


def _column(
    column: ColumnDefinition, table: TableDefinition, dialect: str, quoting: Quoting
) -> str:
    # Only where it differs: the table's own applies otherwise.
    is_own = column.collation != table.collation
    words = [quoting.name(column.name), column.collated_type if is_own else column.type]
    default = ""
    if column.default:
        default = default_sql(column, dialect)
    # Oracle requires it before NOT NULL.
    if dialect == "oracle" and default:
        words.append(f"DEFAULT {default}")
    if not column.is_nullable:
        words.append("NOT NULL")
    elif dialect == "mysql":
        # Otherwise an old server gives a TIMESTAMP its own default.
        words.append("NULL")
    if dialect != "oracle" and default:
        words.append(f"DEFAULT {default}")
    if dialect == "mysql" and column.comment:
        words.append(f"COMMENT {literal(column.comment)}")
    return " ".join(words)


def default_sql(column: ColumnDefinition, dialect: str) -> str:
    """A column's default as the target's SQL."""
    default = column.default or Default(DefaultKind.TEXT, "")
    kind = column.source.partition("(")[0].partition(" ")[0]
    match default.kind:
        case DefaultKind.NOW:
            # MySQL refuses another number of digits than the column has; the others round.
            if dialect == "mysql" and default.text:
                return f"CURRENT_TIMESTAMP({default.text})"
            return "CURRENT_TIMESTAMP"
        case DefaultKind.BITS:
            return _bits(column, default.text, dialect)
        case DefaultKind.BYTES:
            return _bytes(bytes.fromhex(default.text), dialect)
    if dialect != "mysql" and BYTES.fullmatch(kind):
        return _bytes(default.text.encode("ascii"), dialect)
    if NUMERIC.match(kind):
        return default.text
    if dialect == "oracle" and kind in ORACLE_TIMES:
        return f"{ORACLE_TIMES[kind]} {literal(default.text)}"
    # Read in UTC, and a point in time there.
    if dialect == "postgresql" and kind == "timestamp":
        return literal(f"{default.text}+00")
    return literal(default.text)


def _bits(column: ColumnDefinition, digits: str, dialect: str) -> str:
    if dialect == "oracle":
        return str(int(digits or "0", 2))
    if dialect == "mysql":
        return f"b'{digits}'"
    size = int(re.sub("[^0-9]", "", column.source) or "1")
    # PostgreSQL refuses a bit string of another length than the column's.
    return f"B'{digits.zfill(size)}'"


def _bytes(raw: bytes, dialect: str) -> str:
    if dialect == "mysql":
        return f"x'{raw.hex()}'"
    if dialect == "oracle":
        return f"HEXTORAW('{raw.hex()}')"
    return f"'\\x{raw.hex()}'::bytea"


def _parts(index: Index, dialect: str, quoting: Quoting) -> str:
    return ", ".join(_part(part, dialect, quoting) for part in index.parts)


def _part(part: IndexPart, dialect: str, quoting: Quoting) -> str:
    name = quoting.name(part.column or "")
    if part.length and dialect == "mysql":
        name = f"{name}({part.length})"
    elif part.length:
        # The others have no index on prefixes; one on an expression comes closest.
        name = f"substr({name}, 1, {part.length})"
    return f"{name} DESC" if part.is_descending else name


def _inline(index: Index, quoting: Quoting) -> str:
    kind = "UNIQUE KEY" if index.is_unique else "KEY"
    return f"{kind} {quoting.name(index.name)} ({_parts(index, 'mysql', quoting)})"


def _create_index(index: Index, table: TableId, dialect: str, quoting: Quoting) -> str:
    kind = "UNIQUE INDEX" if index.is_unique else "INDEX"
    # Oracle creates it in the user's schema unless one is named; PostgreSQL in the table's.
    schema = table.schema if dialect == "oracle" else ""
    name = quoting.table(TableId(schema, index.name))
    return f"CREATE {kind} {name} ON {quoting.table(table)} ({_parts(index, dialect, quoting)})"


def _options(table: TableDefinition) -> str:
    # A server's default may be an engine without transactions, which tasks refuse.
    options = " ENGINE=InnoDB"
    if table.collation:
        options += f" DEFAULT CHARACTER SET {table.collation[0]} COLLATE {table.collation[1]}"
    if table.comment:
        options += f" COMMENT={literal(table.comment)}"
    return options


def _comments(table: TableDefinition, quoting: Quoting) -> Iterator[str]:
    name = quoting.table(table.id)
    if table.comment:
        yield f"COMMENT ON TABLE {name} IS {literal(table.comment)}"
    for column in table.columns:
        if column.comment:
            yield (
                f"COMMENT ON COLUMN {name}.{quoting.name(column.name)} IS {literal(column.comment)}"
            )


def literal(text: str) -> str:
    """A text as a literal of SQL in which a backslash is an ordinary character."""
    return "'" + text.replace("'", "''") + "'"
