"""The backlog that the benchmarks work through: inserts, updates and deletes of an orders table,
in a real binlog."""

from __future__ import annotations

from dataclasses import dataclass

import pymysql

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.server.connection import latest_position

SCHEMA = "bench"
TABLE = f"{SCHEMA}.orders"
COLUMNS = """
    id BIGINT PRIMARY KEY, customer_id INT NOT NULL, product_id INT UNSIGNED NOT NULL, state VARCHAR(20) NOT NULL,
    amount DECIMAL(12,2) NOT NULL, quantity SMALLINT NOT NULL, note VARCHAR(200), address VARCHAR(200) NOT NULL,
    created DATETIME(3) NOT NULL, updated TIMESTAMP NOT NULL"""
_INSERT = f"""
    INSERT INTO {TABLE} WITH RECURSIVE n AS (SELECT first AS i UNION ALL SELECT i + 1 FROM n WHERE i < last)
    SELECT i, MOD(i * 7919, 50000), MOD(i * 104729, 9000), ELT(1 + MOD(i, 4), 'new', 'paid', 'packed', 'sent'),
    MOD(i * 31, 100000) / 100, 1 + MOD(i, 9), IF(MOD(i, 5) = 0, NULL, CONCAT('please ring twice, order ', i)),
    CONCAT(MOD(i, 200), ' Long Street, Überlingen ', MOD(i, 90000)), NOW(3), NOW() FROM n"""
_UPDATE = (
    f"UPDATE {TABLE} SET state = 'sent', amount = amount + 1, updated = NOW() WHERE id "
    "BETWEEN first AND last"
)
_DELETE = f"DELETE FROM {TABLE} WHERE id BETWEEN first AND last"


@dataclass(frozen=True, slots=True)
class Backlog:
    """Row changes between two transaction boundaries."""

    inserts: int
    updates: int
    deletes: int
    start: BinlogPosition
    end: BinlogPosition

    @property
    def changes(self) -> int:
        return self.inserts + self.updates + self.deletes


def write(source: Database, inserts: int, per_transaction: int) -> Backlog:
    """Inserts, half as many updates and a tenth as many deletes, in transactions of one
    statement that changes `per_transaction` rows. Made on the server itself, without waiting for
    its disk."""
    connection = pymysql.connect(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        charset="utf8mb4",
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL sync_binlog = 0")
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        cursor.execute(f"CREATE TABLE {TABLE} ({COLUMNS}) CHARACTER SET utf8mb4")
        cursor.execute("FLUSH BINARY LOGS")
        start = latest_position(connection)
        updates, deletes = inserts // 2, inserts // 10
        for count, statement in ((inserts, _INSERT), (updates, _UPDATE), (deletes, _DELETE)):
            cursor.execute(f"DROP PROCEDURE IF EXISTS {SCHEMA}.fill")
            cursor.execute(
                f"CREATE PROCEDURE {SCHEMA}.fill() BEGIN DECLARE first, last INT DEFAULT 0; WHILE "
                f"first < {count} DO"
                f" SET last = first + {per_transaction} - 1; {statement}; SET first = last + 1; "
                "END WHILE; END"
            )
            cursor.execute(f"CALL {SCHEMA}.fill()")
        return Backlog(inserts, updates, deletes, start, latest_position(connection))
