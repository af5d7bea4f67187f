"""Defines a target table: the source's table through the mapper, in the target's types. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cdcbus.plugins.contracts import ZeroDate
from cdcbus.plugins.loaders.add_column import NAME_BYTES, column_type, too_long
from cdcbus.plugins.loaders.dialect import ZERO_DATE
from cdcbus.plugins.rowchange import Column, TableId
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.producer.ddl.table_schema import PRIMARY, TableColumn
from cdcbus.tasks.control.source_of import MappedTable, record_type
from cdcbus.tasks.schema.collations import WIDE, charset_of, pads
from cdcbus.tasks.schema.source_details import (
    ColumnDetails,
    Default,
    DefaultKind,
    Index,
    IndexPart,
    TableDetails,
)

DATES: Final = ("date", "datetime", "timestamp")
TEXTS: Final = re.compile(r"char|varchar|(tiny|medium|long)?text|enum|set|json|uuid|inet[46]")
# Types that have no default in MySQL.
LARGE: Final = re.compile(r"(tiny|medium|long)?(text|blob)|json|geometry|vector")
# MariaDB's own types -> types of MySQL that hold their text.
IN_MYSQL: Final = {"uuid": "char(36)", "inet6": "varchar(39)", "inet4": "varchar(15)"}
WITHOUT_DEFAULT: Final = "{0}: default {1} is left out, as it may mean something else there"


@dataclass(frozen=True, slots=True)
class Target:
    """The kind of target. `dialect`: SQLAlchemy's name for it. `collation_of`: a collation of the
    source -> the character set and collation to use, which differ where the target lacks it.
    `zero_date`: what zero dates become where the target has none. `adds_on_update`: a TIMESTAMP
    without a default automatically gets one, for inserts and updates."""

    dialect: str
    is_mariadb: bool = False
    zero_date: ZeroDate = ZeroDate.REJECT
    adds_on_update: bool = False
    collation_of: Callable[[str], tuple[str, str]] = lambda name: (charset_of(name), name)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column under its target name. `source`: the type as records spell it, empty for a computed
    column. `type`: the target's. `collation`: (character set, collation), None for none.
    `source_collation`: empty where the source has none."""

    name: str
    source: str
    type: str
    is_nullable: bool = True
    default: Default | None = None
    comment: str = ""
    collation: tuple[str, str] | None = None
    source_collation: str = ""

    @property
    def collated_type(self) -> str:
        """The type with its collation, as MySQL spells it."""
        if self.collation is None:
            return self.type
        return f"{self.type} CHARACTER SET {self.collation[0]} COLLATE {self.collation[1]}"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A target table. `key`: made of whole columns, except in MySQL, where a part may be a prefix.
    `notes`: sentences about differences from the source. `problems`: why the table cannot be
    created. `drops_lacking`: mapper[i].forceMatched=false, so a table may lack columns on purpose.
    `parts`: the tables that each of several sources would have alone."""

    id: TableId
    sources: tuple[TableId, ...]
    columns: tuple[ColumnDefinition, ...]
    key: Index | None
    indexes: tuple[Index, ...] = ()
    comment: str = ""
    collation: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    drops_lacking: bool = False
    parts: tuple[TableDefinition, ...] = ()

    @property
    def by_name(self) -> dict[str, ColumnDefinition]:
        """The columns by their names in lower case."""
        return {column.name.lower(): column for column in self.columns}


def define(mapped: MappedTable, details: TableDetails, target: Target) -> TableDefinition:
    """The target table of one source table."""
    rule = mapped.route.rule
    by_name = {column.name: column for column in mapped.schema.columns}
    # Filled by the functions below, in the order of the columns.
    notes: list[str] = []
    any_text = _of_any_text(details.collation, target)
    columns = []
    dates = []
    for source, name in mapped.columns.items():
        own = details.columns.get(source, ColumnDetails())
        if mask := rule.masks.get(source.lower()):
            columns.append(_masked(by_name[source], name, own, mask, target, any_text))
        else:
            columns.append(_copied(by_name[source], name, own, target, notes))
        if by_name[source].data_type in DATES:
            dates.append(name)
    for name in rule.computed:
        type_ = column_type("", target.dialect)
        columns.append(ColumnDefinition(name, "", type_, collation=any_text))
        notes.append(
            f"{name}: mapper[i] computes it, so its type is a long text: choose a better one"
        )
    # Only MySQL and MariaDB have zero dates.
    if dates and target.dialect != "mysql" and target.zero_date is ZeroDate.REJECT:
        notes.append(f"{', '.join(dates)}: zero dates are refused, unless loader.zeroDate is set")
    key, problems = _key(mapped, details, target, notes)
    # Targets allow no NULL in a key.
    in_key = key.columns if key else []
    nullable_where_possible = []
    for column in columns:
        is_nullable = column.is_nullable and column.name not in in_key
        nullable_where_possible.append(replace(column, is_nullable=is_nullable))
    names = [*mapped.columns.values(), *rule.computed]
    return TableDefinition(
        mapped.target,
        (mapped.source.id,),
        tuple(nullable_where_possible),
        key,
        _indexes(mapped, details, target, notes),
        details.comment,
        _collation(details.collation, target),
        tuple(notes),
        (*problems, *_long_names(mapped.target, names, target), *_twice(names)),
        not rule.force_matched,
    )


def _copied(
    column: TableColumn,
    name: str,
    details: ColumnDetails,
    target: Target,
    notes: list[str],
) -> ColumnDefinition:
    source = record_type(column)
    type_ = ""
    if target.dialect == "mysql":
        type_ = _mysql_type(column, name, source, target, notes)
    collation = None
    # These take the place of a type without a collation.
    if type_ not in IN_MYSQL.values():
        collation = _collation(details.collation, target)
    if collation and collation[1] != details.collation:
        note = (
            f"{name}: the target has no collation {details.collation}; {collation[1]} replaces it"
        )
        if pads(collation[1]) and not pads(details.collation):
            note += ", and ignores trailing blanks, which the source does not"
        notes.append(note)
    type_ = type_ or column_type(source, target.dialect)
    # Without a number of digits, which only a DECIMAL of too many has.
    if target.dialect == "oracle" and type_ == "NUMBER":
        notes.append(f"{name}: Oracle keeps 38 digits of a {source}, and rounds the rest")
    return ColumnDefinition(
        name,
        source,
        type_,
        column.is_nullable or _may_be_null(column, target, notes, name),
        _default(column, details, target, notes, name),
        details.comment,
        collation,
        details.collation,
    )


def _masked(
    column: TableColumn,
    name: str,
    details: ColumnDetails,
    mask: Mask,
    target: Target,
    any_text: tuple[str, str] | None,
) -> ColumnDefinition:
    """The definition of a masked column: masked cells are text, whatever the column holds.
    `any_text`: a collation that has all characters."""
    source, collation, of_source = "text", any_text, ""
    if mask.kind == "hash":
        # SHA-256 in hexadecimal digits, which all character sets have.
        source, collation = "char(64)", None
    # A text that is cut still fits its own type; a label, a UUID or a JSON text does not.
    elif mask.kind == "truncate" and column.data_type.endswith(("char", "text")):
        source, of_source = record_type(column), details.collation
        collation = _collation(of_source, target)
    return ColumnDefinition(
        name,
        source,
        column_type(source, target.dialect),
        column.is_nullable,
        None,
        details.comment,
        collation,
        of_source,
    )


def _mysql_type(
    column: TableColumn, name: str, source: str, target: Target, notes: list[str]
) -> str:
    """The type as the source spells it, except where one of the two servers does not know it."""
    if column.data_type in ("enum", "set"):
        if "?" in source:
            notes.append(
                f"{name}: a `?` in its labels may stand for a character that the source cannot "
                "show: compare them"
            )
        # Without the backslashes of information_schema.
        return source
    if column.data_type == "geomcollection":
        return "geometrycollection"
    if not target.is_mariadb and column.data_type in IN_MYSQL:
        return IN_MYSQL[column.data_type]
    return column.type


def _may_be_null(column: TableColumn, target: Target, notes: list[str], name: str) -> bool:
    """Whether a NULL can arrive for a column that has none at the source."""
    if target.dialect == "oracle" and TEXTS.fullmatch(column.data_type):
        notes.append(f"{name}: may be NULL, as an empty text is NULL in Oracle")
        return True
    has_none = target.dialect != "mysql" and target.zero_date is ZeroDate.NULL
    if has_none and column.data_type in DATES:
        notes.append(f"{name}: may be NULL, as loader.zeroDate=null turns zero dates into NULL")
        return True
    return False


def _default(
    column: TableColumn, details: ColumnDetails, target: Target, notes: list[str], name: str
) -> Default | None:
    default = details.default
    if default is None:
        # Such a server would add its own default, which also changes the column at each update.
        if target.adds_on_update and column.data_type == "timestamp" and not column.is_nullable:
            return Default(DefaultKind.NOW, re.sub("[^0-9]", "", column.type))
        return None
    is_kept = default.kind not in (DefaultKind.EXPRESSION, DefaultKind.UNCLEAR)
    if target.dialect != "mysql":
        # These targets refuse a zero date even as a default.
        is_zero = column.data_type in DATES and ZERO_DATE.match(default.text) is not None
        is_kept = is_kept and not is_zero
    elif not target.is_mariadb:
        is_kept = is_kept and LARGE.fullmatch(column.data_type) is None
    if is_kept and target.dialect == "oracle":
        # An empty text is NULL in Oracle.
        is_kept = bool(default.text) or default.kind is DefaultKind.NOW
    if not is_kept:
        notes.append(WITHOUT_DEFAULT.format(name, default.text or "''"))
        return None
    return default


def _collation(name: str, target: Target) -> tuple[str, str] | None:
    # Names of collations mean nothing to other databases.
    if not name or target.dialect != "mysql":
        return None
    return target.collation_of(name)


def _of_any_text(table: str, target: Target) -> tuple[str, str] | None:
    """The collation of columns whose texts are not only the source's: that of the table if it has
    all characters. `table`: the source table's."""
    own = _collation(table, target)
    if target.dialect != "mysql" or (own and own[0] in WIDE):
        return own
    return target.collation_of("utf8mb4_bin")


