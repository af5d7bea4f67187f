"""The JSON Schema of a table's records, for other tools that read a topic. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from cdcbus.plugins.converters.ogg_json import table_text
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import Column, Op, Table

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TEXT: Final = {"type": "string"}
BOOLEAN: Final = {"type": "boolean"}
NULL: Final = {"type": "null"}
DDL_KINDS: Final = ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX")
NUMBER: Final = {"type": "integer", "minimum": 0}


def json_schema(table: Table, converter: str) -> dict[str, Any]:
    """The schema of the records that `canalRow` or `oggJson` writes for a table. Raises ConfigError
    for any other converter.

    Every cell is text or null, or text only in key columns; a column's `description` is its MySQL
    type.
    """
    if converter not in _SCHEMAS:
        known = " and ".join(_SCHEMAS)
        raise ConfigError(f"no JSON Schema for converter {converter}: there is one for {known}")
    head = {"$schema": DIALECT, "title": f"{table.id} as {converter}"}
    return {**head, **_SCHEMAS[converter](table)}


def _canal_row(table: Table) -> dict[str, Any]:
    row = _row(table)
    # Only the columns that have changed.
    old = {**row, "required": []}
    key = NULL
    if table.key:
        key = _or_null({"const": list(table.key)})
    members: dict[str, Any] = {
        "data": _or_null({"type": "array", "items": row, "minItems": 1}),
        "database": {"const": table.id.schema},
    }
    if not table.is_described:
        members["described"] = {"const": False}
    members |= {
        "es": _about(NUMBER, "when the source committed the row: epoch milliseconds"),
        "file": _about(TEXT, "binlog file"),
        "gtid": TEXT,
        "id": {"const": 0},
        "isDdl": _about(BOOLEAN, "true for a TRUNCATE and for DDL"),
        "mysqlType": _or_null(_each(table.names, TEXT)),
        "old": _or_null({"type": "array", "items": old, "minItems": 1}),
        "pkNames": key,
        "pos": _about(NUMBER, "where the row's event starts in the file"),
        "row": _about(NUMBER, "number of the (first) row in its transaction"),
        "serverId": NUMBER,
        "sql": TEXT,
        "sqlType": _or_null(_each(table.names, {"type": "integer"})),
        "table": {"const": table.id.table},
        "ts": _about(NUMBER, "when the record was made: epoch milliseconds"),
        "txLast": _about(BOOLEAN, "whether it is the transaction's last row"),
        "type": {"enum": [*map(str, Op), *DDL_KINDS]},
    }
    unknown = _about(
        {"type": "array", "items": {"enum": list(table.names)}},
        "columns in data whose value before the UPDATE is not known",
    )
    return _object({**members, **_MARKS, "unknown": unknown}, list(members))


def _ogg_json(table: Table) -> dict[str, Any]:
    members = {
        "table": {"const": table_text(table.id)},
        "op_type": {"enum": ["I", "U", "D", "T"]},
        "op_ts": _about(TEXT, "when the source committed the row, UTC"),
        "current_ts": _about(TEXT, "when the record was made, UTC"),
        "pos": {"type": "string", "pattern": "^[0-9]{20,}$"},
        "primary_keys": {"type": "array", "items": TEXT},
    }
    row = _row(table)
    schema = _object({**members, "before": row, "after": row, **_MARKS}, list(members))
    schema["allOf"] = [
        {"if": _op("I"), "then": {"required": ["after"]}},
        {"if": _op("U"), "then": {"required": ["before", "after"]}},
        {"if": _op("D"), "then": {"required": ["before"]}},
    ]
    return schema


_MARKS: Final = {
    "epoch": {"type": "string", "description": "the process that sent the record"},
    "snapshot": {"const": True, "description": "the row existed before, a snapshot has sent it"},
}
"""Members that only some records have."""
_SCHEMAS: Final[dict[str, Callable[[Table], dict[str, Any]]]] = {
    "canalRow": _canal_row,
    "oggJson": _ogg_json,
}


def _op(letter: str) -> dict[str, Any]:
    return {"properties": {"op_type": {"const": letter}}}


def _row(table: Table) -> dict[str, Any]:
    columns = {column.name: _cell(column, table.key) for column in table.columns}
    return _object(columns, list(columns))


def _cell(column: Column, key: tuple[str, ...]) -> dict[str, Any]:
    cell: dict[str, Any] = {"type": ["string", "null"]}
    if column.name in key:
        cell = TEXT
    if not column.mysql_type:
        return cell
    return _about(cell, column.mysql_type)


def _each(names: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    return _object(dict.fromkeys(names, schema), list(names))


def _object(members: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": required,
        "additionalProperties": False,
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, NULL]}


def _about(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}
