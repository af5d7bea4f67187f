"""Catalog queries of MySQL and MariaDB."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.loaders.catalog import Catalog
from cdcbus.plugins.loaders.dialect import QUOTING
from cdcbus.plugins.rowchange import TableId

_OF_TABLE = "table_schema = :schema AND table_name = :table"
_GENERATED = "'VIRTUAL|STORED|PERSISTENT'"
# Binary collations in which trailing blanks are significant. `binary` is the character set of
# bytes. MariaDB's utf8mb4_0900_bin ignores the blanks.
_EXACT = (
    "(collation_name IN ('binary') OR collation_name REGEXP '_nopad_bin$' OR "
    "(collation_name REGEXP '_0900_bin$' AND VERSION() NOT LIKE '%MariaDB%'))"
)
_ACTIONS = "('CASCADE', 'SET NULL', 'SET DEFAULT')"
_GRANTEE = "CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')"

DICTIONARY_SINCE: Final = (8, 0)
NO_TABLE: Final = {1146, 1049}  # no such table, or no such schema
WAITED: Final = 1205  # for a lock, and too long
LOCKED: Final = {WAITED, 1213}  # or for each other

_MOST_KEY_BYTES = 3072
_OTHER_TYPE_BYTES = 30  # at most, as of a DECIMAL(65)
# Whether a key of the primary key's whole columns is possible: the versions of rows have it.
_FITS_WHOLE = f"""
    (SELECT SUM(COALESCE(character_octet_length, {_OTHER_TYPE_BYTES})) <= {_MOST_KEY_BYTES}
        AND NOT SUM(data_type NOT REGEXP '^(var)?(char|binary)$' AND sub_part IS NOT NULL)
    FROM information_schema.statistics
        JOIN information_schema.columns USING (table_schema, table_name, column_name)
    WHERE {_OF_TABLE} AND index_name = 'PRIMARY')"""


def hold(connection: Connection, name: TableId, wait_seconds: int | None = None) -> bool | None:
    """Reads no row, which takes the lock. MySQL 8 needs none: its tables are in a dictionary that
    DDL changes in transactions."""
    dialect: Any = connection.dialect
    if not dialect.is_mariadb and dialect.server_version_info >= DICTIONARY_SINCE:
        return None
    if wait_seconds is None:
        return _hold(connection, name)
    own = connection.exec_driver_sql("SELECT @@lock_wait_timeout").scalar_one()
    connection.exec_driver_sql(f"SET lock_wait_timeout = {min(own, wait_seconds)}")
    try:
        return _hold(connection, name)
    except DBAPIError as error:
        if _code(error) == WAITED:
            raise TimeoutError from None
        raise
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql(f"SET lock_wait_timeout = {own}")


def _hold(connection: Connection, name: TableId) -> bool | None:
    sql = f"SELECT 1 FROM {QUOTING['mysql'].table(name)} LIMIT 0"
    try:
        connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
    except DBAPIError as error:
        code = _code(error)
        if code in LOCKED or error.connection_invalidated:
            raise
        # The user may lack the right to read it, or it may be a view that cannot be read.
        return False if code in NO_TABLE else None
    return True


def _code(error: DBAPIError) -> object:
    [code, *_] = getattr(error.orig, "args", ()) or [0]
    return code


def storages(connection: Connection, names: Iterable[TableId]) -> dict[TableId, str]:
    """The numbers of the tables' tablespaces in InnoDB, which change with a TRUNCATE, too; none
    without the right PROCESS, and of names that InnoDB spells by rules of its own. One query, as
    each reads the numbers of all tables of the server."""
    in_innodb: dict[TableId, str] = {}
    for name in names:
        if "".join(name).isascii():
            in_innodb[name] = "/".join(map(_in_file_names, name)).lower()
    if not in_innodb:
        return {}
    sql: Any = connection.dialect
    view = "innodb_tables"
    if sql.is_mariadb or sql.server_version_info < DICTIONARY_SINCE:
        view = "innodb_sys_tables"
    query = text(
        f"""
        SELECT LOWER(SUBSTRING_INDEX(name, '#', 1)) AS of_table,
            CONCAT(COUNT(*), ' ', SUM(table_id))
        FROM information_schema.{view}
        WHERE LOWER(SUBSTRING_INDEX(name, '#', 1)) IN :names GROUP BY of_table"""
    ).bindparams(bindparam("names", expanding=True))
    try:
        rows = connection.execute(query, {"names": list(in_innodb.values())})
        found: dict[str, str] = dict(map(tuple, rows))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return {}
    return {name: found[spelled] for name, spelled in in_innodb.items() if spelled in found}


def _in_file_names(name: str) -> str:
    """A name of ASCII characters as the server spells it in names of files."""
    return re.sub("[^A-Za-z0-9_]", lambda found: f"@{ord(found[0]):04x}", name)


CATALOG: Final = Catalog(
    names="""
        SELECT table_schema, table_name FROM information_schema.tables
        WHERE LOWER(table_schema) = LOWER(:schema) AND LOWER(table_name) = LOWER(:table)""",
    columns=f"""
        SELECT column_name, data_type,
            CASE WHEN data_type IN ('bit', 'decimal') THEN numeric_precision
                WHEN data_type IN ('time', 'datetime', 'timestamp') THEN datetime_precision
                ELSE character_maximum_length END,
            is_nullable = 'YES', extra REGEXP {_GENERATED},
            is_nullable = 'NO' AND column_default IS NULL
                AND extra NOT REGEXP {_GENERATED} AND extra NOT REGEXP 'auto_increment',
            CASE data_type WHEN 'decimal' THEN numeric_scale END,
            CONCAT(column_type,
                CASE WHEN extra LIKE '%auto_increment%' THEN ' auto_increment' ELSE '' END),
            FALSE,
            collation_name IS NOT NULL AND NOT {_EXACT}
                AND NOT (data_type IN ('enum', 'set') AND RIGHT(collation_name, 4) = '_bin')
        FROM information_schema.columns WHERE {_OF_TABLE} ORDER BY ordinal_position""",
    # MariaDB adds the times of versioned rows to each key; they are not columns of its rows.
    # A primary key on prefixes is two keys: the whole columns, which identify rows, too, and one
    # that is more than its columns, as further rows can collide on it.
    unique_keys=f"""
        SELECT index_name = 'PRIMARY' AND NOT is_part, CONCAT(index_name, REPEAT(' (', is_part)),
            CASE WHEN NOT is_part AND (sub_part IS NULL OR index_name = 'PRIMARY' AND {_FITS_WHOLE})
                THEN column_name END, 0
        FROM information_schema.statistics AS s
            JOIN (SELECT 0 AS is_part UNION ALL SELECT 1) AS parts
                ON NOT is_part OR index_name = 'PRIMARY' AND sub_part IS NOT NULL AND {_FITS_WHOLE}
        WHERE table_schema = :schema AND table_name = :table AND non_unique = 0
            AND NOT EXISTS (
                SELECT 1 FROM information_schema.columns AS c
                WHERE c.table_schema = s.table_schema AND c.table_name = s.table_name
                    AND c.column_name = s.column_name
                    AND c.generation_expression IN ('ROW START', 'ROW END'))
        ORDER BY index_name, seq_in_index""",
    types=f"""
        SELECT column_name, CONCAT(column_type, CASE WHEN collation_name IS NULL THEN ''
            ELSE CONCAT(' CHARACTER SET ', character_set_name, ' COLLATE ', collation_name) END)
        FROM information_schema.columns WHERE {_OF_TABLE}""",
    unsafe="""
        SELECT CONCAT('has the engine ', t.engine, ', which knows no transactions: rows could not ',
            'be undone, nor written together with their offset, so that they would be lost or ',
            'come twice. Run there: ALTER TABLE ', :schema, '.', :table, ' ENGINE=InnoDB')
        FROM information_schema.tables AS t
            JOIN information_schema.engines AS e ON e.engine = t.engine
        WHERE t.table_schema = :schema AND t.table_name = :table
            AND COALESCE(e.transactions, 'NO') <> 'YES'""",
    remarks="""
        SELECT CONCAT('has the trigger ', trigger_name, ' (', action_timing, ' ',
            event_manipulation, '): it runs for the rows that come')
        FROM information_schema.triggers
        WHERE event_object_schema = :schema AND event_object_table = :table
        ORDER BY trigger_name""",
    rights=f"""
        SELECT verb, GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR ', '), 0
        FROM information_schema.columns
            JOIN (SELECT 'SELECT' AS verb UNION SELECT 'INSERT' UNION SELECT 'UPDATE') AS verbs
                ON NOT FIND_IN_SET(verb, privileges)
        WHERE {_OF_TABLE} AND extra NOT REGEXP {_GENERATED} AND extra NOT REGEXP 'INVISIBLE'
        GROUP BY verb ORDER BY verb""",
    view=f"SELECT view_definition FROM information_schema.views WHERE {_OF_TABLE}",
    # Two plain queries: MySQL rewrites a condition on a UNION and escapes its quotes with
    # backslashes, which do not escape in our session.
    may_create=f"""
        SELECT
            (SELECT COUNT(*) FROM information_schema.user_privileges
                WHERE privilege_type = 'CREATE' AND grantee = {_GRANTEE})
            + (SELECT COUNT(*) FROM information_schema.schema_privileges
                WHERE privilege_type = 'CREATE' AND DATABASE() LIKE table_schema
                    AND grantee = {_GRANTEE})""",
    folds="SELECT @@lower_case_table_names",
    cascades=f"""
        SELECT constraint_schema, table_name, unique_constraint_schema, referenced_table_name,
            CASE WHEN delete_rule IN {_ACTIONS} THEN delete_rule END,
            CASE WHEN update_rule IN {_ACTIONS} THEN update_rule END
        FROM information_schema.referential_constraints
        WHERE delete_rule IN {_ACTIONS} OR update_rule IN {_ACTIONS}""",
    # DROP and CREATE look like an ALTER that copies the table, so nothing shows for sure that it
    # was made anew.
    identity=f"""
        SELECT '', CAST(create_time AS CHAR) FROM information_schema.tables
        WHERE {_OF_TABLE} AND table_type = 'BASE TABLE'""",
    storages=storages,
    hold=hold,
)
COARSE: Final = text(
    f"""
    SELECT COUNT(*) FROM information_schema.columns
    WHERE {_OF_TABLE} AND column_name IN :key AND data_type NOT IN ('enum', 'set')
        AND collation_name NOT IN ('binary') AND (data_type = 'char' OR NOT {_EXACT})"""
).bindparams(bindparam("key", expanding=True))
"""The number of these columns that treat different texts as equal. Other binary collations ignore
trailing blanks, and a CHAR has none."""
COLUMN_TYPE: Final = f"""
    SELECT column_type FROM information_schema.columns
    WHERE {_OF_TABLE} AND column_name = :column"""
