"""A fetch task with a snapshot, and the tables that its topic tells of."""

from __future__ import annotations

import json
from typing import Any

from pymysql.cursors import Cursor

from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.run import run
from cdcbus.producer.snapshot.progress import (
    MemorySnapshots,
    SnapshotStore,
    TableProgress,
    TableState,
)
from tests.integration.producer.running import Running, messages

Table = dict[tuple[str, ...], dict[str, str | None]]


class SnapshotRunning(Running):
    """With a store for its snapshots."""

    def __init__(
        self, task: FetchTask, positions: PositionStore, kept: SnapshotStore | None = None
    ) -> None:
        super().__init__(task, positions)
        self.kept = MemorySnapshots() if kept is None else kept

    def _run(self) -> None:
        try:
            run(
                *(self._task, self._positions, self.schemas, self.stop, self.status, self._note),
                snapshots=self.kept,
            )
        except BaseException as error:
            self._error = error

    def snapshot(self, table: str) -> TableProgress | None:
        return self.kept.load().get(TableId(self._task.task_id, table))

    def until_snapshot(self, table: str, state: TableState = TableState.DONE) -> TableProgress:
        """Waits until the table's snapshot is in this state."""

        def is_so() -> bool:
            found = self.snapshot(table)
            return found is not None and found.state is state

        self.until(is_so)
        found = self.snapshot(table)
        assert found is not None
        return found


def tables_in(kafka: str, topic: str) -> dict[str, Table]:
    """Each table as the records of a canalRow topic leave it, read from their start; of tables with
    a key. A row is known by its record key, which each partition has in order."""
    tables: dict[str, Table] = {}
    for message in messages(kafka, topic):
        record: dict[str, Any] = json.loads(message.value() or b"")
        table = tables.setdefault(record["table"], {})
        for row in record["data"]:
            key = tuple(row[name] for name in record["pkNames"])
            if record["type"] == "DELETE":
                table.pop(key, None)
            else:
                table[key] = row
    return tables


def marked(kafka: str, topic: str) -> list[dict[str, Any]]:
    """The records that a snapshot has sent."""
    records = [json.loads(message.value() or b"") for message in messages(kafka, topic)]
    return [record for record in records if record.get("snapshot") is True]


def table(cursor: Cursor, name: str, key: tuple[str, ...]) -> Table:
    """As SELECT shows it."""
    cursor.execute(f"SELECT * FROM {name}")
    names = [column[0] for column in cursor.description or ()]
    found = {}
    for row in cursor.fetchall():
        cells = [None if value is None else str(value) for value in row]
        texts = dict(zip(names, cells, strict=True))
        found[tuple(str(texts[each]) for each in key)] = texts
    return found