def _key(
    mapped: MappedTable, details: TableDetails, target: Target, notes: list[str]
) -> tuple[Index | None, list[str]]:
    """The primary key, else the unique key that identifies the source's rows; and problems."""
    if not mapped.schema.key:
        notes.append("has no key, like its source: rows are identified by all of their columns")
        return None, []
    lengths = {}
    for index in details.indexes:
        if index.name == PRIMARY:
            lengths = {part.column: part.length for part in index.parts}
    parts = []
    lost = []
    for column in mapped.schema.key:
        if (name := _named(mapped, column)) is None:
            lost.append(column)
        else:
            parts.append((name, lengths.get(column, 0)))
    if lost:
        return None, [
            f"mapper[i] leaves out {', '.join(lost)}, which is part of the key of "
            f"{mapped.source.id}: keep it, or rows cannot be identified"
        ]
    return _fitting_key(mapped, parts, target, notes)


def _named(mapped: MappedTable, column: str) -> str | None:
    if name := mapped.columns.get(column):
        return name
    name = mapped.route.wanted(column)
    if not name:
        return None
    # A computed column may replace a key column of the same target name.
    for computed in mapped.route.rule.computed:
        if computed.lower() == name.lower():
            return computed
    return None


def _fitting_key(
    mapped: MappedTable, parts: list[tuple[str, int]], target: Target, notes: list[str]
) -> tuple[Index | None, list[str]]:
    by_target = {name: column for column, name in mapped.columns.items()}
    by_name = {column.name: column for column in mapped.schema.columns}
    found = []
    for name, length in parts:
        source = by_target.get(name)
        if target.dialect == "mysql":
            found.append(IndexPart(name, length))
            continue
        if length:
            notes.append(
                f"{name}: the source's key has its first {length} characters, the target's has the "
                "whole text"
            )
        own = record_type(by_name[source]) if source else ""
        type_ = column_type(own, target.dialect)
        if type_ in ("CLOB", "BLOB"):
            return None, [f"{name} is of type {type_}, which cannot be in a key in Oracle"]
        found.append(IndexPart(name))
    return Index(PRIMARY, True, "BTREE", tuple(found)), []


