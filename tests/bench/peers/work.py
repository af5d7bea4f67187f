"""The same work for cdcbus and for its peer, and what is observed meanwhile: the topic's end, the
target's rows, and what the kernel says about the processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import psycopg
import pymysql
from confluent_kafka import Consumer, KafkaException, TopicPartition

from cdcbus.ops.stack.addresses import Addresses
from tests.bench import backlog as backlogs
from tests.bench.consumer import POSTGRESQL_COLUMNS, postgresql
from tests.bench.processes import check, cpu_seconds, megabytes
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 600.0
TABLE = "orders"
ROW = (
    "INSERT INTO {table} VALUES ({number}, 1, 2, 'new', 1.50, 3, 'note', 'address', NOW(3), NOW())"
)

# A running pipeline, or half of one: yields the ids of its processes.
Running = AbstractContextManager[list[int]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One of the compared programs. Each function begins in `folder`; the topic and the target
    schema are its own. `fetching` resumes where it was, or begins at the binlog's end; `loading`
    begins at the topic's beginning; `snapshot` reads the existing table."""

    name: str
    topic: str
    snapshot_topic: str
    schema: str
    fetching: Callable[[Path], Running]
    snapshot: Callable[[Path], Running]
    loading: Callable[[Path], Running]


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second`: by the clock, from the last look that saw no row to the first that saw all. `cpu`: seconds of
    processor time of all processes in that time, for 100,000 rows. `megabytes`: the most that they
    had."""

    per_second: float
    cpu: float
    megabytes: float


def rate_until(pids: list[int], wanted: int, count: Callable[[], int]) -> Rate:
    """Looks until `count` has grown by `wanted`. Raises AssertionError if it takes too long."""
    base = count()
    # a few rows may arrive together: the last look before them is the known time
    begun, used = time.perf_counter(), cpu_seconds(pids)

    def is_there() -> bool:
        nonlocal begun, used
        check(pids)
        now, rows = time.perf_counter(), count() - base
        if not rows:
            begun, used = now, cpu_seconds(pids)
        return rows >= wanted

    wait_until(is_there, f"{wanted} rows", PATIENCE_SECONDS)
    seconds, processor = time.perf_counter() - begun, cpu_seconds(pids) - used
    return Rate(wanted / seconds, processor / wanted * 1e5, megabytes(pids))


@dataclass
class Work:
    """`inserts`: rows, followed by half as many updates and a tenth as many deletes."""

    addresses: Addresses
    inserts: int

    def ends(self, topic: str) -> int:
        """The end of a topic with one partition; 0 if it does not exist yet."""
        looking = Consumer({"bootstrap.servers": self.addresses.kafka, "group.id": "look"})
        with closing(looking), suppress(KafkaException):
            return int(looking.get_watermark_offsets(TopicPartition(topic, 0), 10)[1])
        return 0

    def is_at_work(self, pids: list[int], topic: str) -> bool:
        """Whether one more change, of a table that both read, has arrived."""
        check(pids)
        before = self.ends(topic)
        with self.source() as cursor:
            cursor.execute(f"UPDATE {backlogs.TABLE} SET quantity = quantity + 1 LIMIT 1")
        with suppress(AssertionError):
            wait_until(lambda: self.ends(topic) > before, "the row", 2)
            return True
        return False

    @contextmanager
    def source(self) -> Iterator[Any]:
        at = self.addresses.source
        connection = pymysql.connect(
            host=at.host, port=at.port, user=at.user, password=at.password, autocommit=True
        )
        with connection, connection.cursor() as cursor:
            yield cursor

    def count(self) -> int:
        """The rows of the source."""
        return int(self.wanted()[0])

    def done(self, peer: Peer, changes: int) -> int:
        """All changes once the target is equal; before that 1 if it has any rows."""
        rows = self.rows(peer)
        return changes if rows == self.wanted() else int(rows[0] != "0")

    def empty(self, peer: Peer) -> None:
        """Creates its target schema, with an empty table."""
        with postgresql(self.addresses) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {peer.schema} CASCADE")
            connection.execute(f"CREATE SCHEMA {peer.schema}")
            connection.execute(f"CREATE TABLE {peer.schema}.{TABLE} ({POSTGRESQL_COLUMNS})")

    def rows(self, peer: Peer) -> tuple[str, ...]:
        """The target's number of rows, and sums over them."""
        with postgresql(self.addresses) as connection:
            return self._sums(connection.cursor(), f"{peer.schema}.{TABLE}")

    def wanted(self) -> tuple[str, ...]:
        with self.source() as cursor:
            return self._sums(cursor, backlogs.TABLE)

    def _sums(self, cursor: Any, table: str) -> tuple[str, ...]:
        cursor.execute(f"SELECT COUNT(*), SUM(id), SUM(amount), COUNT(note) FROM {table}")
        return tuple(map(str, cursor.fetchone()))

    def is_equal(self, peer: Peer) -> bool:
        return self.rows(peer) == self.wanted()


def delays(work: Work, peer: Peer, rows: int, pause: float) -> dict[str, float]:
    """Milliseconds from the return of an INSERT to the first look at the target that finds its row.
    The first third warms up Java's compiler."""
    found = []
    at = work.addresses.postgresql
    with (
        work.source() as cursor,
        closing(
            psycopg.connect(
                host=at.host,
                port=at.port,
                user=at.user,
                password=at.password,
                dbname=at.database,
                autocommit=True,
            )
        ) as looking,
    ):
        looked = f"SELECT 1 FROM {peer.schema}.{TABLE} WHERE id = %s".encode()
        cursor.execute(f"SELECT COALESCE(MAX(id), 0) FROM {backlogs.TABLE}")
        first = cursor.fetchone()[0] + 1
        for number in range(first, first + rows):
            cursor.execute(ROW.format(table=backlogs.TABLE, number=number))
            began = time.perf_counter()
            while not looking.execute(looked, (number,)).fetchall():
                if time.perf_counter() - began > PATIENCE_SECONDS:
                    raise AssertionError(f"row {number} has not come")
                time.sleep(0.001)
            found.append((time.perf_counter() - began) * 1000)
            time.sleep(max(0.0, pause - found[-1] / 1000))
    cuts = quantiles(found[rows // 3 :], n=100)
    return {f"p{percent}": cuts[percent - 1] for percent in (50, 95, 99)}
