"""The entries of a stored schema history: names and texts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.table_schema import TableSchema
from cdcbus.producer.ddl.table_states import Missing, State

FOLLOWED = "followed"  # the entry that says how far DDL was followed, on which server
ENTRY_BYTES = 900_000  # a ZooKeeper node holds a million


@dataclass(frozen=True, slots=True)
class Version:
    """The state of a table from a place in the binlog on."""

    place: BinlogCoordinates
    state: State


@dataclass(frozen=True, slots=True)
class Followed:
    """All DDL before `place`, in the files of `server`, is in the history. `is_whole`: the history
    covers all tables, not only those with open types. `file_created_ms`: when the file of `place`
    was created, which tells it from a later one of its name; 0 if unknown. `is_begun`: the task has
    read on from there; a first start stores its tables before its position."""

    place: BinlogCoordinates
    server: str
    is_whole: bool
    file_created_ms: int = 0
    is_begun: bool = True


def entry_name(table: TableId) -> str:
    """The name of a table's entry, valid for a ZooKeeper node."""
    return ".".join(quote(part, safe="").replace(".", "%2E") for part in table)


def entry_table(name: str) -> TableId | None:
    """The table that an entry is named after; None for FOLLOWED."""
    schema, dot, table = name.partition(".")
    return TableId(unquote(schema), unquote(table)) if dot else None


def entry_text(table: TableId, versions: Sequence[Version]) -> str | None:
    """The text of a table's entry; None if its versions are too large for a node."""
    fields = {"table": list(table), "versions": list(map(_fields, versions))}
    data = orjson.dumps(fields)
    if len(data) > ENTRY_BYTES and len(versions) > 1:
        return None
    return data.decode()


def read_entry(name: str, text: str) -> tuple[TableId, list[Version]]:
    """Parses a table and its versions, oldest first. Raises ValueError, TypeError, KeyError or
    AttributeError for anything that `entry_text` does not write."""
    fields = orjson.loads(text)
    schema, table_name = fields["table"]
    table = TableId(schema, table_name)
    versions = list(map(_version, fields["versions"]))
    if entry_name(table) != name or not versions:
        raise ValueError("not its table")
    return table, sorted(versions, key=lambda version: version.place)


def followed_text(followed: Followed) -> str:
    """The text of the entry FOLLOWED."""
    fields = {
        "logfileName": followed.place.file,
        "offset": followed.place.pos,
        "server": followed.server,
        "isWhole": followed.is_whole,
        "fileTimestamp": followed.file_created_ms,
        "isBegun": followed.is_begun,
    }
    return orjson.dumps(fields).decode()


def read_followed(text: str) -> Followed:
    """Parses the entry FOLLOWED. Raises what `read_entry` raises."""
    fields = orjson.loads(text)
    # earlier releases wrote no `isBegun`, those before them no time, the first ones no `isWhole`
    return Followed(
        _place(fields),
        fields["server"],
        bool(fields.get("isWhole", True)),
        int(fields.get("fileTimestamp", 0)),
        bool(fields.get("isBegun", True)),
    )


def shows_a_run(followed: str) -> bool:
    """Whether the text of the entry FOLLOWED, empty if there is none, shows that the task has run:
    one that cannot be read may."""
    if not followed:
        return False
    try:
        return read_followed(followed).is_begun
    except (ValueError, TypeError, KeyError, AttributeError):
        return True


def _fields(version: Version) -> dict[str, Any]:
    fields: dict[str, Any] = {"logfileName": version.place.file, "offset": version.place.pos}
    if isinstance(version.state, Missing):
        return fields | {"state": str(version.state)}
    return fields | version.state.to_fields()


def _version(fields: Any) -> Version:
    if "state" in fields:
        return Version(_place(fields), Missing(fields["state"]))
    return Version(_place(fields), TableSchema.from_fields(fields))


def _place(fields: Any) -> BinlogCoordinates:
    file = fields["logfileName"]
    pos = fields["offset"]
    if not isinstance(file, str) or type(pos) is not int:
        raise TypeError("logfileName and offset are not a place")
    return BinlogCoordinates(file, pos)
