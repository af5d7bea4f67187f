"""A repair holds the rows locked from their reading until Kafka has them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from cdcbus.plugins.errors import BusRejected, BusUnavailable, ConfigError, SourceRefused
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_schema import TableSchema
from cdcbus.tasks.verify import repair as module
from cdcbus.tasks.verify.repair import planned, repair
from cdcbus.tasks.verify.report import Kind
from cdcbus.tasks.verify.sendable import refusal, repairable, unheld
from cdcbus.tasks.verify.subject import Cells, Subject
from tests.unit.tasks.verify.two_sides import INT, PG_INT, World, feed, mapped, subject, target


class Locked:
    """A source's connection and Kafka. `done`: what happened, in order; `sent`: the records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: World) -> None:
        self.world = world
        self.done: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.keys: list[bytes] = []
        self.engine = "InnoDB"
        self.error: Exception | None = None
        self.refuses = False
        self.lost_after_sending = False
        self.open = True
        self.names: list[str] = []
        self.servers: list[str] = []
        monkeypatch.setattr(module, "open_source", self._opened)
        # The other connection, which locks nothing and looks whether the table is as before.
        monkeypatch.setattr(module, "source_connection", lambda *_: nullcontext())
        monkeypatch.setattr(module, "SchemaReader", lambda _: self)
        self.schemas: Iterator[TableSchema] = itertools.repeat(world.source.table.mapped.schema)
        monkeypatch.setattr(module, "_Sender", self._sender)
        monkeypatch.setattr(module, "SourceSide", lambda *_: _Locking(self))
        monkeypatch.setattr("cdcbus.producer.server.connection.query", self._query)

    def read(self, _: TableId) -> tuple[TableSchema, None]:
        self.done.append("look")
        return next(self.schemas), None

    def repair(self) -> list[int]:
        comparison, lag = self.world.comparison, self.world.comparison.lag
        return [len(sent) for sent in repair(comparison, lag, repairable(comparison))]

    @contextmanager
    def _opened(self, _: object, server: str) -> Iterator[Locked]:
        self.servers.append(server)
        yield self

    @contextmanager
    def held(self, tables: list[TableId]) -> Iterator[list[TableId]]:
        yield tables

    def _sender(self, config: Any, _: object) -> Locked:
        self.names.append(config.transactional_id)
        return self

    def __enter__(self) -> Locked:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, topic: str, records: Sequence[Mapping[str, Any]]) -> None:
        if self.refuses:
            raise BusRejected("too large")
        self.done.append(f"send to {topic}")
        self.sent += [json.loads(each["value"]) for each in records]
        self.keys += [each["key"] for each in records]

    def rollback(self) -> None:
        self.done.append("unlock")

    def _query(self, _: object, sql: str, __: object = ()) -> list[tuple[str]]:
        if sql.startswith("SELECT engine"):
            return [(self.engine,)] if self.engine else []
        if sql == "SELECT 1" and self.sent and self.lost_after_sending:
            raise pymysql.err.OperationalError(2013, "gone")
        self.done.append(sql)
        return []


class _Locking:
    """The source's side on the connection that locks."""

    def __init__(self, world: Locked) -> None:
        self._world, self._side = world, world.world.source
        self.table = self._side.table

    def among(self, keys: Sequence[Cells]) -> str:
        return self._side.among(keys)

    def rows(self, where: str, *, is_narrowed: bool) -> Iterator[Cells]:
        assert not is_narrowed
        name, _, lock = where.partition(" LOCK ")
        self._world.done.append(f"LOCK {lock}")
        if self._world.error:
            raise self._world.error
        yield from self._side.rows(name)


def compared(own: Sequence[Cells], theirs: Sequence[Cells], what: Subject | None = None) -> World:
    world = World(own, theirs, what)
    world.comparison.run()
    return world


def test_rows_are_locked_until_kafka_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Locked(monkeypatch, compared([("1", "a")], []))
    assert locked.repair() == [1]
    assert locked.done[2:] == [
        "look",
        "START TRANSACTION",
        "LOCK IN SHARE MODE",
        "SELECT 1",
        "send to orders",
        "SELECT 1",
        "unlock",
        "look",
    ]


def test_locks_that_are_lost_while_rows_are_sent_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    locked = Locked(monkeypatch, compared([("1", "a")], []))
    locked.lost_after_sending = True
    with pytest.raises(ConfigError, match="rows that were sent may be as of before"):
        locked.repair()
    assert len(locked.sent) == 1


