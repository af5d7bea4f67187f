"""Catalog queries of PostgreSQL."""

from __future__ import annotations

from typing import Final

from cdcbus.plugins.loaders.catalog import Catalog

_TABLE = (
    "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "AND n.nspname = :schema AND c.relname = :table"
)
# The same for the driver's own parameters.
_TABLE_BY_PLACE = _TABLE.replace(":schema", "%s").replace(":table", "%s")
# A column's type `b`, with the length and digits that it has there: below all domains, which can be
# domains over domains.
_BASE_TYPE = """LATERAL (
                WITH RECURSIVE d(oid, typmod) AS (
                    SELECT a.atttypid, a.atttypmod
                    UNION ALL
                    SELECT o.typbasetype, coalesce(nullif(d.typmod, -1), o.typtypmod)
                    FROM d JOIN pg_type o ON o.oid = d.oid AND o.typtype = 'd')
                SELECT y.oid, y.typname, nullif(d.typmod, -1) AS typmod
                FROM d JOIN pg_type y ON y.oid = d.oid AND y.typtype <> 'd') AS b"""
# The action of a foreign key, in words.
_ACTION = "CASE {} WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' END"
# Tables, partitioned ones, views, foreign tables.
_IS_TABLE = "c.relkind IN ('r', 'p', 'v', 'f')"
_IS_COLUMN = "a.attnum > 0 AND NOT a.attisdropped"

