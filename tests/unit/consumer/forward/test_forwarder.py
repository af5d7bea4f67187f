"""The end of a task that forwards records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.forward import forwarder as forwarders
from cdcbus.consumer.forward.forwarder import Forwarder
from cdcbus.consumer.forward.outlet import Outlet, WithoutLarge
from cdcbus.consumer.offsets.moves import FirstRecords, ReadFirst, no_records
from cdcbus.consumer.offsets.topic_logs import LogRecord
from cdcbus.plugins.contracts import AppliedOffset
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import ConversionError, PositionUnusable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.transactions import Transaction
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId

PARTITIONS = 40
ORDERS = Table(TableId("shop", "orders"), (Column("id", "int", 4), Column("n", "int", 4)), ("id",))


def forwarder(read_first: ReadFirst = no_records, converter: str = "canalRow") -> Any:
    config = PublishConfig("127.0.0.1:9", "out", converter)
    source = TopicConfig("127.0.0.1:9", ("orders",))
    task = LoadTask("7", source, "canalRow", "KAFKA_SYNC", config)
    return Forwarder(task, config, CanalRow(), None, None, Event(), read_first=read_first)


def test_all_transactions_are_undone_at_the_same_time() -> None:
    """Each waits for 10 s where Kafka does not answer."""
    together = Barrier(PARTITIONS)

    class Waiting(Outlet):
        def __init__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            together.wait(20)

    forwards = forwarder()
    for number in range(PARTITIONS):
        forwards._outlets[TopicPartition("orders", number)] = Waiting()
    forwards.close()
    assert forwards._outlets == {}
    forwards.close()


def test_a_record_that_is_too_large_can_show_while_its_transaction_is_undone() -> None:
    begun = count()

    class Refusing(Outlet):
        def __init__(self) -> None:
            self.sent = 0

        def begin(self, _seen: AppliedOffset | None) -> None:
            if not next(begun):
                raise WithoutLarge("a record is too large")

        def without_large(self, made: Any) -> Any:
            return made

        def send(self, _made: Any) -> None:
            self.sent += 1

    outlet = Refusing()
    forwarder()._send(outlet, None, [])
    assert outlet.sent == 1


def test_the_threads_of_a_forwarder_work_for_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what a client says there is said of no task, nor is its password another one by then."""
    tasks: list[str] = []

    class Watched(Outlet):
        def __init__(self) -> None: ...

        def take(self, *_: object) -> AppliedOffset:
            tasks.append(TASK_AT_WORK.get())
            return AppliedOffset(*partition, 1, 1)

        def __exit__(self, *_: object) -> None:
            tasks.append(TASK_AT_WORK.get())

    partition = TopicPartition("orders", 0)
    forwards = forwarder()
    forwards._config = replace(forwards._config, transactional_id="t")
    forwards._outlets[partition] = Watched()
    monkeypatch.setattr(Outlet, "applied", lambda _: tasks.append(TASK_AT_WORK.get()))
    monkeypatch.setattr(forwarders, "TopicLogs", lambda _: nullcontext())
    monkeypatch.setattr(forwarders, "partitions_read", lambda *_: [partition])
    forwards.take_over([AppliedOffset(*partition, 1, 1)])
    forwards.committed_offsets()
    forwards.close()
    assert tasks == ["7", "7", "7"]


@pytest.mark.parametrize("threads", [0, 3])
def test_each_is_undone_once_where_there_are_few_threads(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    closed = []

    class Closing(Outlet):
        def __init__(self, number: int) -> None:
            self.number = number

        def __exit__(self, *_: object) -> None:
            closed.append(self.number)

    start = Thread.start
    left = count(threads, -1)

    def start_one_of_few(thread: Thread) -> None:
        if next(left) <= 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", start_one_of_few)
    forwards = forwarder()
    for number in range(PARTITIONS):
        forwards._outlets[TopicPartition("orders", number)] = Closing(number)
    forwards.close()
    assert sorted(closed) == list(range(PARTITIONS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", (12, 0)),
        ("12 3", (12, 3)),
        ('12 3 {"topicId":"x"}', (12, 3)),
        ("", None),
        ("another tool's note", None),
    ],
)
def test_the_last_commit_of_a_partition_is_known(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: tuple[int, int] | None
) -> None:
    found = outlet(monkeypatch, text).applied()
    assert (found and (found.position_version, found.epoch)) == expected


@pytest.mark.parametrize(
    "text", ['12 {"offset":4}', '12:0a1b {"offset":4}', "12 x", "12 3 4", "1x"]
)
def test_what_a_task_of_another_kind_has_committed_is_an_error(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """As of a fetch task whose group has the same name."""
    found = r"^group cdcbus-7 .* has committed an offset of orders\[1\] that is not of a task from"
    with pytest.raises(PositionUnusable, match=found):
        outlet(monkeypatch, text).applied()


def outlet(monkeypatch: pytest.MonkeyPatch, text: str) -> Outlet:
    """One whose group has committed offset 5 with this text."""
    monkeypatch.setattr(Transaction, "committed", lambda _: (5, text))
    config = PublishConfig("127.0.0.1:9", "out", "canalRow", transactional_id="cdcbus-7-orders-1")
    place = TopicPartition("orders", 1)
    return Outlet(config, place, Event(), group="cdcbus-7", place=place)


def test_a_topic_that_has_grown_within_what_is_read_is_told_where_reading_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Keys 1_ to 5_ are all in partition 0 of two, which Kafka's hash would share out."""
    looks: list[Mapping[TopicPartition, int]] = []

    def read_first(starts: Mapping[TopicPartition, int]) -> FirstRecords:
        looks.append(starts)
        keys = [f"{number}_".encode() for number in range(1, 6)]
        first = [LogRecord(TopicPartition("orders", 0), 0, b"", 0, key) for key in keys]
        later = LogRecord(TopicPartition("orders", 1), 0, b"", 0, b"1_")
        return FirstRecords([*first, later], {"orders": 2})

    def offsets(first: int, second: int) -> list[AppliedOffset]:
        return [AppliedOffset("orders", 0, first, 1), AppliedOffset("orders", 1, second, 1)]

    forwards = forwarder(read_first)
    forwards.take_over(offsets(3, 3))
    assert caplog.text.count("partitions were added to topic orders after its first records") == 1
    # A further attempt goes on; a position that was set goes back.
    forwards.take_over(offsets(4, 3))
    assert len(looks) == 1
    forwards.take_over(offsets(4, 2))
    assert len(looks) == 2


def test_old_cells_that_are_not_known_are_not_forwarded_as_unchanged() -> None:
    """Also of a source's own records, which show all columns: canal's form cannot say it."""
    update = RowChange(ORDERS, Op.UPDATE, {"id": "1"}, {"id": "1", "n": "2"})
    [read] = CanalRow().from_bytes(CanalRow().to_bytes(update))
    with pytest.raises(ConversionError, match="without column n of the old row, which canalCompat"):
        list(forwarder(converter="canalCompat")._transform.records(read))
