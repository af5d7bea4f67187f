"""The java.sql.Types numbers of MySQL's and MariaDB's types, as canal's records have them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GEOMETRIES: Final = (
    *("geometry", "point", "linestring", "polygon"),
    *("multipoint", "multilinestring", "multipolygon"),
    *("geomcollection", "geometrycollection"),
)
VARCHAR: Final = 12
_SIGNED: Final[Mapping[str, int]] = {
    "tinyint": -6,
    "smallint": 5,
    "mediumint": 4,
    "int": 4,
    "bigint": -5,
    "bit": -7,
    "float": 7,
    "double": 8,
    "decimal": 3,
    "date": 91,
    "time": 92,
    "year": VARCHAR,
    "datetime": 93,
    "timestamp": 93,
    "char": 1,
    "varchar": VARCHAR,
    "json": VARCHAR,
    "enum": 4,
    "set": -7,
    "binary": 2004,
    "varbinary": 2004,
    "vector": 2004,
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), 2005),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob", *GEOMETRIES), 2004),
}
# The next wider type, which holds the upper half of the unsigned range.
_UNSIGNED: Final[Mapping[str, int]] = {"tinyint": 5, "smallint": 4, "int": -5, "bigint": 3}


def sql_type_number(data_type: str, *, is_unsigned: bool = False) -> int:
    """The number for a type's name in lower case, without length; VARCHAR for others, such as
    `inet6`."""
    if is_unsigned and data_type in _UNSIGNED:
        return _UNSIGNED[data_type]
    return _SIGNED.get(data_type, VARCHAR)
