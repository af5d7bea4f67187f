"""What `schema plan` says of a column of numbers is what its server does with the edges of each
type of the source."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from typing import Any, Final

import pytest

from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import TargetError
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.schema.compare import differences
from cdcbus.tasks.schema.definition import ColumnDefinition, TableDefinition
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration
Server = MysqlServer | PostgresqlServer

EDGES: Final = {
    "tinyint": ("-128", "127"),
    "tinyint unsigned": ("0", "255"),
    "smallint": ("-32768", "32767"),
    "smallint unsigned": ("0", "65535"),
    "mediumint": ("-8388608", "8388607"),
    "mediumint unsigned": ("0", "16777215"),
    "int": ("-2147483648", "2147483647"),
    "int unsigned": ("0", "4294967295"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "bigint unsigned": ("0", "18446744073709551615"),
    "decimal(4,0)": ("-9999", "9999"),
    "decimal(10,0)": ("-9999999999", "9999999999"),
    "decimal(10,2)": ("-99999999.99", "0.01"),
    "decimal(10,2) unsigned": ("0.01", "99999999.99"),
    "decimal(30,0)": ("-" + "9" * 30, "9" * 30),
    "float": ("-3.40282e38", "0.1"),
    "double": ("-1.7976931348623157e308", "0.1"),
    "bit(1)": ("0", "1"),
    "bit(8)": ("0", "255"),
    "bit(64)": ("0", "18446744073709551615"),
    "year": ("1901", "2155"),
}
WHOLE: Final = ("smallint", "int", "bigint", "numeric(10,0)", "numeric(10,2)", "numeric(38,0)")
OF_MYSQL: Final = (
    *WHOLE,
    *("tinyint", "tinyint unsigned", "mediumint", "int unsigned", "bigint unsigned"),
    *("float", "double", "bit(1)", "bit(8)", "bit(64)", "year"),
)
OF_POSTGRESQL: Final = (
    *WHOLE,
    *("numeric", "real", "double precision", "boolean", "bit(1)", "bit(8)", "bit varying(64)"),
)


def test_of_mysql(mysql_server: MysqlServer) -> None:
    check(mysql_server, OF_MYSQL, _of_mysql)


def test_of_postgresql(postgresql_server: PostgresqlServer) -> None:
    check(postgresql_server, OF_POSTGRESQL, _of_postgresql)


def check(server: Server, types: tuple[str, ...], number_of: Callable[[Any], Any]) -> None:
    columns = ", ".join(f"c{at} {type_}" for at, type_ in enumerate(types))
    server.execute(f"CREATE TABLE {{schema}}.t (id int PRIMARY KEY, {columns})")
    wrong = []
    with closing(make_loader("JdbcBatch", server.target())) as loader, server.connected() as other:
        table = loader.table(TableId(server.schema, "t"))
        assert table is not None

        def is_kept(at: int, cell: str, *, is_single: bool) -> bool:
            write = Writes(("id", f"c{at}"), [("1", cell)])
            try:
                with loader.transaction() as transaction:
                    transaction.write(TableBatch(table, truncate=True, writes=[write]))
            except TargetError:
                return False
            cursor = other.cursor()
            cursor.execute(f"SELECT {_exact(types[at], at)} FROM {server.schema}.t")
            [[found]] = cursor.fetchall()
            return is_same(cell, number_of(found), is_single=is_single)

        for source, edges in EDGES.items():
            for at, type_ in enumerate(types):
                is_held = all(is_kept(at, cell, is_single=source == "float") for cell in edges)
                if is_held == is_told(table, f"c{at}", source):
                    wrong.append(f"{source} in {type_}: held {is_held}")
    assert wrong == []


def _exact(type_: str, at: int) -> str:
    """A FLOAT is shown with six digits, which are not all."""
    return f"CAST(c{at} AS DOUBLE)" if type_ == "float" else f"c{at}"


def _of_mysql(found: Any) -> Any:
    return int.from_bytes(found, "big") if isinstance(found, bytes) else found


def _of_postgresql(found: Any) -> Any:
    if isinstance(found, str):
        return int(found, 2)
    return int(found) if isinstance(found, bool) else found


def is_same(cell: str, found: Any, *, is_single: bool) -> bool:
    if not is_single:
        exact = found if isinstance(found, Decimal | int) else Decimal(repr(found))
        return bool(Decimal(cell) == exact)
    return struct.pack("f", float(cell)) == struct.pack("f", float(found))


def is_told(table: TargetTable, name: str, source: str) -> bool:
    wanted = TableDefinition(table.id, (table.id,), (ColumnDefinition(name, source, ""),), None)
    keyless = TargetTable(table.id, {name: table.columns[name]}, (), dialect=table.dialect)
    return any(each.is_lost for each in differences(wanted, keyless, {}))
