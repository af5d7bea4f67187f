"""How an existing target table differs from what its source requires, and which values or rows it
would lose or refuse. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.loaders.add_column import NAME_BYTES, add_columns, too_long
from cdcbus.plugins.loaders.cells.canonical import holds_less
from cdcbus.plugins.loaders.cells.numbers import number_not_held
from cdcbus.plugins.loaders.schema_evolution import lacking, too_narrow
from cdcbus.plugins.rowchange import Column
from cdcbus.tasks.schema.collations import WIDE, charset_of, folding, may_merge, merges, pads
from cdcbus.tasks.schema.create_table import ExistingIndex, lacking_indexes
from cdcbus.tasks.schema.definition import (
    ColumnDefinition,
    TableDefinition,
    as_columns,
)

# The kind of values of a type, by its name at the source and at the targets.
KINDS: Final = (
    ("bits", r'"bit"|bit varying'),
    (
        "number",
        r"(tiny|small|medium|big)?int\b|integer|smallint|bigint|decimal|numeric|NUMBER"
        r"|year|bit\b|float|real|double|BINARY_(FLOAT|DOUBLE)",
    ),
    ("text", r"char|varchar|bpchar|citext|name\b|N?VARCHAR2|NCHAR|N?CLOB|(tiny|medium|long)?text"),
    ("bytes", r"(var)?binary|(tiny|medium|long)?blob|bytea|RAW|LONG RAW|geometry|vector"),
    ("moment", r"date|datetime|timestamp"),
    ("clock", r"time\b|interval"),
    ("json", r"jsonb?"),
    ("label", r"enum|set\b"),
    ("truth", r"bool"),
)
# For each kind of the source, the kinds of the target that hold all its values; texts hold all
# kinds except bytes.
HOLDS: Final = {
    "number": {"number", "text", "bits"},
    "text": {"text"},
    "bytes": {"bytes"},
    "moment": {"moment", "text"},
    "clock": {"clock", "text"},
    "json": {"json", "text"},
    "label": {"label", "text"},
}
TEXT_LENGTHS: Final = {
    "tinyint": 4,
    "smallint": 6,
    "mediumint": 8,
    "int": 11,
    "bigint": 20,
    "bit": 20,
    "year": 4,
    "float": 15,
    "double": 24,
    "date": 10,
    "datetime": 26,
    "timestamp": 26,
    "time": 17,
    "uuid": 36,
    "inet6": 39,
    "inet4": 15,
}
"""The maximum length of the text of a type's cells."""
LONGEST: Final = 1 << 30
"""The maximum length of a JSON document, limited by MySQL's packets."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference of a target table. `column`: empty for the table as a whole. `is_lost`: values
    or rows of the source are lost or refused. `remedy`: SQL, or empty."""

    column: str
    what: str
    is_lost: bool
    remedy: str = ""


def differences(
    wanted: TableDefinition,
    table: TargetTable,
    collations: Mapping[str, str],
    on_prefixes: Collection[str] = (),
) -> list[Difference]:
    """All differences, those that lose something first. `collations`: by column of the target; a
    column without one is left out. `on_prefixes`: the target's unique keys on prefixes, as `shown`
    by an index."""
    columns = as_columns(wanted)
    parts = wanted.parts or (wanted,)
    found = []
    if table.unsafe:
        found.append(Difference("", table.unsafe, True))
    found += _missing(wanted, parts, table, columns)
    of_parts = [list(_of_part(part, wanted, table, collations, on_prefixes)) for part in parts]
    of_all = set.intersection(*map(set, of_parts))
    for part, own in zip(parts, of_parts, strict=True):
        for each in own:
            if each not in of_all:
                each = replace(each, what=f"{each.what} (rows of {part.sources[0]})")
            found.append(each)
    found += _null(wanted, table)
    found += _only_there(table, columns)
    # Each of them once.
    return sorted(dict.fromkeys(found), key=lambda each: not each.is_lost)


def _of_part(
    part: TableDefinition,
    wanted: TableDefinition,
    table: TargetTable,
    collations: Mapping[str, str],
    on_prefixes: Collection[str],
) -> Iterator[Difference]:
    """Differences that matter to the rows of one source table. `wanted`: the table of them all."""
    made = wanted.by_name
    narrow = too_narrow(table, as_columns(part))
    by_name = {name.lower(): column for name, column in table.columns.items()}
    for definition in part.columns:
        if own := by_name.get(definition.name.lower()):
            yield from _of_column(definition, own, narrow.get(own.name))
            _, chosen = made[definition.name.lower()].collation or ("", "")
            yield from _of_collation(definition, own, collations.get(own.name, ""), chosen)
    yield from _of_keys(part, table, collations, on_prefixes, is_shared=bool(wanted.parts))


