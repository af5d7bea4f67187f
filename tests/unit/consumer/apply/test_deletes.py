"""What partitions are known to delete, beyond what is applied of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from cdcbus.consumer.apply import deletes
from cdcbus.consumer.apply.conflicts import Blocked, ConflictResolver, PartitionSlice
from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.lookahead import LookAhead, NotYet, no_future
from cdcbus.consumer.apply.row_order import Overtaken, source_place
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.records import Record
from cdcbus.plugins.contracts import RowVersion, TargetColumn, TargetTable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper
from tests.unit.consumer.apply.applying import TASK

USERS = Table(TableId("shop", "users"), (Column("email"),), ("email",))
TARGET = TargetTable(TableId("shop", "users"), {"email": TargetColumn("email", "text")}, ("email",))
[ROUTE] = Mapper(()).routes(USERS.id)
PLAN = ROUTE.plan(USERS, TARGET)
PARTITION = TopicPartition("shop", 1)


def step(op: Op, email: str, offset: int = 0) -> MappedChange:
    """Its place in the binlog is its offset."""
    row = {"email": email}
    before, after = (row, None) if op is Op.DELETE else (None, row)
    if op is Op.TRUNCATE:
        before = None
    origin = Origin("b.000002", 100 + offset)
    return MappedChange(offset, PLAN, RowChange(USERS, op, before, after, origin))


class Log:
    """A partition that grows, and counts what is read of it."""

    def __init__(self, *steps: tuple[Op, str]) -> None:
        self.steps = [step(op, email, offset) for offset, (op, email) in enumerate(steps)]
        self.read = 0

    def read_on(self, _: TopicPartition, offset: int) -> Iterator[Record]:
        for at in range(offset, len(self.steps)):
            self.read += 1
            yield at, str(at).encode()

    def deletes(self) -> Deletes:
        return Deletes(self.read_on, lambda _, offset, __: [self.steps[offset]])


ANN = step(Op.INSERT, "ann")


def test_a_delete_is_found_though_the_row_comes_again_behind_it() -> None:
    log = Log((Op.INSERT, "ann"), (Op.DELETE, "ann"), (Op.INSERT, "ann"))
    known = log.deletes()
    assert known.find(PARTITION, 0, ANN)
    assert known.find(PARTITION, 1, ANN)
    assert known.find(PARTITION, 2, ANN) is False
    assert log.read == 3  # once


def test_a_delete_of_a_key_that_is_spelled_otherwise_is_none() -> None:
    assert Log((Op.DELETE, "Ann")).deletes().find(PARTITION, 0, ANN) is False


def test_a_truncate_deletes_every_row() -> None:
    assert Log((Op.TRUNCATE, "")).deletes().find(PARTITION, 0, ANN)


def test_a_delete_counts_between_two_places_only() -> None:
    log = Log((Op.INSERT, "bob"), (Op.DELETE, "ann"))
    place = source_place(log.steps[1].change)
    known = log.deletes()
    assert known.find(PARTITION, 0, ANN, before=place) is False
    assert known.find(PARTITION, 0, ANN, after=place)


def test_a_partition_is_asked_again_once_it_may_have_more(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log((Op.INSERT, "ann"))
    known = log.deletes()
    assert known.find(PARTITION, 0, ANN) is False
    log.steps.append(step(Op.DELETE, "ann", 1))
    monkeypatch.setattr(deletes, "AGAIN_SECONDS", 0.0)
    assert known.find(PARTITION, 0, ANN)


def test_what_time_is_too_short_for_is_not_known_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(*[(Op.INSERT, "bob")] * 3, (Op.DELETE, "ann"))
    known = log.deletes()
    monkeypatch.setattr(deletes, "LOOK_SECONDS", -1.0)
    assert [known.find(PARTITION, 0, ANN) for _ in range(4)] == [None, None, None, True]


def test_why_it_is_not_known_is_part_of_the_reason_for_which_a_change_waits() -> None:
    log = Log((Op.INSERT, "bob"), (Op.DELETE, "ann"))
    refusals = ["Kafka is slow"]

    def read_on(partition: TopicPartition, offset: int) -> Iterator[Record]:
        if refusals:
            raise NotYet(refusals.pop())
        yield from log.read_on(partition, offset)

    resolver = partial(
        ConflictResolver,
        task=TASK,
        look_ahead=LookAhead(no_future, lambda *_: []),
        transaction=None,  # type: ignore[arg-type]  # nothing is written
        part=PartitionSlice(PARTITION, 0, 0, 5, 0),
        steps=[],
        dead_letters=None,
        is_merging=True,
        is_sure=True,
        is_logged=False,
    )
    known = Deletes(read_on, lambda _, offset, __: [log.steps[offset]])
    overtaken = [Overtaken(ANN, RowVersion())]
    with pytest.raises(Blocked) as blocked:
        resolver().resolve_overtaken(overtaken, known, ArrivalClock())
    assert blocked.value.reason.startswith("record shop[1]@0: ")
    assert blocked.value.reason.endswith(" may change that, and Kafka is slow")
    resolver().resolve_overtaken(overtaken, known, ArrivalClock())
    assert known.unshown(PARTITION, ANN) == ""


def test_of_many_deletes_those_are_kept_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletes, "MOST_DELETES", 2)
    log = Log(*[(Op.DELETE, "bob")] * 5, (Op.DELETE, "eve"), (Op.DELETE, "ann"))
    known, eve = log.deletes(), step(Op.INSERT, "eve")
    assert known.find(PARTITION, 0, ANN, [eve])
    assert known.find(PARTITION, 0, eve, [ANN])
    assert log.read == 7
    assert known.find(PARTITION, 0, step(Op.INSERT, "bob"))
    assert log.read == 14  # as nobody has asked for it before


def test_a_partition_is_read_no_further_than_the_places_that_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletes, "READ_AT_ONCE", 1)
    log = Log(*[(Op.INSERT, "bob")] * 3, (Op.DELETE, "ann"))
    known, place = log.deletes(), source_place(log.steps[1].change)
    assert known.find(PARTITION, 0, ANN, before=place) is False
    assert known.find(PARTITION, 0, ANN, before=place) is False
    assert log.read == 2
    assert known.find(PARTITION, 0, ANN)
    assert known.knows(PARTITION, 0, ANN)
    assert not known.knows(PARTITION, 0, ANN, before=place)
