"""What others do at the source while a snapshot reads it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from threading import Event, Thread

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.snapshot.reader import ChunkReader
from tests.integration.producer.reading import connect, global_variable


@contextmanager
def writing(
    source: Database, name: str, write: Callable[[Cursor, random.Random], None]
) -> Iterator[None]:
    """Somebody writes all the time."""
    over = Event()
    errors: list[BaseException] = []

    def run(number: int) -> None:
        chance = random.Random(number)
        try:
            with connect(source) as connection, connection.cursor() as cursor:
                cursor.execute(f"USE {name}")
                while not over.is_set():
                    with suppress(pymysql.OperationalError):  # of two writers, a deadlock
                        write(cursor, chance)
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
        assert not errors


@contextmanager
def somebody_runs(
    monkeypatch: pytest.MonkeyPatch, source: Database, name: str, statement: str
) -> Iterator[None]:
    """The statement, behind the third chunk's SELECT and before its rows are sent."""
    chunks, read = count(), ChunkReader._high
    with connect(source) as connection, connection.cursor() as somebody:
        somebody.execute(f"USE {name}")

        def run(reader: ChunkReader) -> tuple[BinlogCoordinates, int]:
            if next(chunks) == 2:
                reader.end()
                somebody.execute(statement)
            return read(reader)

        monkeypatch.setattr(ChunkReader, "_high", run)
        yield


@contextmanager
def slow_commits(source: Database, *, is_mariadb: bool) -> Iterator[None]:
    """A transaction that is in the binlog is seen by others seconds later: the server waits for a
    replica, and there is none."""
    role = "master" if is_mariadb else "source"
    nobody = "wait_no_slave" if is_mariadb else "wait_no_replica"
    with connect(source) as connection, connection.cursor() as cursor, ExitStack() as variables:
        if not is_mariadb:
            with suppress(pymysql.Error):  # it is there already
                cursor.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        for name, value in (
            ("timeout", 4_000),
            ("wait_point", "AFTER_SYNC"),
            (nobody, "ON"),
            ("enabled", "ON"),
        ):
            variables.enter_context(global_variable(source, f"rpl_semi_sync_{role}_{name}", value))
        yield