def _null(wanted: TableDefinition, table: TargetTable) -> Iterator[Difference]:
    by_name = wanted.by_name
    for column in table.columns.values():
        definition = by_name.get(column.name.lower())
        # The loader leaves out those that the target computes.
        if definition is None or column.is_generated:
            continue
        if definition.is_nullable and not column.is_nullable:
            yield Difference(column.name, "is NOT NULL, and NULL may come", True)


def other_indexes(
    wanted: TableDefinition, there: Sequence[ExistingIndex], dialect: str
) -> Iterator[Difference]:
    """Differences where another index has the name of a missing one, which so cannot be made."""
    for index, other in lacking_indexes(wanted, there, dialect):
        if other is not None:
            yield Difference(
                "",
                f"index {index.name} is missing, and another one has its name, on "
                f"{_listed(other.columns)} and {_unique(other.is_unique)}, while the source's is "
                f"on {_listed(index.columns)} and {_unique(index.is_unique)}: rename or drop it",
                False,
            )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(name or "an expression or a condition" for name in columns)


def _unique(is_unique: bool) -> str:
    return "unique" if is_unique else "not unique"


def _missing(
    wanted: TableDefinition,
    parts: Sequence[TableDefinition],
    table: TargetTable,
    columns: Sequence[Column],
) -> Iterator[Difference]:
    missing = lacking(table, columns)
    long = too_long([column.name for column in missing], table.dialect)
    # Why some have no remedy.
    whys = {}
    for column in missing:
        types = _types(column.name, parts)
        if column.name in long:
            whys[column.name] = (
                f"its name has more than the {NAME_BYTES[table.dialect]} bytes that the target "
                "allows: rename it with mapper[i]"
            )
        elif len(types) > 1:
            whys[column.name] = f"is {' and '.join(types)} for its sources: add it with the wider"
    added = [column for column in missing if column.name not in whys]
    # A MySQL target's own spelling of the type; the existing table's character set may be any.
    if wanted.collation:
        own = wanted.by_name
        added = [Column(each.name, own[each.name.lower()].collated_type) for each in added]
    remedy = add_columns(table, added) if added else ""
    for column in added:
        yield Difference(column.name, "is missing", _is_lost(column.name, parts), remedy)
    for name, why in whys.items():
        yield Difference(name, f"is missing, and {why}", _is_lost(name, parts))


def _is_lost(name: str, parts: Sequence[TableDefinition]) -> bool:
    """Whether a column that the target lacks is one that a source's rows should find there."""
    return any(name.lower() in part.by_name and not part.drops_lacking for part in parts)


def _types(name: str, parts: Sequence[TableDefinition]) -> list[str]:
    """The different types of a column in the tables of single sources."""
    found = [part.by_name[name.lower()].type for part in parts if name.lower() in part.by_name]
    return list(dict.fromkeys(found))


def _only_there(table: TargetTable, columns: Sequence[Column]) -> Iterator[Difference]:
    filled = {column.name.lower() for column in columns}
    for name, other in table.columns.items():
        if name.lower() in filled:
            continue
        if other.is_required:
            yield Difference(name, "is NOT NULL without a default, and rows bring none", True)
        else:
            yield Difference(name, "is in the target only", False)


def _of_column(
    wanted: ColumnDefinition, column: TargetColumn, wider: str | None
) -> Iterator[Difference]:
    shown = column.declared or _shown(column)
    # The loader leaves such columns out, so their type does not matter.
    if column.is_generated:
        yield Difference(
            column.name, "is computed by the target: the source's value is left out", False
        )
        return
    if wider is not None:
        yield Difference(column.name, f"{shown} is too narrow for {wanted.source}: {wider}", True)
    elif wanted.source and (why := _not_held(wanted.source, column)):
        yield Difference(column.name, f"{shown} {why} {wanted.source}", True)


def _shown(column: TargetColumn) -> str:
    # Below zero: an interval without seconds.
    if column.length is None or column.length < 0:
        return column.type
    if column.scale is None:
        return f"{column.type}({column.length})"
    return f"{column.type}({column.length},{column.scale})"


def _not_held(source: str, column: TargetColumn) -> str:
    """The reason why the column cannot hold all values of a source type; empty where it can, or
    where that is unknown."""
    name = source.partition("(")[0].partition(" ")[0]
    kind = _kind(name)
    own = _kind(column.type)
    if kind == "number" and own in ("number", "bits") and column.type != "year":
        return number_not_held(source, column)
    if holds_less(column, source):
        return "keeps less than"
    if own == "truth":
        return "" if source == "bit(1)" else "has only two of the values of"
    if not kind or not own:
        return ""
    if own not in HOLDS[kind]:
        return "does not hold"
    # The servers make 2005 of 5; the loader refuses it.
    if column.type == "year" and name != "year":
        return "has only the years 1901 to 2155 of"
    if own == "text" and column.length is not None and kind != "text":
        is_short = _text_length(name, source) > column.length
        return "is too short for the texts of" if is_short else ""
    # PostgreSQL's time; a TIME of MySQL reaches 838 hours.
    if kind == "clock" and column.type.startswith("time "):
        return "ends at 24 hours, and so does not hold"
    # MySQL's; PostgreSQL's has a longer name.
    if column.type == "timestamp" and name in ("date", "datetime"):
        return "begins in 1970 and ends in 2038 or 2106, and so does not hold"
    if name == "set" and column.type == "enum":
        return "has one label at a time, and so does not hold"
    return ""


