"""Rows that exchange unique values across partitions: applied together, in source order, in a number
of statements that the partitions' length does not multiply."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import AppliedOffset, Counts, TableBatch
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.transaction import JdbcTransaction
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply import test_row_order
from tests.integration.consumer.apply.test_applier import CANAL, server, task  # noqa: F401
from tests.support.topics.records import records_of

pytestmark = pytest.mark.integration
PARTITIONS = 3
USERS = Table(
    TableId("shop", "users"), (Column("id", "int"), Column("name", "varchar(40)")), ("id",)
)
Value = str | None


class Source:
    """A table of users with unique names, and the records of its changes in partitions by key."""

    def __init__(self, table: Table = USERS) -> None:
        self._table = table
        self.rows: dict[int, Value] = {}
        self.partitions: list[list[tuple[int, bytes]]] = [[] for _ in range(PARTITIONS)]
        self._pos = 4

    def put(self, key: int, name: Value) -> None:
        before = {"id": str(key), "name": self.rows[key]} if key in self.rows else None
        self.rows[key] = name
        self._log(key, Op.UPDATE if before else Op.INSERT, before, {"id": str(key), "name": name})

    def delete(self, key: int) -> None:
        self._log(key, Op.DELETE, {"id": str(key), "name": self.rows.pop(key)}, None)

    def _log(self, key: int, op: Op, before: Row | None, after: Row | None) -> None:
        self._pos += 100
        change = RowChange(
            self._table,
            op,
            before,
            after,
            Origin("mysql-bin.000003", self._pos, server_id=1, commit_us=self._pos * 1000),
        )
        partition = self.partitions[key % PARTITIONS]
        partition.append((len(partition), CANAL.to_bytes(change)))

    def rotate(self, keys: Sequence[int], between: Value) -> None:
        """Each gets the name of the one before it, the first one that of the last."""
        names = [self.rows[key] for key in keys]
        self.put(keys[0], between)
        for key, name in zip(keys[1:], names, strict=False):
            self.put(key, name)
        self.put(keys[0], names[-1])


class Drive:
    """Applies partitions as the driver does, and cut where a test wants."""

    def __init__(self, applier: PartitionApplier, source: Source) -> None:
        self._applier, self._source, self.at = applier, source, [0] * PARTITIONS

    def apply(self, ends: Sequence[int]) -> None:
        """Up to these offsets, as far as it goes."""
        left: list[tuple[TopicPartition, Records, int, int]] = []
        for partition, (begin, end) in enumerate(zip(self.at, ends, strict=True)):
            part = records_of(self._source.partitions[partition][begin:end])
            if begin == end:
                continue
            try:
                self._applier.apply(TopicPartition("shop", partition), part, end, 1, is_hasty=True)
                self.at[partition] = end
            except PartitionWaits:
                left.append((TopicPartition("shop", partition), part, end, 1))
        for (_, partition), (end, _) in (
            self._applier.apply_together(left) if left else {}
        ).items():
            self.at[partition] = end


@contextmanager
def driving(server: TargetServer, task: LoadTask, source: Source) -> Iterator[Drive]:
    loader = make_loader("JdbcBatch", server.target())
    try:
        applier = PartitionApplier(task, CANAL, loader)
        applier.applied_offsets()
        yield Drive(applier, source)
    finally:
        loader.close()


@pytest.mark.parametrize("null", ["", " NOT NULL"])
@pytest.mark.parametrize("count", [2, 3])
def test_ninety_exchanges_over_three_partitions_take_few_writes(
    server: TargetServer,
    task: LoadTask,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    null: str,
) -> None:
    server.execute(
        f"CREATE TABLE {{schema}}.users (id INT PRIMARY KEY, name VARCHAR(40){null} UNIQUE)"
    )
    source = Source()
    for key in range(90 * count):
        source.put(key, f"name {key}")
    with driving(server, task, source) as drive:
        drive.apply([*map(len, source.partitions)])
        for at in range(90):
            source.rotate(
                range(at * count, (at + 1) * count),
                None if not null and at % 2 else f"between {at}",
            )
        written: list[TableBatch] = []
        counted(monkeypatch, written.append)
        drive.apply([*map(len, source.partitions)])
        assert drive.at == [*map(len, source.partitions)]
    assert len(written) < 30
    assert {*server.rows("SELECT id, name FROM {schema}.users")} == {*source.rows.items()}


def counted(monkeypatch: pytest.MonkeyPatch, tell: Callable[[TableBatch], None]) -> None:
    """Tells of each batch that a transaction writes."""
    write = JdbcTransaction.write

    def reporting(self: JdbcTransaction, batch: TableBatch) -> Counts:
        tell(batch)
        return write(self, batch)

    monkeypatch.setattr(JdbcTransaction, "write", reporting)


@pytest.mark.parametrize("seed", range(6))
def test_any_changes_of_unique_values_cut_anyhow_end_like_the_source(
    server: TargetServer, task: LoadTask, seed: int
) -> None:
    server.execute("CREATE TABLE {schema}.users (id INT PRIMARY KEY, name VARCHAR(40) UNIQUE)")
    choose, source = random.Random(seed), Source()
    with driving(server, replace(task, merge=seed % 3 != 2), source) as drive:
        for number in range(120):
            key, there = choose.randrange(15), [*source.rows]
            match choose.randrange(4):
                case 0 if key not in source.rows:
                    free = f"name {choose.randrange(20)}"
                    source.put(key, None if free in source.rows.values() else free)
                case 1 if there:
                    gone = choose.choice(there)
                    name = source.rows[gone]
                    source.delete(gone)
                    if key not in source.rows:
                        source.put(key, name)
                case _ if len(there) > 3:
                    source.rotate(
                        choose.sample(there, choose.randrange(2, 4)),
                        choose.choice([None, f"between {number}"]),
                    )
            if choose.random() < 0.2:
                ends = []
                for at, partition in zip(drive.at, source.partitions, strict=True):
                    ends.append(choose.randint(at, len(partition)))
                drive.apply(ends)
        drive.apply([*map(len, source.partitions)])
        assert drive.at == [*map(len, source.partitions)]
    assert {*server.rows("SELECT id, name FROM {schema}.users")} == {*source.rows.items()}


@pytest.mark.parametrize("is_known", [True, False], ids=["added before", "added by another"])
def test_partitions_that_wait_for_each_other_first_of_all_leave_out_what_is_too_old(
    server: TargetServer, task: LoadTask, is_known: bool
) -> None:
    """Row 5 is newer in partition 1, as partitions were added before the start or meanwhile; and
    both partitions wait: row 8 for the name of row 7, and a child for row 8."""
    server.execute("CREATE TABLE {schema}.users (id INT PRIMARY KEY, name VARCHAR(40) UNIQUE)")
    server.execute("CREATE TABLE {schema}.orders (id INT PRIMARY KEY, user_id INT)")
    server.execute(
        "ALTER TABLE {schema}.orders ADD FOREIGN KEY (user_id) REFERENCES {schema}.users (id)"
    )

    def user(place: int, key: str, name: str, before: str | None = None) -> Change:
        old = None if before is None else {"id": key, "name": before}
        op = Op.UPDATE if old else Op.INSERT
        return change(place, RowChange(USERS, op, old, {"id": key, "name": name}))

    order = RowChange(ORDERS, Op.INSERT, None, {"id": "1", "user_id": "8"})
    older = [
        user(1, "7", "x"),
        user(2, "5", "first"),
        user(4, "5", "second", "first"),
        user(10, "7", "y", "x"),
        change(30, order),
    ]
    newer = [user(9, "5", "third", "second"), user(20, "8", "x")]
    first, second = [test_row_order.records(part, "canalRow") for part in (older, newer)]
    former, now = [
        PartitionApplier(task, CANAL, make_loader("JdbcBatch", server.target())) for _ in range(2)
    ]
    try:
        former.applied_offsets()
        former.take_over([AppliedOffset(*SHOP_0, 0, 1)])
        former.apply(SHOP_0, first[:2], 2, 1)
        if not is_known:
            now.begin(SHOP_0, former.seen)
        former.add_partitions([AppliedOffset(*SHOP_1, 0, 1)], "partition 1 was added")
        former.apply(SHOP_1, second[:1], 1, 1)
        if is_known:
            now.applied_offsets()
        else:
            now.seen = dict(former.seen)
        parts = [(SHOP_0, first[2:], 5, 1), (SHOP_1, second[1:], 2, 1)]
        for partition, records, end, version in parts:
            with pytest.raises(PartitionWaits):
                now.apply(partition, records, end, version, is_hasty=True)
        found = now.apply_together(parts)
    finally:
        former.close()
        now.close()
    assert {partition: end for partition, (end, _) in found.items()} == {SHOP_0: 5, SHOP_1: 2}
    _, report = found[SHOP_0]
    assert report.tables[server_table(server, "users")].superseded == 1
    assert {*server.rows("SELECT id, name FROM {schema}.users")} == {
        (5, "third"),
        (7, "y"),
        (8, "x"),
    }


Change = tuple[bytes, RowChange, int]
SHOP_0, SHOP_1 = TopicPartition("shop", 0), TopicPartition("shop", 1)
ORDERS = Table(TableId("shop", "orders"), (Column("id", "int"), Column("user_id", "int")), ("id",))


def change(place: int, of_row: RowChange) -> Change:
    """A change at a place in the binlog, with its record's key and time."""
    ms = test_row_order.T0 + place
    origin = Origin("mysql-bin.000003", 100 * place, server_id=1, commit_us=ms * 1000)
    row = of_row.after or of_row.before or {}
    return f"{row['id']}_".encode(), replace(of_row, origin=origin), ms


def server_table(server: TargetServer, name: str) -> TableId:
    return TableId(server.schema, name)
