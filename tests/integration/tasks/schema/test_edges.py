"""A table with values at the edges of each type goes source -> Kafka -> a target made by
`cdcbus schema apply`, and is the same there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.mysql.connection import MysqlConnection
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.source]
PARTITIONS = 1

EVERY_TEXT = "a \\ ' \" % : é 中 😀\tb\nc"
NUMBERS = {
    "tinyint": ("-128", "127"),
    "tinyint unsigned": ("0", "255"),
    "tinyint(1)": ("0", "-7"),
    "smallint": ("-32768", "32767"),
    "smallint unsigned": ("0", "65535"),
    "mediumint": ("-8388608", "8388607"),
    "mediumint unsigned": ("0", "16777215"),
    "int": ("-2147483648", "2147483647"),
    "int(5) unsigned zerofill": ("7", "4294967295"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "bigint unsigned": ("0", "18446744073709551615"),
    "decimal(65,30)": ("-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1"),
    "decimal(10,2) unsigned": ("0.01", "99999999.99"),
    "decimal(5,0)": ("-99999", "99999"),
    "double": ("-1.7976931348623157e308", "2.2250738585072014e-308"),
    "float": ("-3.40282e38", "1.17549e-38"),
    "year": ("1901", "2155"),
}
TEXTS = {
    "char(30)": ("", EVERY_TEXT),
    "varchar(50)": ("  blanks  ", EVERY_TEXT),
    "varchar(255) character set latin1": ("é", "ÿ"),
    "varchar(10) collate utf8mb4_bin": ("A", "a "),
    "tinytext": ("", "x" * 255),
    "text": ("", "y" * 65_535),
    "mediumtext": ("", "中" * 30_000),
    "longtext": ("", EVERY_TEXT * 100),
    "enum('a','it''s','b\\\\c','中')": ("b\\c", "中"),
    "set('x','y','it''s')": ("", "x,y,it's"),
    "json": ('{"a": [1, 2.5, null, "é"]}', '{"b": 1}'),
}
TIMES = {
    "date": ("1000-01-01", "9999-12-31"),
    "datetime": ("1000-01-01 00:00:00", "9999-12-31 23:59:59"),
    "datetime(6)": ("1000-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999"),
    "timestamp(3) null": ("1970-01-01 00:00:01.001", "2038-01-19 03:14:07.999"),
    "time": ("-838:59:59", "838:59:59"),
    "time(6)": ("-838:59:58.999999", "25:00:00.000001"),
}
BYTES = {
    "binary(4)": ("00000000", "61620000"),
    "varbinary(10)": ("", "00ff5c27"),
    "tinyblob": ("", "ff" * 255),
    "blob": ("00", "5c" * 65_535),
    "mediumblob": ("", "00ff" * 20_000),
    "longblob": ("", "00"),
    "bit(1)": ("00", "01"),
    "bit(64)": ("00", "ff" * 8),
}
POINT = "000000000101000000000000000000F03F0000000000000040"
LABELS = [*NUMBERS, *TEXTS, *TIMES, *BYTES, "point"]


def made(source: Cursor) -> None:
    """The table `edges`: a row of the lower edges, one of the upper ones, one of NULLs."""
    columns = [f"c{number} {type_} NULL" for number, type_ in enumerate(LABELS)]
    source.execute("SET NAMES utf8mb4")
    source.execute("SET time_zone = '+00:00'")
    source.execute(f"CREATE TABLE edges (id INT UNSIGNED PRIMARY KEY, {', '.join(columns)})")


def filled(source: Cursor) -> None:
    names = ", ".join(f"c{number}" for number in range(len(LABELS)))
    for row in (0, 1):
        cells: list[Any] = [row]
        cells += [edges[row] for each in (NUMBERS, TEXTS, TIMES) for edges in each.values()]
        cells += [bytes.fromhex(edges[row]) for edges in BYTES.values()]
        marks = ", ".join(["%s"] * len(cells))
        source.execute(
            f"INSERT INTO edges (id, {names}) VALUES ({marks}, ST_GeomFromText('POINT(1 2)'))",
            cells,
        )
    source.execute("INSERT INTO edges (id) VALUES (2)")


def read_mysql(run: Callable[[str], Any], table: str) -> list[tuple[Any, ...]]:
    """Every cell by its bytes or text."""
    cells = []
    for number, type_ in enumerate(LABELS):
        name = f"c{number}"
        is_bytes = type_ in BYTES or type_ == "point"
        cells.append(f"HEX({name})" if is_bytes else f"CAST({name} AS CHAR)")
    return list(run(f"SELECT id, {', '.join(cells)} FROM {table} ORDER BY id"))


def read_postgresql(run: Callable[[str], Any], table: str) -> list[tuple[Any, ...]]:
    """The same texts, of PostgreSQL's types."""
    cells = []
    for number, type_ in enumerate(LABELS):
        name = f"c{number}"
        cells.append(f"{name}::text")
        if type_ in ("time", "time(6)"):
            cells[-1] = f"extract(epoch FROM {name})::text"
        elif type_.startswith("timestamp"):
            cells[-1] = f"({name} AT TIME ZONE 'UTC')::text"
        elif type_ in BYTES and type_.startswith("bit("):
            size = int(type_[4:-1])
            width = 4 if size == 1 else 64
            cells[-1] = f"lpad({name}::text, {width}, '0')"
        elif type_ in BYTES or type_ == "point":
            cells[-1] = f"upper(encode({name}, 'hex'))"
    return list(run(f"SELECT id, {', '.join(cells)} FROM {table} ORDER BY id"))


