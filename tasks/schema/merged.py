"""One target table of several source tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.schema.collations import WIDE, may_merge, merges, pads
from cdcbus.tasks.schema.definition import ColumnDefinition, TableDefinition, Target
from cdcbus.tasks.schema.source_details import Index

Collation = tuple[str, str]


def merged(definitions: Sequence[TableDefinition], target: Target) -> TableDefinition:
    """One target table for several source tables, with all their columns and indexes. Different
    types or keys become problems of the table."""
    first, *others = definitions
    if not others:
        return first
    columns = first.by_name
    problems = list(first.problems)
    notes = list(first.notes)
    for other in others:
        problems += _merge_columns(columns, first, other)
        if _shown(first.key) != _shown(other.key):
            problems.append(
                f"the keys of {first.sources[0]} and {other.sources[0]} differ: make the table by "
                "hand"
            )
        problems += other.problems
        notes += other.notes
    for name, column in columns.items():
        columns[name] = replace(column, collation=_collation(name, definitions, target, notes))
    indexes = _indexes(definitions, notes)
    sources: list[TableId] = []
    for each in definitions:
        sources += each.sources
    notes.append(
        f"rows of {', '.join(map(str, sources))} come together: rows with one key become one"
    )
    return replace(
        first,
        sources=tuple(sources),
        columns=tuple(columns.values()),
        indexes=indexes,
        # Each of them once.
        notes=tuple(dict.fromkeys(notes)),
        problems=tuple(dict.fromkeys(problems)),
        parts=tuple(definitions),
    )


def _merge_columns(
    columns: dict[str, ColumnDefinition], first: TableDefinition, other: TableDefinition
) -> Iterator[str]:
    """Adds the columns of another source table, and yields problems. `columns`: by name in lower
    case."""
    in_key = first.key.columns if first.key else []
    for column in other.columns:
        # A column that only some tables have is NULL in rows of the others.
        known = columns.setdefault(column.name.lower(), replace(column, is_nullable=True))
        if known.type != column.type:
            yield (
                f"column {column.name} is {known.type} for {first.sources[0]} and "
                f"{column.type} for {other.sources[0]}: make the table by hand, with the wider "
                "of the two"
            )
        if column.is_nullable and not known.is_nullable and known.name not in in_key:
            columns[column.name.lower()] = replace(known, is_nullable=True)
    present = other.by_name
    for name, column in columns.items():
        if name not in present and column.name not in in_key:
            columns[name] = replace(column, is_nullable=True)


def _shown(key: Index | None) -> str:
    return key.shown if key else ""


def _collation(
    name: str, definitions: Sequence[TableDefinition], target: Target, notes: list[str]
) -> Collation | None:
    """A collation that has all characters of all sources, and treats no texts as equal that differ
    at one of them. `name`: of the column, in lower case."""
    known: dict[Collation, set[str]] = {}
    for definition in definitions:
        column = definition.by_name.get(name)
        if column and column.collation:
            # Without one at the source, the column is computed.
            source = column.source_collation or column.collation[1]
            known.setdefault(column.collation, set()).add(source)
    if len(known) < 2:
        return next(iter(known), None)
    # Before utf8mb4, with which a key may have more bytes than the server allows.
    own = {charset for charset, _ in known}
    strictest = [target.collation_of(f"{charset}_0900_bin") for charset in sorted(own)]
    for collation in (*known, *strictest):
        if _serves_all(collation, known):
            break
    else:
        collation = target.collation_of("utf8mb4_0900_bin")
    sources = sorted(set[str]().union(*known.values()))
    note = f"{name}: the sources compare by {', '.join(sources)}, the target by {collation[1]}"
    if pads(collation[1]) and not all(map(pads, sources)):
        note += ", and ignores trailing blanks, which not all sources do"
    notes.append(note)
    return collation


def _serves_all(collation: Collation, known: dict[Collation, set[str]]) -> bool:
    charset, name = collation
    for (other, _), sources in known.items():
        if charset not in (*WIDE, other):
            return False
        if any(merges(source, name) or may_merge(source, name) for source in sources):
            return False
    return True


def _indexes(definitions: Sequence[TableDefinition], notes: list[str]) -> tuple[Index, ...]:
    """The indexes of all sources, none of them unique: two sources may have equal values."""
    found: dict[str, Index] = {}
    for definition in definitions:
        for index in definition.indexes:
            known = found.setdefault(index.name.lower(), replace(index, is_unique=False))
            if known.shown != index.shown:
                notes.append(
                    f"index {index.name} of {definition.sources[0]} is left out, as another "
                    "source's has its name and other columns"
                )
            if index.is_unique:
                notes.append(
                    f"index {index.name} is not unique, as rows of several sources may have equal "
                    "values"
                )
    return tuple(found.values())
