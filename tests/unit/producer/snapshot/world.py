"""A source, a Kafka and a ZooKeeper for snapshots, all of it played by one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pymysql
import pytest

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import NO_ORIGIN, TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.gtid import MysqlGtids
from cdcbus.producer.config import (
    FetchTask,
    FilterConfig,
    SnapshotMode,
    SourceConfig,
)
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot import chunk_thread, progress_saver, snapshots
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.columns import SelectedTable, selected_table
from cdcbus.producer.snapshot.progress import (
    MemorySnapshots,
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.reader import Read
from cdcbus.producer.snapshot.rows import images, row_events
from cdcbus.producer.snapshot.snapshots import Snapshots, has_sent_live
from cdcbus.producer.snapshot.window import View
from cdcbus.producer.source.row_events import Batch, Part, Rows
from tests.support.processes.saved_at_once import SavedAtOnce

ORDERS, ITEMS, BEATS = TableId("shop", "orders"), TableId("shop", "items"), TableId("shop", "beats")
ID = TableColumn("id", "int", is_nullable=False)
START = BinlogPosition("bin.000001", 100, timestamp_ms=5_000)
SERVER = Server("8.4.0", "uuid", 7, True, True, {})
OF_SHOP = FilterConfig((r"shop\..*",))
Step = Callable[[], None]
MOST_READS = 50


def task_of(mode: SnapshotMode, tables: FilterConfig = OF_SHOP, **settings: Any) -> FetchTask:
    return FetchTask(
        *("1", "lane", SourceConfig((("h", 1),), "u"), tables),
        PublishConfig("k", "t", "canalRow"),
        snapshot=mode,
        **settings,
    )


def selected(table: TableId, *, has_key: bool = True) -> SelectedTable:
    keys = (UniqueKey("PRIMARY", ("id",)),) if has_key else ()
    return selected_table(table, TableSchema((ID,), keys, "utf8mb4"), has_metadata=True)


def packets(ids: Iterable[int]) -> list[bytes]:
    texts = [str(each).encode() for each in ids]
    return [bytes((len(text),)) + text for text in texts]


def place(pos: int) -> BinlogCoordinates:
    return BinlogCoordinates(START.file, pos)


def at(pos: int) -> BinlogPosition:
    return BinlogPosition("bin.000001", pos)


class Store(MemorySnapshots):
    """Remembers each state that a table was stored with. `error`: it cannot be reached. `lost_tables`:
    tables whose progress it has lost."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[TableState] = []
        self.error: Exception | None = None
        self.heeds = 0
        self.lost_tables: set[TableId] = set()
        self.answers = threading.Event()
        self.answers.set()

    def save(self, tables: Mapping[TableId, TableProgress]) -> None:
        assert self.answers.wait(60), "somebody waits for it"
        if self.error is not None:
            raise self.error
        self.states += [progress.state for progress in tables.values()]
        super().save(tables)

    def lost(self) -> set[TableId]:
        return self.lost_tables - self.tables.keys()

    def heeded(self, but_last: int = 0) -> None:
        self.heeds += 1


class KeptWishes(Store):
    """Keeps wishes until they are heeded, as ZooKeeper does. `given`: how many were returned."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0

    def wishes(self) -> list[Wish]:
        found = self.wished[self.given :]
        self.given = len(self.wished)
        return found

    def heeded(self, but_last: int = 0) -> None:
        super().heeded()
        del self.wished[: self.given - but_last]
        self.given = but_last


class Waits(threading.Condition):
    """Waiting is where the stream's thread does its next thing; the run is over after the last."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def wait(self, timeout: float | None = None) -> bool:
        self.world.next_step()
        return True

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        self.world.pauses.append(timeout)
        if self.world.script and not predicate():
            self.world.next_step()
        return predicate()


