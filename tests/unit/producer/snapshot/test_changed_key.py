"""A table whose paging key changes while it is read, or while its task is stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import SnapshotMode
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.snapshot.chunks import Bound, page
from cdcbus.producer.snapshot.columns import SelectedTable, selected_table
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.producer.snapshot.reader import Read
from cdcbus.producer.snapshot.rows import images
from tests.unit.producer.snapshot.world import ID, ORDERS, Step, World

V = TableColumn("v", "int", is_nullable=False)
Row = tuple[int, int]
ROWS: list[Row] = [(1, 5), (2, 4), (3, 3), (4, 2), (5, 1)]  # of ids and v: their orders differ
ALTER = "ALTER TABLE shop.orders DROP PRIMARY KEY, ADD PRIMARY KEY (v)"


class KeyWorld(World):
    """A table whose key somebody changes: `key`, none without one."""

    key: tuple[str, ...] = ("id",)

    def rekeys(self, *key: str) -> Step:
        """Somebody changes the key; the stream brings the statement."""
        seen = self.alters(ALTER)

        def changed() -> None:
            self.key = key
            seen()

        return changed

    def describe(self, table: TableId) -> SelectedTable:
        keys = (UniqueKey("PRIMARY", self.key),) if self.key else ()
        return selected_table(table, TableSchema((ID, V), keys, "utf8mb4"), has_metadata=True)

    def greatest(self, found: SelectedTable, where: str) -> Bound | None:
        return self._bound(found, self._ordered(found)[-1])

    def chunk(
        self,
        found: SelectedTable,
        after: Bound | None,
        until: Bound | None,
        most: int,
        where: str,
    ) -> Read:
        assert found.key is not None
        page(found.name, found.expressions, found.key, after, until, most)  # as the server is asked
        low = _numbers(after or ())
        high = _numbers(until or ("9",))
        rows = []
        for row in self._ordered(found):
            if low < _numbers(self._bound(found, row)) <= high:
                rows.append(row)
        rows = rows[:most]
        last = self._bound(found, rows[-1]) if rows else None
        return self._read(found, rows, last)

    def table(self, found: SelectedTable, where: str) -> Read:
        return self._read(found, ROWS, None)

    def _ordered(self, found: SelectedTable) -> list[Row]:
        return sorted(ROWS, key=lambda row: _numbers(self._bound(found, row)))

    def _bound(self, found: SelectedTable, row: Row) -> Bound:
        return tuple(str(row[number]) for number in found.key_columns)

    def _read(self, found: SelectedTable, rows: list[Row], last: Bound | None) -> Read:
        packets = [bytes((1, 48 + id_, 1, 48 + v)) for id_, v in rows]
        made = images(packets, found)
        if self.during:
            self.during.pop(0)()
        high = BinlogCoordinates("bin.000001", self.high)
        return Read(made, len(made), sum(map(len, made)), last, high, 9_000_000)


def _numbers(bound: Bound) -> list[int]:
    return [int(text) for text in bound]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> KeyWorld:
    return KeyWorld(monkeypatch)


def nothing() -> None:
    pass


@pytest.mark.parametrize("key", [("v",), ("v", "id"), ("id", "v"), ()])
@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_a_table_whose_key_changes_is_read_anew(
    world: KeyWorld, key: tuple[str, ...], is_acknowledged: bool
) -> None:
    world.during = [world.acknowledge if is_acknowledged else nothing, world.rekeys(*key)]
    world.run()
    assert world.ids()[:2] == [1, 2]
    assert sorted(world.ids()[2:]) == [1, 2, 3, 4, 5]
    done = world.progress()
    assert (done.state, done.rows, done.key) == (TableState.DONE, 5, key)


def test_chunks_of_the_former_key_that_kafka_acknowledges_later_do_not_count(
    world: KeyWorld,
) -> None:
    world.during = [nothing, world.rekeys("v", "id"), world.acknowledge]
    world.run()
    assert sorted(world.ids()[2:]) == [1, 2, 3, 4, 5]
    done = world.progress()
    assert (done.state, done.rows, done.until) == (TableState.DONE, 5, ("5", "1"))


def test_a_key_that_was_dropped_and_is_another_one_later_is_noticed(world: KeyWorld) -> None:
    world.during = [nothing, world.rekeys(), world.rekeys("v")]
    world.run()
    assert sorted(world.ids()[2:]) == [1, 2, 3, 4, 5]
    assert (world.progress().state, world.progress().rows) == (TableState.DONE, 5)


def test_a_table_that_is_altered_otherwise_is_continued(world: KeyWorld) -> None:
    world.during = [nothing, world.alters("ALTER TABLE shop.orders COMMENT 'x'")]
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("stored", "key", "sent"),
    [
        (("id",), ("v",), [1, 2, 3, 4, 5]),
        (("id",), ("v", "id"), [1, 2, 3, 4, 5]),
        (("id",), ("id",), [3, 4, 5]),
        # As stored before the key was.
        ((), ("id",), [3, 4, 5]),
    ],
)
def test_a_key_that_changed_while_the_task_was_stopped_is_noticed(
    world: KeyWorld, stored: tuple[str, ...], key: tuple[str, ...], sent: list[int]
) -> None:
    world.key = key
    world.store.tables[ORDERS] = TableProgress(
        *(TableState.RUNNING, 2, 20, 1, 5),
        key=stored,
        after=("2",),
        until=("5",),
        where="id < 9",
        started_ms=1,
    )
    # One for snapshots would read the rows without the condition, too.
    world.run(mode=SnapshotMode.NEVER)
    assert sorted(world.ids()) == sent
    done = world.progress()
    assert (done.state, done.rows, done.key) == (TableState.DONE, 5, key)
    assert done.where == "id < 9"


def test_an_end_that_was_noted_for_the_former_key_is_noted_anew(world: KeyWorld) -> None:
    world.key = ("v",)
    begun = TableProgress(TableState.RUNNING, key=("id",), until=("3",), started_ms=1)
    world.store.tables[ORDERS] = begun
    world.run()
    assert sorted(world.ids()) == [1, 2, 3, 4, 5]
    assert world.progress().until == ("5",)


BEFORE = TableColumn("k", "varchar(9)", "latin1", is_nullable=False, collation="latin1_bin")


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (BEFORE, replace(BEFORE, collation="latin1_german1_ci"), False),
        (BEFORE, replace(BEFORE, type="char(20)"), True),
        (replace(V, type="enum('a','b')"), replace(V, type="enum('b','a')"), False),
        (replace(V, type="int"), replace(V, type="bigint unsigned"), True),
        (replace(V, type="int"), replace(V, type="set('a','b')"), False),
        (replace(V, type="datetime(3)"), replace(V, type="datetime(6)"), True),
        (replace(V, type="datetime"), replace(V, type="time"), False),
    ],
)
def test_bounds_of_a_column_hold_as_long_as_its_values_keep_their_order(
    before: TableColumn, after: TableColumn, is_same: bool
) -> None:
    assert TableProgress(key=order(before)).is_by(order(after)) is is_same


def order(column: TableColumn) -> tuple[str, ...]:
    schema = TableSchema((column,), (UniqueKey("PRIMARY", (column.name,)),))
    return selected_table(ORDERS, schema, has_metadata=True).key_order
