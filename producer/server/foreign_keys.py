"""Foreign keys of a source by which the server itself changes or deletes rows, and whether its
binlog has these rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pymysql

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.errors import OF_CLIENT

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

NATIVE: Final = "innodb_native_foreign_keys"
"""OFF since MySQL 9.6, which executes the actions above its storage engine, and logs their rows."""
_CONSTRAINT = re.compile(
    r"^  CONSTRAINT .* FOREIGN KEY \(.*\)(?: ON (?:DELETE|UPDATE) [A-Z ]+)+,?$", re.MULTILINE
)
_ACTION = re.compile(r" ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)(?=,?$| ON )")


def unlogged_actions(connection: Connection, tables: Iterable[TableId]) -> list[TableId]:
    """Those of the tables whose rows the server changes or deletes by foreign keys without a row in
    the binlog, in order. Raises pymysql's errors."""
    logs_them = servers.global_variables(connection, [NATIVE]).get(NATIVE, "ON").upper() == "OFF"
    if logs_them:
        return []
    return sorted(table for table in tables if _has_action(_shown(connection, table)))


def _has_action(statement: str) -> bool:
    """Whether a printed CREATE TABLE has a foreign key with an action."""
    # A constraint has a line of its own; names and comments cannot break lines.
    return any(_ACTION.search(found[0]) for found in _CONSTRAINT.finditer(statement))


def _shown(connection: Connection, table: TableId) -> str:
    """The table's CREATE TABLE, for which SELECT is enough; information_schema shows foreign keys
    only to users who may change the table."""
    schema, name = (part.replace("`", "``") for part in (table.schema, table.table))
    try:
        [[_, statement, *_]] = servers.query(connection, f"SHOW CREATE TABLE `{schema}`.`{name}`")
    except pymysql.MySQLError as error:
        # Gone meanwhile, not to be seen by this user, or broken.
        if error.args and error.args[0] not in OF_CLIENT:
            return ""
        raise
    return str(statement)
