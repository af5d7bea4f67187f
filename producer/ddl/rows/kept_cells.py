"""Which changes of a column's type leave the values of its cells as they are. Pure."""

from __future__ import annotations

from typing import Final

from cdcbus.producer.ddl.table_schema import ColumnText
from cdcbus.producer.ddl.type_names import labels_in

_WHOLE: Final = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_TIMES: Final = {"datetime", "timestamp", "time"}
_LABELLED: Final = {"enum", "set"}
# The binlog tells neither a geometry's type nor a vector's length; a year's counts no more.
_FREE: Final = {
    **dict.fromkeys(
        (
            *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
            *("multipolygon", "geometrycollection", "geomcollection"),
        ),
        "geometry",
    ),
    "vector": "vector",
    "year": "year",
}
# How many bytes they hold.
_ROOM: Final = {"tiny": 2**8 - 1, "": 2**16 - 1, "medium": 2**24 - 1, "long": 2**32 - 1}
_TEXTS: Final = {f"{prefix}text": room for prefix, room in _ROOM.items()}
_BLOBS: Final = {f"{prefix}blob": room for prefix, room in _ROOM.items()}
_BYTES_OF_A_CHARACTER: Final = 4


def type_in(definition: ColumnText) -> str:
    """The type that a definition gives its column; empty if its character set makes it bytes."""
    if definition.charset == "binary":
        return ""
    return definition.column.type


def has_own_labels(type_: str) -> bool:
    """Whether it is an ENUM or SET with labels that another character set reads as others, as
    CONVERT TO keeps their bytes."""
    return _parts(type_)[0] in _LABELLED and not type_.isascii()


def are_kept(former: str, new: str) -> bool:
    """Whether a server in strict mode refuses to give a column of one type the other one unless
    all its cells keep their values; False for types that are not known. More digits after the point
    are no other value. Types as in information_schema or in records; a text that becomes one of
    another character set keeps its characters."""
    if not former or not new:
        return False
    one, details = _parts(former)
    other, others = _parts(new)
    if one in _FREE or other in _FREE:
        return _FREE.get(one) == _FREE.get(other)
    if one in _TIMES:
        return one == other and int(details or 0) <= int(others or 0)
    if one in _LABELLED:
        return _have_labels(one, former, other, new)
    if one == "bit":  # a number
        return other in _WHOLE or other == "bit"
    scale, digits = _scale(one, details), _scale(other, others)
    if scale is not None and digits is not None:
        return scale <= digits
    return _have_room(one, details, other, others)


def _parts(type_: str) -> tuple[str, str]:
    """A type's first word, in lower case, and what is in its parentheses."""
    head, _, rest = type_.partition("(")
    return head.partition(" ")[0].lower(), rest.rpartition(")")[0]


def _scale(name: str, details: str) -> int | None:
    """The digits after the point of a number that is exact; None for any other type."""
    if name in _WHOLE:
        return 0
    if name == "decimal":
        return int(details.partition(",")[2] or 0)
    return None


def _have_labels(one: str, former: str, other: str, new: str) -> bool:
    """Whether labels stay. One that is removed may be taken for another one by the collation."""
    if one != other:
        return other in {"char", "varchar", *_TEXTS}
    before, after = labels_in(former), labels_in(new)
    # a SET lists its labels in their order
    return [label for label in after if label in before] == [*before] or (
        one == "enum" and set(before) <= set(after)
    )


def _have_room(one: str, details: str, other: str, others: str) -> bool:
    """Whether texts or bytes stay, or a type that is the same. Where there is less room, blanks at
    the end are cut off without an error; CHAR has none there, and BINARY fills up with zeros."""
    if one == other and details == others:
        return True
    if one in {"char", "varchar", *_TEXTS} and other in {"varchar", *_TEXTS}:
        # characters, as most of them are of one byte and some of several
        room = _TEXTS.get(other, 0) // _BYTES_OF_A_CHARACTER
        return int(details or _TEXTS.get(one, 1)) <= int(others or room)
    if one in {"binary", "varbinary", *_BLOBS} and other in {"varbinary", *_BLOBS}:
        return int(details or _BLOBS.get(one, 1)) <= int(others or _BLOBS.get(other, 0))
    return one == other == "char" and int(details or 1) <= int(others or 1)
