"""A schema whose tables are altered while a task reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pymysql.cursors import Cursor

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import RowChange
from cdcbus.producer.config import FetchTask
from cdcbus.producer.schema.table_versions import MemorySchemas
from tests.integration.producer.reading import position, read


@dataclass
class Course:
    """A schema that statements change, and a task whose history outlives its restarts."""

    cursor: Cursor
    task: FetchTask
    entries: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start = self.read_to = position(self.cursor)

    def run(self, *statements: str) -> BinlogPosition:
        """The place behind them."""
        for statement in statements:
            self.cursor.execute(statement)
        return position(self.cursor)

    def catch_up(self) -> list[dict[str, str | None]]:
        """The rows since it read the last time, by a task that has just started."""
        start, self.read_to = self.read_to, position(self.cursor)
        return self.between(start, self.read_to)

    def between(self, start: BinlogPosition, end: BinlogPosition) -> list[dict[str, str | None]]:
        """The rows between two places, with the history as it is now."""
        return [dict(change.after or change.before or {}) for change in self.changes(start, end)]

    def changes(self, start: BinlogPosition, end: BinlogPosition) -> list[RowChange]:
        return read(self.task, start, end, MemorySchemas(self.entries))


SWAPS = [
    "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "ALTER TABLE t CHANGE a b INT, CHANGE b a INT",
    "ALTER TABLE t MODIFY b INT AFTER id",
]


BEFORE, SWAPPED = {"id": "1", "a": "10", "b": "20"}, {"id": "2", "b": "30", "a": "40"}


def columns(cursor: Cursor, table: str = "t") -> list[str]:
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND "
        "table_name = %s ORDER BY ordinal_position",
        (table,),
    )
    return [row[0] for row in cursor.fetchall()]
