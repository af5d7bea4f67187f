"""mysqlType and sqlType as canal gives them."""

from __future__ import annotations

import pytest
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.producer.decoding.column_types import (
    BLOB_COMPRESSED,
    VARCHAR_COMPRESSED,
    VECTOR,
    BinlogColumn,
)
from cdcbus.producer.decoding.sql_types import type_names


@pytest.mark.parametrize(
    ("column", "mysql_type", "sql_type"),
    [
        (BinlogColumn("c", TYPE.TINY), "tinyint", -6),
        (BinlogColumn("c", TYPE.TINY, unsigned=True), "tinyint unsigned", 5),
        (BinlogColumn("c", TYPE.TINY, data_type="tinyint(1)"), "tinyint(1)", -6),
        (
            BinlogColumn("c", TYPE.TINY, unsigned=True, data_type="tinyint(1)"),
            "tinyint(1) unsigned",
            5,
        ),
        (BinlogColumn("c", TYPE.LONGLONG, unsigned=True), "bigint unsigned", 3),
        (BinlogColumn("c", TYPE.NEWDECIMAL, (10, 2)), "decimal(10,2)", 3),
        (BinlogColumn("c", TYPE.FLOAT, unsigned=True), "float unsigned", 7),
        (BinlogColumn("c", TYPE.DOUBLE), "double", 8),
        (BinlogColumn("c", TYPE.TIME2, (3, 0)), "time(3)", 92),
        (BinlogColumn("c", TYPE.TIME), "time", 92),
        (BinlogColumn("c", TYPE.TIMESTAMP2), "timestamp", 93),
        (BinlogColumn("c", TYPE.YEAR), "year", 12),
        (BinlogColumn("c", TYPE.STRING, (40, 0), charset="utf8mb4"), "char(10)", 1),
        (BinlogColumn("c", TYPE.STRING, (4, 0), charset="binary"), "binary(4)", 2004),
        (BinlogColumn("c", TYPE.VARCHAR, (20, 0), charset="gbk"), "varchar(10)", 12),
        (BinlogColumn("c", TYPE.VARCHAR, (300, 0), charset="latin1"), "varchar(300)", 12),
        (BinlogColumn("c", TYPE.VARCHAR, (300, 0), charset="binary"), "varbinary(300)", 2004),
        (BinlogColumn("c", TYPE.BLOB, (1, 0), charset="utf8mb4"), "tinytext", 2005),
        (BinlogColumn("c", TYPE.BLOB, (4, 0), charset="binary"), "longblob", 2004),
        (BinlogColumn("c", TYPE.ENUM, (1, 0), labels=("a", "it's")), "enum('a','it''s')", 4),
        (BinlogColumn("c", TYPE.SET, (1, 0), labels=("a", "b")), "set('a','b')", -7),
        (BinlogColumn("c", TYPE.BIT, (64, 0)), "bit(64)", -7),
        (BinlogColumn("c", TYPE.JSON, (4, 0)), "json", 12),
        (BinlogColumn("c", TYPE.GEOMETRY, (4, 0)), "geometry", 2004),
        (BinlogColumn("c", VECTOR, (4, 0)), "vector", 2004),
        (BinlogColumn("c", VARCHAR_COMPRESSED, (1201, 0), charset="utf8mb4"), "varchar(300)", 12),
        (BinlogColumn("c", VARCHAR_COMPRESSED, (101, 0), charset="binary"), "varbinary(100)", 2004),
        (BinlogColumn("c", BLOB_COMPRESSED, (3, 0), charset="gbk"), "mediumtext", 2005),
        (BinlogColumn("c", BLOB_COMPRESSED, (2, 0), charset="binary"), "blob", 2004),
        (BinlogColumn("c", TYPE.STRING, (16, 0), charset="binary", data_type="uuid"), "uuid", 12),
        (BinlogColumn("c", TYPE.STRING, (16, 0), charset="binary", data_type="inet6"), "inet6", 12),
        (BinlogColumn("c", TYPE.STRING, (4, 0), charset="binary", data_type="inet4"), "inet4", 12),
        (
            BinlogColumn("c", TYPE.STRING, (4, 0), charset="binary", data_type="binary"),
            "binary(4)",
            2004,
        ),
    ],
)
def test_types_are_spelled_as_in_create_table(
    column: BinlogColumn, mysql_type: str, sql_type: int
) -> None:
    assert type_names(column) == (mysql_type, sql_type)
