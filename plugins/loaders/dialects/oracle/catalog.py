"""Catalog queries of Oracle."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, text

from cdcbus.plugins.loaders.catalog import Catalog
from cdcbus.plugins.rowchange import TableId

COLLATIONS_SINCE: Final = (12, 2)
FOLDING: Final = text(
    """
    SELECT column_name FROM all_tab_cols
    WHERE owner = :schema AND table_name = :table AND hidden_column = 'NO'
        AND collation NOT IN ('BINARY', 'USING_NLS_COMP', 'USING_NLS_SORT')"""
)
"""Those named here compare by bytes in our sessions, see `engine`."""


def folding(connection: Connection, name: TableId) -> set[str]:
    """The columns with a collation of their own that is not by bytes."""
    sql: Any = connection.dialect
    if sql.server_version_info < COLLATIONS_SINCE:
        return set()
    return set(connection.execute(FOLDING, name._asdict()).scalars())


CATALOG: Final = Catalog(
    names="""
        SELECT DISTINCT owner, table_name FROM all_tab_cols
        WHERE UPPER(owner) = UPPER(:schema) AND UPPER(table_name) = UPPER(:table)""",
    columns="""
        SELECT column_name, data_type,
            CASE WHEN data_type IN ('NUMBER', 'FLOAT') THEN data_precision
                WHEN data_type = 'RAW' THEN data_length
                WHEN char_length > 0 THEN char_length END,
            CASE nullable WHEN 'Y' THEN 1 ELSE 0 END,
            CASE virtual_column WHEN 'YES' THEN 1 ELSE 0 END,
            CASE WHEN nullable = 'N' AND default_length IS NULL AND virtual_column = 'NO'
                THEN 1 ELSE 0 END,
            CASE data_type WHEN 'NUMBER' THEN data_scale END, ''
        FROM all_tab_cols
        WHERE owner = :schema AND table_name = :table AND hidden_column = 'NO'
        ORDER BY column_id""",
    # The primary key comes from the constraint: its index may be a non-unique one.
    unique_keys="""
        SELECT is_primary, key_name, column_name, 0 FROM (
            SELECT 1 AS is_primary, c.constraint_name AS key_name, k.column_name AS column_name,
                k.position AS place
            FROM all_constraints c JOIN all_cons_columns k
                ON k.owner = c.owner AND k.constraint_name = c.constraint_name
            WHERE c.owner = :schema AND c.table_name = :table AND c.constraint_type = 'P'
            UNION ALL
            SELECT 0, i.index_name,
                CASE WHEN e.column_position IS NULL THEN k.column_name END, k.column_position
            FROM all_indexes i JOIN all_ind_columns k
                    ON k.index_owner = i.owner AND k.index_name = i.index_name
                LEFT JOIN all_ind_expressions e
                    ON e.index_owner = i.owner AND e.index_name = i.index_name
                    AND e.column_position = k.column_position
            WHERE i.table_owner = :schema AND i.table_name = :table AND i.uniqueness = 'UNIQUE'
                AND NOT EXISTS (
                    SELECT 1 FROM all_constraints c
                    WHERE c.owner = i.table_owner AND c.table_name = i.table_name
                        AND c.constraint_type = 'P' AND c.index_name = i.index_name)
        ) ORDER BY key_name, place""",
    types="""
        SELECT column_name, data_type || CASE
            WHEN data_type = 'NUMBER' AND COALESCE(data_precision, data_scale) IS NOT NULL
                THEN '(' || COALESCE(data_precision, 38) || ',' || COALESCE(data_scale, 0) || ')'
            WHEN data_type = 'FLOAT' THEN '(' || data_precision || ')'
            WHEN data_type = 'RAW' THEN '(' || data_length || ')'
            WHEN data_type IN ('CHAR', 'VARCHAR2') THEN '(' || char_length
                || CASE char_used WHEN 'C' THEN ' CHAR)' ELSE ' BYTE)' END
            WHEN char_length > 0 THEN '(' || char_length || ')' END
        FROM all_tab_cols
        WHERE owner = :schema AND table_name = :table AND hidden_column = 'NO'""",
    identity="""
        SELECT MAX(CASE object_type WHEN 'TABLE' THEN TO_CHAR(object_id) END),
            COUNT(*) || ' ' || SUM(data_object_id)
        FROM all_objects
        WHERE owner = :schema AND object_name = :table
            AND object_type IN ('TABLE', 'TABLE PARTITION', 'TABLE SUBPARTITION')
        HAVING MAX(CASE object_type WHEN 'TABLE' THEN 1 END) = 1""",
    may_create="""
        SELECT COUNT(*) FROM session_privs
        WHERE privilege IN ('CREATE TABLE', 'CREATE ANY TABLE')""",
    folding=folding,
)