@pytest.mark.parametrize("looks", [0, 1])
def test_a_table_that_is_altered_ends_the_repair(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    locked = Locked(monkeypatch, compared([("1", "a")], []))
    as_it_was = next(locked.schemas)
    locked.schemas = itertools.chain([as_it_was] * looks, itertools.repeat(TableSchema(())))
    with pytest.raises(ConfigError, match="has been altered since it was compared"):
        locked.repair()
    assert len(locked.sent) == looks
    assert locked.done.count("START TRANSACTION") == locked.done.count("unlock") == looks


def test_a_row_is_sent_as_it_is_now_or_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = compared([("1", "a"), ("2", "b")], [("2", "x"), ("3", "c")])
    world.source.held[:] = [("1", "newer"), ("2", "b")]
    locked = Locked(monkeypatch, world)
    assert locked.repair() == [3]
    found = {(each["type"], each["data"][0]["id"]): each["data"][0] for each in locked.sent}
    assert found.keys() == {("INSERT", "1"), ("INSERT", "2"), ("DELETE", "3")}
    assert found["INSERT", "1"]["name"] == "newer"
    assert sorted(locked.keys) == [b"1_", b"2_", b"3_"]


def test_a_record_bears_the_whole_second_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Locked(monkeypatch, compared([("1", "a")], []))
    locked.repair()
    assert locked.sent[0]["es"] == 1_700_000_000_000


def test_a_repair_does_not_end_the_fetch_tasks_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = compared([("1", "a")], [])
    side = world.source
    fetch = side.table.feed.fetch
    publish = replace(fetch.publish, transactional_id="fetch-1")
    named = replace(side.table.feed, fetch=replace(fetch, publish=publish))
    side.table = replace(side.table, feed=named)
    locked = Locked(monkeypatch, world)
    locked.repair()
    assert locked.names == [""]


def test_rows_are_locked_at_the_server_that_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Locked(monkeypatch, compared([("1", "a")], []))
    locked.repair()
    assert locked.servers == ["server-1"]


def test_a_fetch_task_that_goes_over_to_another_server_ends_the_repair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = compared([("1", "a")], [])

    def refuse(_: object) -> bool:
        raise ConfigError("it reads server b")

    monkeypatch.setattr(world.clock, "is_published", refuse)
    locked = Locked(monkeypatch, world)
    with pytest.raises(ConfigError, match="server b"):
        locked.repair()
    assert (locked.done[-1], locked.sent) == ("unlock", [])


def test_many_rows_are_locked_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Locked(monkeypatch, compared([(str(number), "a") for number in range(250)], []))
    assert locked.repair() == [100, 100, 50]
    assert locked.done.count("unlock") == 3


def test_a_fetch_task_that_does_not_come_up_ends_the_repair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = compared([("1", "a")], [])
    world.clock.is_sent = False
    locked = Locked(monkeypatch, world)
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    with pytest.raises(ConfigError, match="fetch task 1 has not published"):
        locked.repair()
    assert locked.done[-1] == "unlock"
    assert locked.sent == []


def test_rows_are_unlocked_when_kafka_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Locked(monkeypatch, compared([("1", "a")], []))
    locked.refuses = True
    with pytest.raises(BusRejected):
        locked.repair()
    assert locked.done[-1] == "unlock"


@pytest.mark.parametrize(
    ("error", "kind", "why"),
    [
        (pymysql.err.OperationalError(1142, "no"), SourceRefused, r"GRANT LOCK TABLES ON shop\."),
        (pymysql.err.OperationalError(1205, "no"), ConfigError, "locked by others"),
        (pymysql.err.OperationalError(1213, "no"), ConfigError, "run the repair again"),
        (pymysql.err.OperationalError(2013, "gone"), pymysql.err.OperationalError, "gone"),
    ],
)
def test_a_lock_that_is_not_given_is_explained(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception], why: str
) -> None:
    locked = Locked(monkeypatch, compared([("1", "a")], []))
    locked.error = error
    with pytest.raises(kind, match=why):
        locked.repair()
    assert locked.sent == []
    assert locked.done[-1] == "unlock"


@pytest.mark.parametrize("engine", ["MyISAM", ""])
def test_a_table_whose_gaps_cannot_be_locked_is_refused(
    monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    locked = Locked(monkeypatch, compared([("1", "a")], []))
    locked.engine = engine
    with pytest.raises(ConfigError, match="is not in InnoDB"):
        locked.repair()
    assert locked.done == []


def test_a_row_whose_partition_is_not_known_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = compared([], [("1", "a")])
    by_name = feed(keys={"SHOP.ORDERS": ("name",)})
    world.source.table = replace(world.source.table, feed=by_name)
    locked = Locked(monkeypatch, world)
    with pytest.raises(ConfigError, match="delete it at the target by hand"):
        locked.repair()
    assert locked.sent == []


def test_records_have_the_types_that_the_fetch_task_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"id": "int(10) unsigned", "name": "varchar(9)", "paid": "decimal(10,2)", "b": "blob"}
    theirs = {"id": "bigint", "name": "text", "paid": "numeric", "b": "bytea"}
    what = subject([mapped(types)], target(theirs))
    locked = Locked(monkeypatch, compared([("1", "a", "1.50", "x")], [], what))
    locked.repair()
    assert locked.sent[0]["sqlType"] == {"id": -5, "name": 12, "paid": 3, "b": 2004}


