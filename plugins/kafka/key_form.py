"""The form of the texts that record keys are made of: it decides a row's partition, and follows the
types that the key's columns have at the moment. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cdcbus.plugins.rowchange import Table

KeyForm = tuple[tuple[str, str], ...]
"""A key's columns, in their order, each with its type; the type is empty where it is not known."""

_MOST_SHOWN: Final = 60
# Types whose cells have the same text, whatever their size.
_FAMILIES: Final = {
    "whole": {"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year"},
    "text": {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"},
    "bytes": {"varbinary", "tinyblob", "blob", "mediumblob", "longblob"},
    "date": {"date"},
}
_TIMES: Final = {"datetime", "timestamp", "time"}
_LABELLED: Final = {"enum", "set"}


def key_form(table: Table, columns: Iterable[str]) -> KeyForm:
    """The form of a key of these columns of the table."""
    types = {column.name.lower(): column.mysql_type for column in table.columns}
    return tuple((name, types.get(name.lower(), "")) for name in columns)


def rekeyed(before: KeyForm, after: KeyForm) -> set[str]:
    """The columns, in lower case, for which the same row can have another key in the second form:
    all, where the key has other columns, or another order; else those whose cells can have another
    text."""
    names = [name.lower() for name, _ in before]
    now = [name.lower() for name, _ in after]
    # The text of one column's cells is the same under another name.
    if len(names) != len(now) or (names != now and len(names) > 1):
        return {*names, *now}
    found = set()
    for name, (_, one), (_, other) in zip(now, before, after, strict=True):
        if not _have_same_text(one, other):
            found.add(name)
    return found


def shown(form: KeyForm) -> str:
    """The form for messages."""
    texts = [f"{name} {type_}".strip()[:_MOST_SHOWN] for name, type_ in form]
    return f"({', '.join(texts)})"


def _have_same_text(one: str, other: str) -> bool:
    """Whether a value of one type has the same text in the other; a type that is not known shows no
    difference."""
    if not one or not other or one == other:
        return True
    kind, details = _kind(one)
    other_kind, others = _kind(other)
    if kind != other_kind:
        return False
    if kind in _LABELLED:
        # New labels behind the others change none of them.
        fewer, more = sorted((details, others), key=len)
        return more == fewer or more.startswith(f"{fewer},")
    return details == others


def _kind(mysql_type: str) -> tuple[str, str]:
    """What decides the text of a type's cells: its family, and digits or labels."""
    head, _, rest = mysql_type.partition("(")
    details, _, _ = rest.rpartition(")")
    name = head.lower().partition(" ")[0]
    for family, names in _FAMILIES.items():
        if name in names:
            return family, ""
    if name in ("decimal", "numeric"):
        scale = details.partition(",")[2].strip() or "0"
        return ("whole", "") if scale == "0" else ("decimal", scale)
    if name in _TIMES:
        return name, details or "0"
    if name in _LABELLED:
        return name, details
    return mysql_type.lower(), ""
