"""Changes rows at the source, at a steady pace, from threads of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from cdcbus.ops.demo.shop.schema import SCHEMA
from cdcbus.ops.demo.shop.shop import Shop, Transaction
from cdcbus.ops.stack import sql
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import CdcError

TRANSACTIONS_PER_SECOND = 130
BEAT_SECONDS = 0.5
MOST_BEHIND_SECONDS = 1.0


class Paced:
    """Calls `step` every `seconds` on a thread of its own. When it cannot keep up it catches up
    at most a second, then is slower."""

    def __init__(self, step: Callable[[], None], seconds: float) -> None:
        self._step, self._seconds = step, seconds
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the last step has ended. May be called twice, and without a start."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raises CdcError when a step has failed."""
        if self._error is not None:
            raise CdcError(
                f"the source refuses a change of the demo: {self._error}"
            ) from self._error

    def _run(self) -> None:
        due = time.monotonic()
        try:
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                self._step()
                due = max(due + self._seconds, time.monotonic() - MOST_BEHIND_SECONDS)
        except Exception as error:
            # Raised by `check`, on the thread that watches.
            self._error = error


class Load:
    """The changes in the shop, and the heartbeat: one row that always holds the time. A context
    manager: leaving it ends both."""

    def __init__(self, source: Database, seed: int) -> None:
        self.rows = 0
        self.last_beat: datetime | None = None
        self._shop = Shop(seed)
        # Two connections: a beat must not be part of a transaction of the shop.
        self._source, self._heart = sql.connect("source", source), sql.connect("source", source)
        for connection in (self._source, self._heart):
            # The random times are UTC.
            _execute(connection, "SET time_zone = '+00:00'")
        self._changes = Paced(lambda: self._apply(self._shop.next()), 1 / TRANSACTIONS_PER_SECOND)
        self._beats = Paced(self._beat, BEAT_SECONDS)

    def open_shop(self) -> None:
        """Inserts the first rows, and starts the heartbeat."""
        for transaction in self._shop.opening():
            self._apply(transaction)
        self._beats.start()

    def fill(self, transactions: int) -> None:
        """Changes rows without a pause, as in a shop that has been open for a while."""
        for _ in range(transactions):
            self._apply(self._shop.next())

    def start(self) -> None:
        """Starts to change rows."""
        self._changes.start()

    def check(self) -> None:
        """Raises CdcError when the source has refused something."""
        self._changes.check()
        self._beats.check()

    def stop_changes(self) -> None:
        """Returns when no row changes any more, except the heartbeat."""
        self._changes.stop()

    def stop(self) -> None:
        """Returns when nothing changes any more."""
        self.stop_changes()
        self._beats.stop()

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._source.close()
        self._heart.close()

    def _apply(self, transaction: Transaction) -> None:
        self._source.begin()
        rows = sum(_execute(self._source, *statement) for statement in transaction.statements)
        if transaction.is_undone:
            self._source.rollback()
        else:
            self._source.commit()
            self.rows += rows

    def _beat(self) -> None:
        beat = datetime.now(UTC).replace(tzinfo=None)
        _execute(
            self._heart,
            f"INSERT INTO {SCHEMA}.heartbeat VALUES (1, %s) ON DUPLICATE KEY UPDATE beat = "
            "VALUES(beat)",
            (beat,),
        )
        # Only once the source has it, as the lag is measured from the last beat there.
        self.last_beat = beat


def _execute(connection: Any, statement: str, values: tuple[object, ...] = ()) -> int:
    """Runs a statement. Returns the number of rows that it has changed."""
    with connection.cursor() as cursor:
        # None: then a % in the statement is no placeholder.
        cursor.execute(statement, values or None)
        return int(cursor.rowcount)
