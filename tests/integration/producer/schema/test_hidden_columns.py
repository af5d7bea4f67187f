"""Columns that a server does not show: to a user without a right to them, or in `*`."""

from __future__ import annotations

from contextlib import closing

import pymysql
import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.schema.schema_reader import HiddenColumns, SchemaReader
from cdcbus.producer.server.connection import connect

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("beside", ["", ", INSERT"])
@pytest.mark.parametrize("kind", ["mariadb", "mysql_9"])
def test_an_invisible_column_without_a_right_is_missed(
    request: pytest.FixtureRequest, kind: str, beside: str, name: str
) -> None:
    """Also beside a right to the table itself, which lets a user see all columns."""
    at: Database = request.getfixturevalue(kind)
    connection = pymysql.connect(
        host=at.host, port=at.port, user=at.user, password=at.password, autocommit=True
    )
    config = SourceConfig(((at.host, at.port),), name, "cdc-pass")
    table = TableId(name, "t")
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"CREATE USER {name} IDENTIFIED BY 'cdc-pass'")
        try:
            cursor.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, n INT INVISIBLE)")
            cursor.execute(f"GRANT SELECT (id){beside} ON {name}.t TO {name}")
            with closing(connect(config)) as own, pytest.raises(HiddenColumns, match="GRANT SELE"):
                SchemaReader(own).read_whole(table)
            cursor.execute(f"GRANT SELECT ON {name}.t TO {name}")
            with closing(connect(config)) as own:
                schema = SchemaReader(own).read_whole(table)
        finally:
            cursor.execute(f"DROP USER {name}")
            cursor.execute(f"DROP DATABASE {name}")
    assert schema is not None
    assert schema.names == ("id", "n")
