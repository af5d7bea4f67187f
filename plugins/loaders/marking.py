"""`loader.mark`: each transaction in a MySQL or MariaDB target begins with a row of table
`cdcbus_mark_<mark>`, by which readers of that server's binlog recognize it."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final
from uuid import uuid4

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from cdcbus.plugins.loaders.engine import Database

PREFIX: Final = "cdcbus_mark_"


class Marking:
    """Marks transactions if the target has a mark. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._table = f"{PREFIX}{database.target.mark}"
        self._is_marking = bool(database.target.mark)
        self._lock = Lock()
        self._is_there = False

    def prepare(self) -> None:
        """Creates the table if it is missing, once. Raises TargetError: unmarked transactions would
        circulate endlessly."""
        if not self._is_marking:
            return
        with self._lock:
            if self._is_there:
                return
            with self._database.begun(f"table {self._table}") as connection:
                connection.exec_driver_sql(
                    f"CREATE TABLE IF NOT EXISTS {self._table} (id CHAR(32) PRIMARY KEY) "
                    "ENGINE=InnoDB"
                )
            self._is_there = True

    def forget(self) -> None:
        """Has the next `prepare` create the table again if it is gone."""
        self._is_there = False

    def begin(self, connection: Connection) -> None:
        """Writes the first rows of a transaction: inserts and deletes a unique row, so that no two
        transactions wait for each other, and the table stays empty."""
        if not self._is_marking:
            return
        key = uuid4().hex
        connection.exec_driver_sql(f"INSERT INTO {self._table} (id) VALUES ('{key}')")
        connection.exec_driver_sql(f"DELETE FROM {self._table} WHERE id = '{key}'")