CATALOG: Final = Catalog(
    names=f"""
        SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE lower(n.nspname) = lower(:schema) AND lower(c.relname) = lower(:table)
            AND {_IS_TABLE}""",
    # format_type with -1 spells a type whose cast does not truncate: `bpchar` and `"bit"`, where
    # `character` and `bit` would mean length 1. An interval's digits are 16 bits of the typmod, all
    # set where it has none; above them is a bit for each of its fields: 12 is that of seconds, 11
    # of minutes, 10 of hours. A cast shows how many digits of a money are cents.
    columns=f"""
        SELECT a.attname, format_type(b.oid, -1),
            CASE WHEN b.typname IN ('bit', 'varbit') THEN b.typmod
                WHEN b.typname IN ('varchar', 'bpchar') THEN b.typmod - 4
                WHEN b.typname IN ('timestamp', 'timestamptz', 'time', 'timetz')
                    THEN b.typmod
                WHEN b.typname = 'interval' AND (b.typmod >> 16) & (1 << 12) = 0
                    THEN CASE WHEN (b.typmod >> 16) & (1 << 11) <> 0 THEN -2
                        WHEN (b.typmod >> 16) & (1 << 10) <> 0 THEN -4 ELSE -6 END
                WHEN b.typname = 'interval' THEN nullif(b.typmod & 65535, 65535)
                WHEN b.typname = 'numeric' THEN (b.typmod - 4) >> 16 END,
            NOT a.attnotnull, a.attgenerated <> '',
            a.attnotnull AND NOT a.atthasdef AND a.attidentity = '',
            CASE b.typname WHEN 'numeric'
                THEN (((b.typmod - 4) & 2047) # 1024) - 1024
            WHEN 'money' THEN scale(0::money::numeric) END,
            (SELECT 'enum(' || string_agg('''' || replace(enumlabel, '''', '''''') || '''', ','
                    ORDER BY enumsortorder) || ')'
                FROM pg_enum WHERE enumtypid = b.oid),
            a.attidentity = 'a',
            b.typname = 'citext' OR EXISTS (
                SELECT FROM pg_collation l
                WHERE l.oid = a.attcollation AND NOT l.collisdeterministic)
        FROM pg_attribute a
            JOIN {_TABLE} ON c.oid = a.attrelid
            CROSS JOIN {_BASE_TYPE}
        WHERE {_IS_TABLE} AND {_IS_COLUMN}
        ORDER BY a.attnum""",
    unique_keys=f"""
        SELECT i.indisprimary, i.indexrelid::text,
            CASE WHEN i.indpred IS NULL AND i.indisvalid THEN a.attname END, NOT i.indimmediate
        FROM {_TABLE} JOIN pg_index i ON i.indrelid = c.oid
            CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
            LEFT JOIN pg_attribute a
                ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0
        WHERE i.indisunique AND k.place <= i.indnkeyatts
        ORDER BY i.indexrelid, k.place""",
    types=f"""
        SELECT a.attname, format_type(a.atttypid, a.atttypmod) || coalesce(
            (SELECT ' COLLATE ' || quote_ident(s.nspname) || '.' || quote_ident(l.collname)
                FROM pg_collation l JOIN pg_namespace s ON s.oid = l.collnamespace
                WHERE l.oid = a.attcollation AND l.oid <> t.typcollation), '')
        FROM {_TABLE} JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
        WHERE {_IS_COLUMN}""",
    unsafe=f"""
        SELECT 'has rules (CREATE RULE), which make other statements of those that write rows, and '
            || 'which COPY passes by: drop them, or write to the table that they mean'
        FROM {_TABLE}
        WHERE c.relkind IN ('r', 'p', 'f') AND c.relhasrules
            AND EXISTS (SELECT FROM pg_rewrite w WHERE w.ev_class = c.oid AND w.ev_type <> '1')
        UNION ALL
        SELECT 'has child tables (INHERITS), among them '
            || min(format('%I.%I', s.nspname, h.relname)) || ': its key does not hold for '
            || 'their rows, so that an insert would not find a row there, and an update would. '
            || 'Run for each: ALTER TABLE ' || min(format('%I.%I', s.nspname, h.relname))
            || ' NO INHERIT ' || format('%I.%I', n.nspname, c.relname)
        FROM {_TABLE}
            JOIN pg_inherits i ON i.inhparent = c.oid
            JOIN pg_class h ON h.oid = i.inhrelid JOIN pg_namespace s ON s.oid = h.relnamespace
        WHERE c.relkind IN ('r', 'f') GROUP BY n.nspname, c.relname
        UNION ALL
        SELECT CASE c.relkind WHEN 'f' THEN 'is' ELSE 'has a partition that is' END
            || ' a foreign table: another server commits its rows, and not together with their '
            || 'offset, so that they would be lost or come twice. Let the task write there itself'
        FROM {_TABLE}
        WHERE c.relkind = 'f' OR EXISTS (
            SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class f ON f.oid = p.relid
            WHERE f.relkind = 'f')
        UNION ALL
        SELECT CASE u.oid WHEN c.oid THEN 'is' ELSE 'has a partition that is' END
            || ' UNLOGGED: a crash or a failover of the server empties it and keeps the offset, so '
            || 'that all its rows would be lost. Run: ALTER TABLE '
            || format('%I.%I', s.nspname, u.relname) || ' SET LOGGED'
        FROM {_TABLE}
            JOIN pg_class u ON u.oid = c.oid
                OR u.oid IN (SELECT relid FROM pg_partition_tree(c.oid))
            JOIN pg_namespace s ON s.oid = u.relnamespace
        WHERE u.relpersistence = 'u'""",
    remarks=f"""
        SELECT CASE kind
            WHEN 0 THEN 'hides rows from this user by row level security: updates and deletes of '
                || 'these find nothing'
            WHEN 2 THEN 'is a view, of which no key is known: it takes new rows, but no updates '
                || 'and deletes, as rows without a key are only found in tables. Let the task '
                || 'write to the table that it shows (mapper[i].schema and .table)'
            ELSE 'has the trigger ' || name
                || ', which runs before each row and may leave it out or change it' END
        FROM (
            SELECT 0 AS kind, '' AS name FROM {_TABLE} WHERE row_security_active(c.oid)
            UNION ALL
            SELECT 1, t.tgname FROM {_TABLE} JOIN pg_trigger t ON t.tgrelid = c.oid
            WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 3 = 3
            UNION ALL
            SELECT 2, '' FROM {_TABLE} WHERE c.relkind = 'v'
        ) AS found ORDER BY 1""",
    rights=f"""
        SELECT verb, string_agg(a.attname, ', ' ORDER BY a.attnum), verb = 'DELETE'
        FROM {_TABLE} JOIN pg_attribute a ON a.attrelid = c.oid
            CROSS JOIN (VALUES ('DELETE'), ('INSERT'), ('SELECT'), ('UPDATE')) AS verbs(verb)
        WHERE {_IS_COLUMN} AND a.attgenerated = ''
            AND CASE verb WHEN 'DELETE' THEN NOT has_table_privilege(c.oid, verb)
                ELSE NOT has_column_privilege(c.oid, a.attnum, verb) END
        GROUP BY verb ORDER BY verb""",
    cascades=f"""
        SELECT n.nspname, c.relname, m.nspname, p.relname, {_ACTION.format("f.confdeltype")},
            {_ACTION.format("f.confupdtype")}
        FROM pg_constraint f
            JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            JOIN pg_class p ON p.oid = f.confrelid JOIN pg_namespace m ON m.oid = p.relnamespace
        WHERE f.contype = 'f' AND (f.confdeltype IN ('c', 'n', 'd')
            OR f.confupdtype IN ('c', 'n', 'd'))""",
    # Of a partitioned table the storage is that of its partitions.
    identity=f"""
        SELECT c.oid::text, coalesce(
            (SELECT md5(string_agg(pg_relation_filenode(p.relid)::text, ' ' ORDER BY p.relid))
                FROM pg_partition_tree(c.oid) AS p WHERE p.isleaf),
            pg_relation_filenode(c.oid)::text, '')
        FROM {_TABLE} WHERE c.relkind IN ('r', 'p')""",
    may_create="SELECT has_schema_privilege(current_schema(), 'CREATE')",
)
DEFAULT: Final = f"""
    SELECT pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attrdef d
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        JOIN {_TABLE_BY_PLACE} ON c.oid = d.adrelid
    WHERE a.attname = %s"""
"""Selects a column's default, as SQL."""
COARSE: Final = f"""
    SELECT bool_or(b.typname IN ('bpchar', 'citext') OR NOT coalesce(l.collisdeterministic, true))
    FROM pg_attribute a
        JOIN {_TABLE_BY_PLACE} ON c.oid = a.attrelid
        CROSS JOIN {_BASE_TYPE}
        LEFT JOIN pg_collation l ON l.oid = a.attcollation
    WHERE a.attname = ANY (%s)"""
"""Selects whether one of these columns treats different texts as equal."""
INSERTED: Final = """
    SELECT coalesce(
        (SELECT sum(pg_stat_get_xact_tuples_inserted(relid)) FROM pg_partition_tree(name)),
        pg_stat_get_xact_tuples_inserted(name), 0)
    FROM (SELECT %s::regclass AS name) AS n"""
"""Selects the number of rows that this transaction has inserted into a table; 0 if the server does
not count (track_counts), or it is a view. RETURNING xmax would cost a seventh of a large statement,
and partitioned tables refuse it."""
