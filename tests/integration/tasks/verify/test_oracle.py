"""`cdcbus verify` with Oracle as the target: H2 in its Oracle mode runs what two grammars of
Oracle's SQL have let pass."""

from __future__ import annotations

from collections.abc import Iterator

import oracledb
import pytest

from cdcbus.plugins.contracts import JdbcTarget, TableBatch, Writes
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import TableId
from tests.integration.tasks.verify.verifying import Answer, verify_still
from tests.support.changes.shop import Shop
from tests.support.stand_ins.h2_oracle import Database, Server

pytestmark = pytest.mark.integration
PARTITIONS = 1
URL = "jdbc:oracle:thin:@//h/svc"
SOURCE = (
    "id BIGINT PRIMARY KEY, d DECIMAL(12,4), x DOUBLE, v VARCHAR(20), must VARCHAR(9) NOT NULL, "
    "c CHAR(4), t DATETIME(3), dd DATE, clock TIME(2), r VARBINARY(9), big TEXT, blobs BLOB, "
    "n INT"
)
TARGET = (
    "ID NUMBER PRIMARY KEY, D NUMBER(14, 6), X BINARY_DOUBLE, V VARCHAR2(20), MUST VARCHAR2(9) NOT "
    "NULL, C CHAR(4), T TIMESTAMP(3), DD DATE, CLOCK INTERVAL DAY(3) TO SECOND(6), R RAW(9), "
    "BIG CLOB, BLOBS BLOB, N NUMBER"
)
FULL = (
    *("12.5000", "0.1", "Größe 😀", "m", "ab", "2024-02-29 23:59:59.120", "2024-02-29"),
    *("-30:01:02.50", "\x00\xff", "x" * 1500, "\xc3\xa9\x00", "7"),
)
LITERALS = (
    "12.5, 0.1, 'Größe 😀', 'm', 'ab', '2024-02-29 23:59:59.12', '2024-02-29', '-30:01:02.5', "
    "x'00ff', REPEAT('x', 1500), x'c3a900', 7"
)
PLANTS = {
    "D": "12.500001",
    "X": "0.30000000000000004",
    "V": "'größe 😀'",
    "MUST": "'m '",
    "C": "'ac'",
    "T": "TIMESTAMP '2024-02-29 23:59:59.121'",
    "DD": "DATE '2024-02-28'",
    "CLOCK": "INTERVAL '1' DAY",
    "R": "X'00fe'",
    "BIG": "'x'",
    "BLOBS": "X'c3a9'",
    "N": "NULL",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def oracle(server: Server, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Database:
    database = Database(server, shop.name.upper())
    monkeypatch.setattr(oracledb, "connect", database.connect)
    return database


def verified(shop: Shop, *options: str) -> Answer:
    keys = {"loader__source__url": URL, "loader__source__userName": "u"}
    return verify_still(shop, "mariadb", *options, **keys)


def filled(shop: Shop, oracle: Database, key: str = "PRIMARY KEY") -> None:
    """Row 0 has no more than it must, and empty texts; what the loader makes of the others is
    there."""
    shop.cursor.execute(f"CREATE TABLE wide ({SOURCE.replace('PRIMARY KEY', key)})")
    oracle.execute(f"CREATE TABLE {oracle.schema}.WIDE ({TARGET.replace('PRIMARY KEY', key)})")
    rows = ", ".join(f"({number}, {LITERALS})" for number in range(1, 30))
    bare = "(0, NULL, NULL, '', '', '', NULL, NULL, NULL, '', '', '', NULL)"
    shop.cursor.execute(f"INSERT INTO wide VALUES {bare}, {rows}")
    loader = make_loader("JdbcBatch", JdbcTarget(URL, "u", "pw"))
    table = loader.table(TableId(shop.name, "wide"))
    assert table is not None
    empty = ("0", None, None, "", "", "", None, None, None, "", "", "", None)
    written = [empty, *((str(number), *FULL) for number in range(1, 30))]
    with loader.transaction() as transaction:
        transaction.write(
            TableBatch(table, writes=[Writes(tuple(table.columns), written, may_insert=True)])
        )
    loader.close()


def test_what_the_loader_writes_is_equal_and_each_planted_difference_is_found(
    shop: Shop, oracle: Database
) -> None:
    """The grammars take half a minute to start on two busy cores."""
    filled(shop, oracle)
    equal = verified(shop)
    assert (equal.code, equal.table["result"]) == (0, "equal"), equal.output
    assert (equal.table["sourceRows"], equal.table["notCompared"]) == (30, [])
    for number, (column, cell) in enumerate(PLANTS.items(), 1):
        oracle.execute(f"UPDATE {oracle.schema}.WIDE SET {column} = {cell} WHERE ID = {number}")
    oracle.execute(f"DELETE FROM {oracle.schema}.WIDE WHERE ID = 20")
    oracle.execute(f"UPDATE {oracle.schema}.WIDE SET ID = 99 WHERE ID = 21")
    found = verified(shop)
    assert found.code == 1, found.output
    counts = found.table["different"], found.table["missing"], found.table["extra"]
    assert counts == (len(PLANTS), 2, 1)
    examples = []
    for numbers in ("BETWEEN 1 AND 6", "BETWEEN 7 AND 12"):
        for example in verified(shop, "--where", f"id {numbers}").table["examples"]:
            examples.append((example["key"], example["columns"]))
    wanted = [({"ID": str(number)}, [column]) for number, column in enumerate(PLANTS, 1)]
    assert sorted(examples, key=lambda example: int(example[0]["ID"])) == wanted
