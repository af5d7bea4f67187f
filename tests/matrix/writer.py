"""The changes at the source while something is hurt."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

import pymysql

from cdcbus.ops.stack.addresses import Database
from tests.integration.producer.reading import connect
from tests.matrix.cells import Load

KEYS = 300
HUGE_ROWS = 60_000
# With world.BURST_KEYS, each burst is a backlog.
BURST_ROWS = 12_000
PAUSE_SECONDS = {Load.GEARS: 3.0}


class _Moved(Exception):
    """Another server is the source now."""


class Writer:
    """Writes numbers that only grow into column `n`, so that a reader of the topic sees where a row
    goes back in time."""

    def __init__(self, source: Database, schema: str, seed: int) -> None:
        self.source, self._schema = source, schema
        self._at_work = Lock()
        self._choose = random.Random(seed)
        self._number = self._columns = 0
        # How often a column was added, and written to all rows.
        self.alterations = 0

    @contextmanager
    def writing(self, load: Load) -> Iterator[None]:
        """Writes while the block runs. Waits for a source that is unavailable."""
        over = Event()
        thread = Thread(target=self._run, args=(load, over))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No statement is under way while the block runs, which may replace `source`."""
        with self._at_work:
            yield

    def write(self, load: Load) -> None:
        """Makes one step of a load, immediately."""
        with connect(self.source) as connection, connection.cursor() as cursor:
            for statement in self._statements(load):
                cursor.execute(statement)

    def _run(self, load: Load, over: Event) -> None:
        pause = PAUSE_SECONDS.get(load, 0.02)
        steps = 0
        while load is not Load.IDLE and not over.is_set():
            source = self.source
            try:
                with connect(source) as connection, connection.cursor() as cursor:
                    while not over.is_set():
                        is_special = load is Load.GEARS or steps % 100 == 20
                        for statement in self._statements(load if is_special else Load.STEADY):
                            with self._at_work:
                                if self.source != source:
                                    raise _Moved
                                cursor.execute(statement)
                        steps += 1
                        over.wait(pause)
            except (pymysql.Error, _Moved):
                over.wait(0.2)

    def _statements(self, load: Load) -> Iterator[str]:
        self._number += 1
        schema, number = self._schema, self._number
        match load:
            case Load.HUGE:
                yield (
                    f"INSERT INTO {schema}.big SELECT seq, {number} FROM {schema}.seq_1_to_{HUGE_ROWS} "
                    "ON DUPLICATE KEY UPDATE n = VALUES(n)"
                )
            case Load.DDL:
                self._columns += 1
                yield f"ALTER TABLE {schema}.t ADD COLUMN c{self._columns} INT"
                yield f"UPDATE {schema}.t SET n = {number}, c{self._columns} = id"
                self.alterations += 1
            case Load.GEARS:
                yield (
                    f"INSERT INTO {schema}.big SELECT seq, {number} FROM {schema}.seq_1_to_{BURST_ROWS} "
                    "ON DUPLICATE KEY UPDATE n = VALUES(n)"
                )
            case _:
                key = self._choose.randrange(KEYS)
                if self._choose.random() < 0.2:
                    yield f"DELETE FROM {schema}.t WHERE id = {key}"
                else:
                    yield (
                        f"INSERT INTO {schema}.t (id, n, note) VALUES ({key}, {number}, 'é') "
                        "ON DUPLICATE KEY UPDATE n = VALUES(n)"
                    )