@pytest.mark.parametrize("error", [BusUnavailable("silent"), KeyboardInterrupt()])
def test_records_that_kafka_has_not_are_dropped_before_the_locks_are(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """A row could change once it is unlocked, and its older state be sent after that."""
    done = []
    sender: Any = object.__new__(module._Sender)
    sender.client = SimpleNamespace(purge=lambda blocking: done.append(f"purge {blocking}"))
    for name in ("start", "_produce"):
        monkeypatch.setattr(sender, name, lambda *_: None)

    def flush() -> None:
        raise error

    monkeypatch.setattr(sender, "flush", flush)
    with pytest.raises(type(error)):
        sender.send("orders", [])
    assert done == ["purge False"]


# what is planned


def test_a_plan_says_what_each_row_becomes() -> None:
    world = compared([("1", "a")], [("3", "c")])
    plans = {each.key["id"]: each.to_fields() for each in planned(world.comparison)}
    assert plans["1"]["op"] == "INSERT"
    assert plans["3"] == {
        "op": "DELETE",
        "table": "shop.orders",
        "topic": "orders",
        "key": {"id": "3"},
    }


def test_rows_that_are_one_at_the_target_are_not_sent() -> None:
    world = compared([("1", "a")], [])
    world.comparison.different = {("1",): Kind.MERGED, ("2",): Kind.MISSING}
    assert repairable(world.comparison) == [("2",)]


def test_a_row_whose_key_the_source_cannot_have_is_not_sent() -> None:
    """As NaN, which no record of a number has, or a half, which would be cut to another's key."""
    world = compared([("1", "a")], [])
    world.source.unspelled = {("NaN",)}
    world.comparison.different = {
        ("NaN",): Kind.EXTRA,
        ("1.5",): Kind.EXTRA,
        ("3000000000",): Kind.EXTRA,
        ("2",): Kind.EXTRA,
    }
    assert repairable(world.comparison) == [("2",)]
    assert unheld(world.comparison) == [{"id": "1.5"}, {"id": "3000000000"}, {"id": "NaN"}]
    assert unheld(world.comparison, [Kind.MISSING]) == []


def test_deletes_come_first_and_keys_in_order() -> None:
    """A target may take the key of a missing row for that of one that only it has."""
    world = compared([("1", "a")], [])
    keys = [("7",), ("3",), ("5",), ("4",), ("6",)]
    kinds = [Kind.MISSING, Kind.EXTRA, Kind.DIFFERENT, Kind.EXTRA, Kind.MISSING]
    world.comparison.different = dict(zip(keys, kinds, strict=True))
    assert repairable(world.comparison) == [("3",), ("4",), ("5",), ("6",), ("7",)]


def test_a_missing_row_that_went_meanwhile_is_deleted_only_by_a_key_of_the_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = compared([("1", "a"), ("2", "b")], [])
    world.source.held.clear()
    locked = Locked(monkeypatch, world)
    monkeypatch.setattr(module, "source_key", lambda *_: None)
    assert locked.repair() == [0]
    assert locked.sent == []


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (subject(), ""),
        (subject([mapped(INT, ())], target(PG_INT, ())), "it has no key"),
        (subject([mapped(INT)], target(PG_INT, ())), "it has no key"),
        (
            subject([mapped(INT), mapped(INT, name=TableId("shop", "older"))]),
            "several source tables go there",
        ),
        (subject([mapped(INT, ("name",))]), "its key is not the source's own"),
        (subject(reading="auto"), ""),
        (subject(converter="canalCompat"), "its records are in format canalCompat"),
    ],
)
def test_a_table_whose_order_cannot_be_held_is_not_repaired(what: Subject, why: str) -> None:
    assert refusal(World([], [], what).comparison)[: len(why) or None] == why


def test_a_table_that_another_task_writes_to_is_not_repaired() -> None:
    comparison = World([], []).comparison
    comparison.others = ["8", "9"]
    assert "rows of other tasks (8, 9) go to it" in refusal(comparison)