def _indexes(
    mapped: MappedTable, details: TableDetails, target: Target, notes: list[str]
) -> tuple[Index, ...]:
    """All indexes except the key, under the target's names of the columns; adds notes about those
    that are left out."""
    found = []
    for index in details.indexes:
        is_key = index.is_unique and index.columns == list(mapped.schema.key)
        if index.name == PRIMARY or is_key:
            continue
        parts = _renamed(index, mapped)
        # Fulltext, spatial and vector indexes differ too much from database to database.
        if parts is None or index.kind not in ("BTREE", "HASH"):
            notes.append(f"index {index.name} ({index.kind}) is left out")
            continue
        name, is_unique = index.name, index.is_unique
        if target.dialect != "mysql":
            name = _short(mapped.target, index, target)
            # These targets have no index on prefixes. An index on whole columns must not be unique,
            # or it would refuse rows that the source accepts.
            is_unique = is_unique and not index.has_prefix
        found.append(Index(name, is_unique, index.kind, parts))
    return tuple(found)


def _renamed(index: Index, mapped: MappedTable) -> tuple[IndexPart, ...] | None:
    """The parts under the target's names; None where the target lacks a column, or a part is an
    expression."""
    parts = []
    for part in index.parts:
        name = mapped.columns.get(part.column or "")
        if name is None:
            return None
        parts.append(replace(part, column=name))
    return tuple(parts)


