"""Refusals of rules that do not fit their tables. Each names the key to change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import ConfigError, ConversionError
from cdcbus.plugins.rowchange import Column, TableId, Unclear

TIMES: Final = re.compile(
    r"date|datetime|time|timestamp|timetz|timestamptz|interval", re.IGNORECASE
)
BYTES: Final = re.compile(
    r"bytea|raw|long raw|(var|long ?)?binary|(tiny|medium|long)?blob|vector|geometry", re.IGNORECASE
)
BITS: Final = re.compile(r"bit( varying)?|varbit", re.IGNORECASE)
# An ambiguity of cells, the target types for which it matters, and its description.
AMBIGUITIES: Final = (
    (Unclear.TIMES, TIMES, "a time from a number"),
    (Unclear.BYTES, BYTES, "bytes from base64"),
    (Unclear.BITS, BITS, "bits from base64"),
)


def refuse_unclear(
    source: TableId, name: str, column: Column, target: TargetTable, found: str
) -> None:
    """Raises ConversionError where cells are ambiguous in a way that matters for the type of the
    target's column `found`."""
    kind = target.columns[found].type.strip('"')
    for unclear, types, meaning in AMBIGUITIES:
        if unclear not in column.unclear or not types.match(kind):
            continue
        remedy = "leave it out with mapper[i].ignore"
        form = "without its type"
        # Debezium's is the only format without types that can be configured to send them.
        if Unclear.BITS in column.unclear:
            remedy = f"send the types too (value.converter.schemas.enable=true), or {remedy}"
        # Its schema has one type for texts and for bytes that it has made a text of.
        elif column.mysql_type:
            form = "as text"
            remedy = f"set binary.handling.mode=bytes at Debezium's connector, or {remedy}"
        raise ConversionError(
            f"column {name} of {source} comes {form}, so {meaning} cannot be told, "
            f"and column {found} of target table {target.id} is of type {kind}: {remedy}"
        )


def refuse_twice(source: TableId, target: TableId, names: Mapping[str, str | None]) -> None:
    """Raises ConfigError where two source columns go to one target column, as one would be lost."""
    taken: dict[str, str] = {}
    for column, name in names.items():
        if name is None:
            continue
        if name in taken:
            raise ConfigError(
                f"columns {taken[name]} and {column} of source table {source} both go to column "
                f"{name} of {target}"
            )
        taken[name] = column


def refuse_without_key(source: TableId, target: TableId, left_out: Sequence[str]) -> None:
    """Raises ConfigError where the rule leaves out source columns of the target's key."""
    if left_out:
        raise ConfigError(
            f"mapper[i] leaves out column {', '.join(left_out)} of source table {source}, "
            f"which is part of the key of target table {target}: rows could not be told apart; "
            "keep it, or compute it with mapper[i].expression"
        )


def lacking_columns(
    source: TableId, target: TargetTable, copied: Mapping[str, Column], computed: Sequence[Column]
) -> str:
    """The message about columns that the target lacks: one sentence and one statement for all, as
    each further round would cost the operator a restart. `copied`: source column -> column."""
    # A computed column can have the name of a copied one; the target needs one column for both.
    lacking = {column.name: column for column in (*copied.values(), *computed)}
    # Imported here, as it brings SQLAlchemy, which would double what a fetch task loads at its
    # start.
    from cdcbus.plugins.loaders.add_column import NAME_BYTES, add_columns, too_long

    if long := too_long(lacking, target.dialect):
        where = f"target table {target.id}, where names have at most {NAME_BYTES[target.dialect]}"
        return _too_long(source, f"{where} bytes", copied, long)
    statement = add_columns(target, list(lacking.values()))
    remedy = f"add {_them(len(copied) + len(computed))} ({statement})"
    computing = f"mapper[i] computes {_columns(computed)}"
    if not copied:
        lines = "the line" if len(computed) == 1 else "the lines"
        return f"{computing}, which target table {target.id} lacks: {remedy}, or remove {lines}"
    computed_too = ""
    if computed:
        computed_too = f", and {computing}, which it lacks too"
    copied_columns = list(copied.values())
    them = _them(len(copied))
    have = "has" if len(copied) == 1 else "have"
    return (
        f"{_listed(list(copied))} of source table {source} {have} no {_columns(copied_columns)} in "
        f"target table {target.id}{computed_too}: {remedy}, rename {them} with mapper[i].column, "
        f"or set mapper[i].forceMatched=false to drop {them}"
    )


def _too_long(
    source: TableId, where: str, copied: Mapping[str, Column], long: Sequence[str]
) -> str:
    """The message about columns that cannot be added; `where` says why."""
    named = {name: column for name, column in copied.items() if column.name in long}
    if not named:
        return (
            f"mapper[i] computes {_listed(long)} of {where}: give {_them(len(long))} a shorter name"
        )
    goes = "goes" if len(named) == 1 else "go"
    them = _them(len(named))
    return (
        f"{_listed(list(named))} of source table {source} {goes} to "
        f"{_columns(list(named.values()))} of {where}: rename {them} with mapper[i].column, or set "
        f"mapper[i].forceMatched=false to drop {them}"
    )


def _columns(columns: Sequence[Column]) -> str:
    return _listed([column.name for column in columns])


def _listed(names: Sequence[str]) -> str:
    word = "column" if len(names) == 1 else "columns"
    return f"{word} {', '.join(names)}"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"
