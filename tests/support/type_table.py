"""The table in docs/schema.md: the type that each source type has in each target, from the code."""

from __future__ import annotations

from typing import Final

from cdcbus.plugins.loaders.add_column import column_type

BEGIN: Final = "<!-- types: written by tests/unit/tasks/schema/test_type_table.py -->"
END: Final = "<!-- end of types -->"
# The source types, one per row of the table.
TYPES: Final = (
    ("tinyint", "smallint", "mediumint", "int", "bigint"),
    ("tinyint unsigned", "smallint unsigned", "mediumint unsigned", "int unsigned"),
    ("bigint unsigned", "decimal(10,2)", "decimal(65,30)", "float", "double", "bit(8)", "year"),
    ("date", "datetime", "datetime(6)", "timestamp", "timestamp(6)", "time", "time(6)"),
    ("char(10)", "varchar(100)", "varchar(5000)", "tinytext", "text", "mediumtext", "longtext"),
    ("enum('a','b')", "set('a','b')", "json", "uuid", "inet6", "inet4"),
    ("binary(16)", "varbinary(100)", "varbinary(5000)"),
    ("tinyblob", "blob", "mediumblob", "longblob", "geometry", "vector"),
)
DIALECTS: Final = ("postgresql", "oracle")


def type_table() -> str:
    """The table as Markdown. MySQL and MariaDB keep the source type, so they have no column."""
    lines = ["| source | PostgreSQL | Oracle |", "| --- | --- | --- |"]
    for group in TYPES:
        for source in group:
            types = [f"`{column_type(source, dialect)}`" for dialect in DIALECTS]
            lines.append(f"| `{source}` | {' | '.join(types)} |")
    return "\n".join(lines)