def _text_length(name: str, source: str) -> int:
    if name == "decimal":
        digits = re.search("[0-9]+", source)
        # A sign and a decimal point; MySQL's DECIMAL without digits has 10.
        return 2 + (int(digits[0]) if digits else 10)
    if name in ("enum", "set"):
        labels = re.findall(r"'((?:[^']|'')*)'", source)
        if name == "enum":
            return max(map(len, labels))
        # A SET may contain all of them.
        return len(",".join(labels))
    return TEXT_LENGTHS.get(name, LONGEST)


def _kind(type_: str) -> str:
    """The kind of a type; empty for an unknown type."""
    for kind, names in KINDS:
        if re.match(names, type_, re.IGNORECASE):
            return kind
    return ""


def _of_collation(
    wanted: ColumnDefinition,
    column: TargetColumn,
    collation: str,
    chosen: str,
) -> Iterator[Difference]:
    """Differences where the column lacks characters of the source's, or compares texts differently,
    unless that is on purpose. `chosen`: the collation that a created table has."""
    source = wanted.source_collation
    if not source or column.is_generated:
        return
    if collation and charset_of(collation) not in (*WIDE, charset_of(source)):
        yield Difference(
            column.name, f"has not all characters of {charset_of(source)}: {collation}", True
        )
    # Not lost: in a column without a key, cells stay as they are, whatever they compare with.
    elif collation not in ("", chosen) and (folding(collation), pads(collation)) != (
        folding(source),
        pads(source),
    ):
        yield Difference(column.name, f"compares by {collation}, the source by {source}", False)


def _of_keys(
    wanted: TableDefinition,
    table: TargetTable,
    collations: Mapping[str, str],
    on_prefixes: Collection[str],
    *,
    is_shared: bool,
) -> Iterator[Difference]:
    """Differences where a key is missing, or treats different source rows as one. `is_shared`: rows
    of other sources come to the table, too."""
    key = wanted.key.columns if wanted.key else []
    if key and not table.key:
        yield Difference("", f"has no key; the source's is {', '.join(key)}", True)
    if not key and table.key:
        yield Difference("", f"has key {', '.join(table.key)}, and the source none", True)
    uniques = [*table.unique_keys]
    if table.key:
        uniques.insert(0, table.key)
    # Where two sources come together, only their common key is unique: a UNIQUE of each of them
    # does not keep the other from having the same values.
    known = replace(wanted, indexes=()) if is_shared else wanted
    # A key on the same prefixes as the source's refuses no row of the source.
    of_source = {each.shown for each in (known.key, *known.indexes) if each and each.is_unique}
    for _ in of_source.intersection(on_prefixes):
        # Two keys without whole columns are one here.
        if () in uniques:
            uniques.remove(())
    for unique in uniques:
        names = set(map(str.lower, unique))
        is_key = unique == table.key
        # A key that includes one of the source's distinguishes all rows that the source does.
        of_rows = _unique_at_source(wanted if is_key else known)
        if key and not any(each <= names for each in of_rows):
            shown = ", ".join(unique) or "of an expression, a prefix or a condition"
            why = "different source rows may be one there"
            if is_shared and not is_key:
                why = "rows of several sources may have equal values"
            yield Difference("", f"unique key {shown}: {why}", True)
    by_name = wanted.by_name
    for name in sorted(set[str]().union(*uniques)):
        column = by_name.get(name.lower())
        if column and (why := _merged(column, table.columns[name], collations.get(name, ""))):
            yield Difference(name, f"is in a key, and {why}", True)


def _unique_at_source(wanted: TableDefinition) -> list[set[str]]:
    """The columns, in lower case, of each key that identifies rows at the source."""
    known = []
    for index in (wanted.key, *wanted.indexes):
        if index is None:
            continue
        is_whole = index is wanted.key or not any(part.length for part in index.parts)
        if index.is_unique and is_whole:
            known.append(set(map(str.lower, index.columns)))
    return known


def _merged(wanted: ColumnDefinition, column: TargetColumn, collation: str) -> str:
    """Why the column may treat texts as equal that differ at the source; empty where it does not.
    Numbers, and texts with only one spelling at the source, have no collation there."""
    source = wanted.source_collation
    if not source:
        return ""
    surely = "treats texts as equal that differ at the source"
    # PostgreSQL and Oracle show no collation here, only whether a column treats texts as equal.
    if not collation:
        return surely if column.is_folding and folding(source) < 3 else ""
    if merges(source, collation):
        return surely
    if may_merge(source, collation):
        return f"{collation} may treat texts as equal that differ by {source}"
    return ""