class WhenWanted(Executor):
    """Does what a thread would do once its result is wanted."""

    def __init__(self, *_: object) -> None: ...

    def submit(self, do: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return SimpleNamespace(result=partial(do, *args, **kwargs))


class World:
    """A source whose tables hold rows by number, a Kafka, and a stream that does `script` while
    the reading thread waits, and `during` while it reads, one by one. All is done by one thread.

    `high`: the end of the binlog after a chunk is read. `stored`: the position. `live`: what the stream's
    thread has sent. `errors`: what the next calls raise.
    `refused`: the server's answer for tables that may not be read. `views`: what the stream's thread
    does after each view has begun, None: tables have no views; `low`: the place before which these
    contain everything, None: where their windows begin; `executed`: the GTIDs that they contain."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: dict[TableId, list[int]] = {ORDERS: [1, 2, 3, 4, 5]}
        self.without_key: set[TableId] = set()
        self.script: list[Step] = []
        self.during: list[Step] = []
        self.errors: dict[str, list[Exception]] = {}
        self.refused: dict[TableId, Exception] = {}
        self.high = 100
        self.store = Store()
        self.reported: set[str] = set()
        self.sent = 0
        self.published: list[tuple[str, int]] = []
        self.origins: list[Any] = []
        self.asked: list[tuple[Bound | None, Bound | None, int, str]] = []
        self.settled: list[int] = []
        self.counted: list[int] = []
        self.edges: list[int] = []
        self.pauses: list[float | None] = []
        self.closed = self.interrupted = self.opened = self.ended = 0
        self.views: list[Step] | None = None
        self.low: BinlogCoordinates | None = None
        self.executed: MysqlGtids | None = None
        self.targets: list[Step] = []
        self.row_bytes = self.reads = 0
        self.stored = at(1_000)
        self.live: list[tuple[str, int]] = []
        monkeypatch.setattr(chunk_thread, "ChunkReader", self.open)
        monkeypatch.setattr(snapshots, "Condition", lambda: Waits(self))
        monkeypatch.setattr(chunk_thread, "Thread", self.thread)
        monkeypatch.setattr(chunk_thread, "ThreadPoolExecutor", WhenWanted)
        monkeypatch.setattr(progress_saver, "SavedAside", SavedAtOnce)
        monkeypatch.setattr(chunk_thread, "FIRST_ROWS", 2)

    def begin(
        self,
        mode: SnapshotMode = SnapshotMode.INITIAL,
        *,
        has_run: bool = False,
        server: Server = SERVER,
        **settings: Any,
    ) -> Snapshots:
        task, me = task_of(mode, **settings), cast(Any, self)
        self.snapshots = Snapshots(
            *(task, server, START, me, me, self.store, lambda: False, "9", self.counted.append),
            has_sent=has_sent_live(task, self.store, has_run=has_run),
            reported=self.reported,
        )
        return self.snapshots

    def run(self, *script: Step, mode: SnapshotMode = SnapshotMode.INITIAL) -> None:
        """Until the script, and then what is left to acknowledge, is done."""
        if not hasattr(self, "snapshots"):
            self.begin(mode)
        self.script += [*script, self.acknowledge, self.acknowledge]
        with self.snapshots:
            self.acknowledge()
            for target in self.targets:
                target()

    def next_step(self) -> None:
        if self.script:
            self.script.pop(0)()
        else:
            self.snapshots._sender.is_over = True

    def progress(self, table: TableId = ORDERS) -> TableProgress:
        return self.store.tables[table]

    def ids(self, table: TableId = ORDERS) -> list[int]:
        return [number for name, number in self.published if name == str(table)]

    # What the stream does

    def acknowledge(self) -> None:
        with self.snapshots.turn():
            self.snapshots.acknowledged(self.sent, self.stored)

    def wish(
        self, kind: WishKind, *tables: str, where: str = "", is_confirmed: bool = True
    ) -> Step:
        def wished() -> None:
            self.store.wished.append(Wish(kind, tables, where, is_confirmed))
            self.acknowledge()

        return wished

    def passes(self, batch: Batch) -> Step:
        def passed() -> None:
            with self.snapshots.turn():
                self.snapshots.hold_back(batch)
                self.live += list(_ids(batch.closed))
                self.snapshots.passed(batch)
                self.live += list(_ids(batch.opened))

        return passed

    def reaches(self, pos: int) -> Step:
        return self.passes(Batch([], at(pos), []))

    def brings(self, pos: int, *ids: int, table: TableId = ORDERS) -> Step:
        return self.passes(Batch(list(self.inserts(*ids, table=table, pos=pos)), at(pos), []))

    def is_changed(self, number: int, table: TableId = ORDERS) -> Step:
        """Brings a row that is among what the binlog then has, and may be among what is read."""

        def changed() -> None:
            self.high += 10
            self.brings(self.high, number, table=table)()

        return changed

    def inserts(self, *ids: int, table: TableId = ORDERS, pos: int = 100) -> Iterable[Rows]:
        """The event is one byte before the edge `pos`."""
        return inserts(*ids, table=table, has_key=table not in self.without_key, pos=pos)

    def alters(self, sql: str, pos: int = 100) -> Step:
        end = BinlogCoordinates("bin.000001", pos)
        statement = Statement(end, 1, "shop", sql.encode())
        return self.passes(Batch([], at(pos), [], ddl=(statement,)))

    # As a thread

    def thread(self, target: Step, **_: Any) -> World:
        self.targets.append(target)
        return self

    def start(self) -> None:
        pass

    def join(self, _seconds: float) -> None:
        pass

    def is_alive(self) -> bool:
        return False

    # As a publisher and its deliveries

    def send(self, parts: Iterable[Rows]) -> int:
        found = [change for part in parts for change in part.changes()]
        for change in found:
            assert change.after is not None
            self.published.append((str(change.table.id), int(change.after["id"] or "")))
            self.origins.append(change.origin)
        self.sent += len(found)
        return len(found)

    def reached(self, edge: BinlogPosition, has_more: Callable[[], bool]) -> None:
        self.edges.append(edge.pos)

    # As a ChunkReader

    def open(self, *_: object) -> World:
        self.opened += 1
        self.meet("open")
        return self

    def meet(self, call: str) -> None:
        if self.errors.get(call):
            raise self.errors[call].pop(0)

    def close(self) -> None:
        self.closed += 1

    def interrupt(self) -> None:
        self.interrupted += 1

    def tables(self) -> list[TableId]:
        return list(self.rows)

    def describe(self, table: TableId) -> SelectedTable | None:
        self.meet("describe")
        if table not in self.rows or table in self.refused:
            return None
        return selected(table, has_key=table not in self.without_key)

    def look(self, table: TableId) -> None:
        if table in self.refused:
            raise self.refused[table]
        if table not in self.rows:
            raise pymysql.ProgrammingError(1146, "no such table")

    def estimate(self, table: TableId) -> tuple[int, int]:
        return len(self.rows[table]), self.row_bytes

    def greatest(self, found: SelectedTable, where: str) -> Bound | None:
        rows = self.rows[found.table.table.id]
        return (str(max(rows)),) if rows else None

    def settle(self, begun: BinlogPosition, is_over: Callable[[], bool]) -> None:
        self.meet("settle")
        self.settled.append(begun.pos)

    def has_views(self, _table: TableId) -> bool:
        return self.views is not None

    def view(self, begun: BinlogPosition) -> View:
        assert self.views is not None
        for step in self.views[:1]:
            step()
        del self.views[:1]
        return View(self.low or place(begun.pos), place(self.high), self.executed)

    def end(self) -> None:
        self.ended += 1

    def chunk(
        self,
        found: SelectedTable,
        after: Bound | None,
        until: Bound | None,
        most: int,
        where: str,
    ) -> Read:
        self.meet("chunk")
        self.look(found.table.table.id)
        self.asked.append((after, until, most, where))
        low = int(after[0]) if after else 0
        high = int(until[0]) if until else 1 << 31
        ids = [each for each in self.rows[found.table.table.id] if low < each <= high][:most]
        last = (str(ids[-1]),) if ids else None
        return self.answer(found, ids, last)

    def table(self, found: SelectedTable, where: str) -> Read:
        self.meet("chunk")
        return self.answer(found, self.rows[found.table.table.id], None)

    def answer(self, found: SelectedTable, ids: list[int], last: Bound | None) -> Read:
        rows = images(packets(ids), found)
        self.reads += 1
        assert self.reads <= MOST_READS, "it is read for ever"
        if self.during:
            self.during.pop(0)()
        high = place(self.high)
        return Read(rows, len(rows), sum(map(len, rows)), last, high, 9_000_000)


def _ids(parts: Iterable[Part]) -> Iterable[tuple[str, int]]:
    for part in parts:
        if isinstance(part, Rows):
            for change in part.changes():
                assert change.after is not None
                yield str(change.table.id), int(change.after["id"] or "")


def inserts(
    *ids: int, table: TableId = ORDERS, has_key: bool = True, pos: int = 100
) -> Iterable[Rows]:
    found = selected(table, has_key=has_key)
    origin = replace(NO_ORIGIN, file=START.file, pos=pos - 1, commit_us=pos)
    return row_events(found.table, images(packets(ids), found), origin)