def _short(table: TableId, index: Index, target: Target) -> str:
    """A name that is unique in the schema, as these targets require."""
    name = f"{table.table}_{index.name}"
    if len(name.encode()) <= NAME_BYTES[target.dialect]:
        return name
    # A hash of the whole name, as cut names may be equal.
    return _hashed(name, name, target.dialect)


def _hashed(name: str, of: str, dialect: str) -> str:
    """The name, cut where it is too long, with a hash at its end."""
    tail = "_" + hashlib.sha256(of.encode()).hexdigest()[:8]
    # The cut may go through a character of several bytes, which is then left out.
    return name.encode()[: NAME_BYTES[dialect] - len(tail)].decode(errors="ignore") + tail


def with_own_index_names(tables: Sequence[TableDefinition], dialect: str) -> list[TableDefinition]:
    """The tables with other names for those indexes whose name a table, a key or another index of
    the schema has, too: index `item` of `order` and table `order_item`. Not for MySQL, where names
    of indexes are each table's own."""
    if dialect == "mysql":
        return list(tables)
    taken = Counter[TableId]()
    for table in tables:
        schema, name = table.id
        # The key's is PostgreSQL's choice.
        names = name, f"{name}_pkey", *(index.name for index in table.indexes)
        taken.update(TableId(schema, each) for each in names)
    found = []
    for table in tables:
        indexes = []
        for index in table.indexes:
            if taken[TableId(table.id.schema, index.name)] > 1:
                of = f"{table.id.table}.{index.name}"
                index = replace(index, name=_hashed(index.name, of, dialect))
            indexes.append(index)
        found.append(replace(table, indexes=tuple(indexes)))
    return found


def _long_names(table: TableId, names: Sequence[str], target: Target) -> list[str]:
    problems = []
    for name in too_long((*table, *names), target.dialect):
        problems.append(
            f"name {name} has more than the {NAME_BYTES[target.dialect]} bytes that the target "
            "allows: rename it with mapper[i]"
        )
    return problems


def _twice(names: Sequence[str]) -> list[str]:
    problems = []
    for name, count in sorted(Counter(map(str.lower, names)).items()):
        if count > 1:
            problems.append(
                f"two columns would be called {name}: give one of them another name with "
                "mapper[i].column"
            )
    return problems


def as_columns(definition: TableDefinition) -> list[Column]:
    """The columns under the target's names, in the source's types."""
    return [Column(column.name, column.source) for column in definition.columns]
