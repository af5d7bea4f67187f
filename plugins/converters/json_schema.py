"""The JSON Schema of a table's records, for other tools that read a topic. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cdcbus.plugins.converters.ogg_json import table_text
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import Column, Op, Table

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TEXT: Final = {"type": "string"}
DDL_KINDS: Final = ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX")
NUMBER: Final = {"type": "integer", "minimum": 0}


def json_schema(table: Table, converter: str) -> dict[str, Any]:
    """The schema of the records that `canalRow` or `oggJson` writes for a table. Raises ConfigError
    for any other converter.

    Every cell is text or null, or text only in key columns; a column's `description` is its MySQL
    type.
    """
    if converter not in _SCHEMAS:
        raise ConfigError(
            f"no JSON Schema for converter {converter}: there is one for {' and '.join(_SCHEMAS)}"
        )
    return {"$schema": DIALECT, "title": f"{table.id} as {converter}", **_SCHEMAS[converter](table)}


def _canal_row(table: Table) -> dict[str, Any]:
    row, names = _row(table), [column.name for column in table.columns]
    members = {
        "data": _or_null({"type": "array", "items": row, "minItems": 1}),
        "database": {"const": table.id.schema},
        **({} if table.is_described else {"described": {"const": False}}),
        "es": _about(NUMBER, "when the source committed the row: epoch milliseconds"),
        "file": _about(TEXT, "binlog file"),
        "gtid": TEXT,
        "id": {"const": 0},
        "isDdl": _about({"type": "boolean"}, "true for a TRUNCATE and for DDL"),
        "mysqlType": _or_null(_each(names, TEXT)),
        "old": _or_null({"type": "array", "items": {**row, "required": []}, "minItems": 1}),
        "pkNames": _or_null({"const": list(table.key)}) if table.key else {"type": "null"},
        "pos": _about(NUMBER, "where the row's event starts in the file"),
        "row": _about(NUMBER, "number of the (first) row in its transaction"),
        "serverId": NUMBER,
        "sql": TEXT,
        "sqlType": _or_null(_each(names, {"type": "integer"})),
        "table": {"const": table.id.table},
        "ts": _about(NUMBER, "when the record was made: epoch milliseconds"),
        "txLast": _about({"type": "boolean"}, "whether it is the transaction's last row"),
        "type": {"enum": [*(op.value for op in Op), *DDL_KINDS]},
    }
    return _object(members, list(members))


def _ogg_json(table: Table) -> dict[str, Any]:
    members = {
        "table": {"const": table_text(table.id)},
        "op_type": {"enum": ["I", "U", "D", "T"]},
        "op_ts": _about(TEXT, "when the source committed the row, UTC"),
        "current_ts": _about(TEXT, "when the record was made, UTC"),
        "pos": {"type": "string", "pattern": "^[0-9]{20,}$"},
        "primary_keys": {"type": "array", "items": TEXT},
        "before": _row(table),
        "after": _row(table),
    }
    required = [name for name in members if name not in ("before", "after")]
    images = [
        {"if": _op("I"), "then": {"required": ["after"]}},
        {"if": _op("U"), "then": {"required": ["before", "after"]}},
        {"if": _op("D"), "then": {"required": ["before"]}},
    ]
    return {**_object(members, required), "allOf": images}


_SCHEMAS: Final[dict[str, Callable[[Table], dict[str, Any]]]] = {
    "canalRow": _canal_row,
    "oggJson": _ogg_json,
}


def _op(letter: str) -> dict[str, Any]:
    return {"properties": {"op_type": {"const": letter}}}


def _row(table: Table) -> dict[str, Any]:
    return _object(
        {column.name: _cell(column, column.name in table.key) for column in table.columns},
        [c.name for c in table.columns],
    )


def _cell(column: Column, is_key: bool) -> dict[str, Any]:
    cell = {"type": "string" if is_key else ["string", "null"]}
    return _about(cell, column.mysql_type) if column.mysql_type else cell


def _each(names: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    return _object(dict.fromkeys(names, schema), names)


def _object(members: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": required,
        "additionalProperties": False,
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _about(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}