def plain(cell: Any, type_: str) -> Any:
    """A cell as both databases' texts of it come out alike."""
    if cell is None:
        return None
    kind = type_.partition("(")[0].partition(" ")[0]
    if kind == "float":
        return f"{float(cell):.5e}"
    if kind == "double":
        return float(cell)
    if kind in ("int", "decimal"):
        return cell.lstrip("0") or "0"
    if kind == "time" and ":" in cell:
        sign = -1 if cell.startswith("-") else 1
        hours, minutes, seconds = cell.lstrip("-").split(":")
        return sign * (int(hours) * 3600 + int(minutes) * 60) * 10**6 + sign * round(
            float(seconds) * 10**6
        )
    if kind == "time":
        return round(float(cell) * 10**6) if "." not in cell else int(cell.replace(".", ""))
    if kind in ("datetime", "timestamp"):
        return cell.rstrip("0").rstrip(".") if "." in cell else cell
    if kind == "bit" and set(cell) <= {"0", "1"} and len(cell) in (4, 64):
        return int(cell, 2)
    if kind == "bit":
        return int(cell, 16)
    return cell


def equal(source: list[tuple[Any, ...]], target: list[tuple[Any, ...]]) -> None:
    assert len(source) == len(target) == 3
    for one, other in zip(source, target, strict=True):
        for type_, cell, there in zip(LABELS, one[1:], other[1:], strict=True):
            assert plain(cell, type_) == plain(there, type_), f"{type_}, row {one[0]}"


def schema(*words: object) -> str:
    result = CliRunner().invoke(main, ["schema", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


@contextmanager
def mysql_target(shop: Shop, mysql: Database) -> Iterator[tuple[TaskProcess, Callable[[str], Any]]]:
    """A consumer task into a MySQL that is not the stack's, and what runs SQL there."""
    load = shop.load(
        "mariadb",
        loader__source__url=f"jdbc:mysql://{mysql.host}:{mysql.port}/{shop.name}",
        loader__source__userName=mysql.user,
        loader__source__password=mysql.password,
    )
    connection = MysqlConnection(
        host=mysql.host,
        port=mysql.port,
        user=mysql.user,
        password=mysql.password,
        charset="utf8mb4",
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:

        def run(sql: str) -> Any:
            cursor.execute(sql)
            return cursor.fetchall()

        try:
            yield load, run
        finally:
            run(f"DROP DATABASE IF EXISTS {shop.name}")


@contextmanager
def target_of(
    shop: Shop, kind: str, request: pytest.FixtureRequest
) -> Iterator[tuple[TaskProcess, Callable[[str], Any]]]:
    if kind != "mysql":
        yield shop.load(kind), shop.postgresql if kind == "postgresql" else shop.mariadb
        return
    with mysql_target(shop, request.getfixturevalue("mysql_9")) as found:
        yield found


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mysql"])
def test_values_at_the_edges_of_each_type_are_the_same_in_a_table_that_was_made(
    shop: Shop, source: Database, kind: str, request: pytest.FixtureRequest
) -> None:
    made(shop.cursor)
    fetch = shop.fetch(source)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task to begin")
    filled(shop.cursor)
    read = read_postgresql if kind == "postgresql" else read_mysql

    def at_source(sql: str) -> Any:
        shop.cursor.execute(sql)
        return shop.cursor.fetchall()

    with target_of(shop, kind, request) as (load, run):
        schema("apply", load.file, "--yes", "--schemas")
        load.start()
        wait_until(
            lambda: shop.ends() != {0: 0} and shop.is_applied(load), "all rows to be in the target"
        )
        equal(read_mysql(at_source, "edges"), read(run, f"{shop.name}.edges"))
        assert "LOSES" not in schema("plan", load.file, "--check")
        load.kill()
