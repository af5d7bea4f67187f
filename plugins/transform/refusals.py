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
        # Debezium's is the only format without types that can be configured to send them.
        if Unclear.BITS in column.unclear:
            remedy = f"send the types too (value.converter.schemas.enable=true), or {remedy}"
        raise ConversionError(
            f"column {name} of {source} comes without its type, so {meaning} cannot be told, "
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
    it = "it" if len(copied) + len(computed) == 1 else "them"
    # Imported here, as it brings SQLAlchemy, which would double what a fetch task loads at its
    # start.
    from cdcbus.plugins.loaders.add_column import add_columns

    remedy = f"add {it} ({add_columns(target, list(lacking.values()))})"
    computing = _computing(computed)
    if not copied:
        s = _plural(computed)
        return f"{computing}, which target table {target.id} lacks: {remedy}, or remove the line{s}"
    s = _plural(copied)
    it, have = ("it", "has") if len(copied) == 1 else ("them", "have")
    names = ", ".join(column.name for column in copied.values())
    computed_too = f", and {computing}, which it lacks too" if computed else ""
    return (
        f"column{s} {', '.join(copied)} of source table {source} {have} no column{s} {names} in "
        f"target table {target.id}{computed_too}: {remedy}, rename {it} with mapper[i].column, or "
        f"set mapper[i].forceMatched=false to drop {it}"
    )


def _computing(columns: Sequence[Column]) -> str:
    names = ", ".join(column.name for column in columns)
    return f"mapper[i] computes column{_plural(columns)} {names}"


def _plural(things: Sequence[object] | Mapping[str, object]) -> str:
    return "" if len(things) == 1 else "s"
