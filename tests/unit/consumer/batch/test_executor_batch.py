"""What an executor does with a partition, called as Spark calls it, with a target in memory."""

from __future__ import annotations

import logging
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.batch import executor_batch
from cdcbus.consumer.batch.executor_batch import TASKS, Executors, Span, TaskRun, apply_partition
from cdcbus.consumer.batch.outcome import Outcome
from cdcbus.consumer.config import LoadTask, OnError
from cdcbus.consumer.records.late import Begun
from cdcbus.consumer.records.records import Records, same_in_all
from cdcbus.plugins.contracts import AppliedOffset, Converter, Details, Landmark, TargetTable
from cdcbus.plugins.epoch import epoch_text
from cdcbus.plugins.errors import (
    ConfigError,
    OffsetConflict,
    TargetMisconfigured,
    TargetRejected,
    TargetUnavailable,
)
from cdcbus.plugins.files import file_times
from cdcbus.plugins.files.file_times import are_written_since, note_read, written_at
from cdcbus.plugins.files.taken_texts import begin_task, changed_files, take
from cdcbus.plugins.kafka.dead_letter_sender import UnsentLetters
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, Origin, TableId
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.unit.consumer.apply.applying import PARENTS, PARTITION, TASK, Made, parent, row, target

RECORDS = 20
RUN = TaskRun("first", pickle.dumps(TASK), {}, {})


def batches(
    sizes: Iterable[int], first: int = 0, value: Callable[[int], bytes] = b"%d".__mod__
) -> list[pa.RecordBatch]:
    """So many records in each Arrow batch; record n inserts row n."""
    found = []
    for size in sizes:
        offsets = list(range(first, first + size))
        values = list(map(value, offsets))
        times = [1000 + offset for offset in offsets]
        found.append(
            pa.record_batch(
                [[PARTITION[0]] * size, [PARTITION[1]] * size, offsets, values, times],
                ["topic", "partition", "offset", "value", "kafka_ms"],
            )
        )
        first += size
    return found


def after(offset: int, last: int | None = None) -> AppliedOffset:
    """What the target keeps of a partition. `last`: the last record, where it is not the one before."""
    at = offset - 1 if last is None else last
    return AppliedOffset(*PARTITION, offset, 7, details=Details(last=Landmark(at, 1000 + at)))


def applied(
    monkeypatch: pytest.MonkeyPatch,
    loader: MemoryTarget,
    read: Iterable[pa.RecordBatch],
    span: Span,
    seen: AppliedOffset | None = None,
    others: Iterable[TopicPartition] = (),
    converter: Converter | None = None,
) -> Outcome:
    made = Made(*(parent(Op.INSERT, row(str(number), f"v{number}")) for number in range(RECORDS)))
    applier = PartitionApplier(TASK, converter or made, loader)
    monkeypatch.setattr(executor_batch, "_applier", lambda *_: applier)
    spans = {**dict.fromkeys(others, Span(0, 1, 7)), PARTITION: span}
    [batch] = apply_partition(RUN, spans, {PARTITION: seen} if seen else {}, read)
    outcome = pickle.loads(batch.column("outcome")[0].as_py())
    assert isinstance(outcome, Outcome)
    return outcome


def test_a_partition_is_applied_in_slices_each_with_its_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = target()
    monkeypatch.setattr(executor_batch, "SLICE_BYTES", 1)
    outcome = applied(monkeypatch, loader, batches((5, 5, 10)), Span(0, RECORDS, 7))
    assert (outcome.end, outcome.report.records, outcome.error) == (RECORDS, RECORDS, None)
    assert (outcome.report.first_kafka_ms, outcome.report.last_kafka_ms) == (1000, 1019)
    assert (len(loader.rows[PARENTS]), loader.statements.count("parents")) == (RECORDS, 3)
    assert loader.applied_offsets() == [after(RECORDS)]


def test_the_first_slices_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    loader, [one] = target(), batches((1,))
    monkeypatch.setattr(executor_batch, "FIRST_SLICE_BYTES", one.nbytes)
    monkeypatch.setattr(executor_batch, "SLICE_BYTES", 4 * one.nbytes)
    applied(monkeypatch, loader, batches([1] * RECORDS), Span(0, RECORDS, 7))
    assert loader.statements.count("parents") == len([1, 2, 4, 4, 4, 4, 1])


def test_an_executor_takes_the_time_from_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = int(time() * 1000) - 1_000_000
    applied(monkeypatch, target(), batches((5,)), Span(0, 5, 7, now_ms=now_ms))
    found_ms = executor_batch._applier(RUN, TASK).arrivals.now_ms()
    assert now_ms <= found_ms < now_ms + 500_000


def test_an_executor_knows_the_epochs_of_a_partition_while_it_applies_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until another one does, who may see more of them."""
    monkeypatch.setattr(executor_batch, "SLICE_BYTES", 1)
    shown = {"1": {"7": 3, "8": 4}}
    seen: list[tuple[bool, Any]] = []

    def without_late(
        _: TopicPartition, records: Records, __: str, begun: Begun
    ) -> tuple[Records, pa.Array]:
        begun |= shown
        return records, records.offsets[:0]

    def read() -> Iterable[pa.RecordBatch]:
        for batch in batches((5, 5)):
            yield batch
            epochs = executor_batch._applier(RUN, TASK).epochs
            seen.append((epochs.is_followed(PARTITION), epochs.of(PARTITION)))

    monkeypatch.setattr(executor_batch, "without_late", without_late)
    applied(monkeypatch, target(), read(), Span(0, 10, 7, begun={"1": {"7": 3}}))
    assert seen == [(True, shown)] * 2
    assert not executor_batch._applier(RUN, TASK).epochs.is_followed(PARTITION)


@pytest.mark.parametrize(
    "others",
    [[], [(PARTITION[0], 7)], [("other", PARTITION[1])], [("other", 7)]],
    ids=["alone", "one topic", "one partition", "nothing"],
)
def test_what_is_the_same_in_all_partitions_need_not_be_in_their_records(
    monkeypatch: pytest.MonkeyPatch, others: list[TopicPartition]
) -> None:
    loader, partitions = target(), [*others, PARTITION]
    read = [batch.drop_columns(same_in_all(partitions)) for batch in batches((10, 10))]
    assert (
        applied(monkeypatch, loader, read, Span(0, RECORDS, 7), others=others).partition
        == PARTITION
    )
    assert loader.applied_offsets() == [after(RECORDS)]


def test_a_partition_that_nothing_is_wanted_of_has_no_outcome() -> None:
    assert (
        list(
            apply_partition(
                RUN,
                {TopicPartition("other", 0): Span(0, RECORDS, 7)},
                {},
                batches((5,)),
            )
        )
        == []
    )


def test_the_offset_goes_to_the_end_where_no_records_are_left_but_transaction_markers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = target()
    assert applied(monkeypatch, loader, batches((5,)), Span(0, 8, 7)).end == 8
    assert loader.applied_offsets() == [after(8, last=4)]


def test_a_bounded_replay_ends_inside_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = target()
    assert applied(monkeypatch, loader, batches((10, 10)), Span(0, 7, 7)).end == 7
    assert len(loader.rows[PARENTS]) == 7


def test_only_the_offset_of_its_partition_is_read_and_others_are_those_of_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each Spark task would read as many rows as the task has partitions."""
    others = [AppliedOffset(PARTITION[0], number, 3, 6) for number in (1, 2)]
    by_now = AppliedOffset(*PARTITION, 12, 7)
    loader = target(
        offsets={PARTITION: by_now, others[0].topic_partition: replace(others[0], epoch=9)}
    )
    asked: list[tuple[str, int] | None] = []
    offsets = loader.applied_offsets

    def applied_offsets(partition: tuple[str, int] | None = None) -> list[AppliedOffset]:
        asked.append(partition)
        return offsets(partition)

    monkeypatch.setattr(loader, "applied_offsets", applied_offsets)
    applier = PartitionApplier(TASK, Made(), loader)
    driver = {each.topic_partition: each for each in others}
    applier.begin(PARTITION, {**driver, PARTITION: AppliedOffset(*PARTITION, 0, 6)})
    assert asked == [PARTITION]
    assert applier.seen == {**driver, PARTITION: by_now}


def test_what_an_executor_that_was_lost_has_committed_is_not_applied_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = target(offsets={PARTITION: AppliedOffset(*PARTITION, 12, 7)})
    outcome = applied(
        monkeypatch, loader, batches((10, 10)), Span(0, RECORDS, 7), AppliedOffset(*PARTITION, 0, 6)
    )
    assert (outcome.end, outcome.report.records, outcome.error) == (RECORDS, 8, None)
    assert sorted(loader.rows[PARENTS]) == sorted((str(number),) for number in range(12, RECORDS))


def in_slices(monkeypatch: pytest.MonkeyPatch, sizes: Iterable[int], *epochs: int) -> Outcome:
    """What becomes of records of these epochs, where an executor that was lost has committed the
    first five."""
    monkeypatch.setattr(executor_batch, "FIRST_SLICE_BYTES", 1)
    converter = make_converter("canalRow")

    def value(offset: int) -> bytes:
        origin = Origin("b.1", 4, epoch=epoch_text(epochs[offset], "1", "shop"))
        change = parent(Op.INSERT, row(str(offset), f"v{offset}"))
        return converter.to_bytes(replace(change, origin=origin))

    loader = target(offsets={PARTITION: AppliedOffset(*PARTITION, 5, 7)})
    read, seen = batches(sizes, value=value), AppliedOffset(*PARTITION, 0, 6)
    span = Span(0, len(epochs), 7)
    outcome = applied(monkeypatch, loader, read, span, seen, converter=converter)
    assert outcome.error is None
    return outcome


@pytest.mark.parametrize("sizes", [(7,), (5, 2), (2, 5)])
def test_what_an_executor_that_was_lost_has_committed_shows_which_records_are_late(
    monkeypatch: pytest.MonkeyPatch, sizes: Iterable[int]
) -> None:
    outcome = in_slices(monkeypatch, sizes, 2, 2, 2, 2, 2, 1, 2)
    assert (outcome.end, outcome.report.records, outcome.report.late) == (7, 1, 1)


def test_what_an_executor_that_was_lost_has_committed_is_read_to_its_end_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor_batch, "TURN_SECONDS", 0.0)
    outcome = in_slices(monkeypatch, (2, 3, 2), 1, 1, 1, 2, 2, 1, 2)
    assert outcome.end == 5
    (begun,) = outcome.begun.values()
    assert sorted(begun.values()) == [0, 3]


@pytest.mark.parametrize(
    "found", [AppliedOffset(*PARTITION, 12, 8), AppliedOffset(*PARTITION, 30, 7), None]
)
def test_nothing_is_written_where_the_target_does_not_hold_what_the_driver_has_seen(
    monkeypatch: pytest.MonkeyPatch, found: AppliedOffset | None
) -> None:
    loader = target(offsets={PARTITION: found} if found else {})
    outcome = applied(
        monkeypatch, loader, batches((20,)), Span(0, RECORDS, 7), AppliedOffset(*PARTITION, 0, 6)
    )
    assert isinstance(outcome.error, OffsetConflict)
    assert (outcome.end, loader.rows[PARENTS]) == (0, {})


@pytest.mark.parametrize(("limit", "value"), [("TURN_BYTES", 1), ("TURN_SECONDS", 0.0)])
def test_a_partition_leaves_the_rest_for_later_after_many_bytes_or_a_long_time(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    loader = target()
    monkeypatch.setattr(executor_batch, "SLICE_BYTES", 1)
    monkeypatch.setattr(executor_batch, limit, value)
    outcome = applied(monkeypatch, loader, batches((5, 5, 10)), Span(0, RECORDS, 7))
    assert (outcome.end, loader.applied_offsets()) == (5, [after(5)])
    assert outcome.seconds > 0


def test_errors_come_back_with_the_log_and_what_was_committed_before_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = target(refused=frozenset({"v15"}))
    monkeypatch.setattr(executor_batch, "SLICE_BYTES", 1)
    outcome = applied(monkeypatch, loader, batches((10, 6, 4)), Span(0, RECORDS, 7))
    assert isinstance(outcome.error, TargetRejected)
    assert str(outcome.error).startswith("record shop[0]@15: ")
    assert (loader.applied_offsets(), len(loader.rows[PARENTS])) == ([after(10)], 10)
    [(name, level, text)] = outcome.log
    assert (name, level) == ("cdcbus.consumer.apply.conflicts", logging.INFO)
    assert "shop[0] is applied in halves" in text


def test_an_error_that_is_not_known_is_told_by_its_place_without_its_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("SECRET")

    monkeypatch.setattr(PartitionApplier, "prepare", broken)
    outcome = applied(monkeypatch, target(), batches((5,)), Span(0, 5, 7))
    assert str(outcome.error).startswith(
        f"task 7: shop[0] failed on an executor: KeyError at {__file__}:"
    )
    assert "SECRET" not in str(outcome.error)


def test_a_partition_without_records_has_no_outcome() -> None:
    assert list(apply_partition(RUN, {}, {}, [])) == []


class Opened:
    """Appliers that are made and closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.closed: list[int] = []
        monkeypatch.setattr(executor_batch, "make_applier", self._make)
        monkeypatch.setattr(executor_batch, "_appliers", OrderedDict())

    def _make(self, task: LoadTask, *_: object) -> Any:
        number = len(self.made)
        self.made.append(task.task_id)
        return SimpleNamespace(number=number, close=lambda: self.closed.append(number))


def test_what_a_run_knew_of_the_target_is_forgotten_in_the_next_run_of_the_same_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Opened(monkeypatch)
    first = executor_batch._applier(RUN, TASK)
    assert executor_batch._applier(RUN, TASK) is first
    second = executor_batch._applier(RUN._replace(run_id="second"), TASK)
    assert second is not first
    assert opened.closed == [0]


def test_letters_that_the_former_run_of_a_task_could_not_send_are_known_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each attempt is another run: a letter that no broker takes would be tried again for ever."""
    given: list[UnsentLetters] = []

    def topic(_: LoadTask, unsent: UnsentLetters) -> AbstractContextManager[SimpleNamespace]:
        given.append(unsent)
        return nullcontext(SimpleNamespace(open=lambda: None, put=lambda _: None))

    monkeypatch.setattr(executor_batch, "make_applier", lambda _, __, put: put)
    monkeypatch.setattr(executor_batch, "DeadLetterTopic", topic)
    for task_id in ("7", "7", "8"):
        put: Any = executor_batch._new_applier(
            replace(TASK, task_id=task_id, on_error=OnError.DEADLETTER)
        )
        put([])
    assert given[0] is given[1]
    assert given[2] is not given[0]


@pytest.mark.parametrize("known", [None, PARENTS], ids=["all", "one"])
def test_an_executor_keeps_versions_where_its_driver_does_though_the_server_shows_it_no_table(
    monkeypatch: pytest.MonkeyPatch, known: TableId | None
) -> None:
    """MySQL's accounts have other rights from each host. An older change would replace a newer."""
    loader = target()

    def version_table(table: TargetTable, *, make: bool) -> None:
        if make:
            raise TargetMisconfigured(f"no right to make one of {table.id}")

    monkeypatch.setattr(loader, "version_table", version_table)
    span = Span(0, RECORDS, 7, scattered=frozenset([known]))
    [batch] = batches((RECORDS,))
    keys = pa.array([b"%d_" % number for number in range(RECORDS)])
    outcome = applied(monkeypatch, loader, [batch.append_column("key", keys)], span)
    assert isinstance(outcome.error, TargetMisconfigured)
    assert loader.rows[PARENTS] == {}


def test_a_driver_learns_from_each_executor_which_tables_are_scattered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are given them with the next batch."""
    span = Span(0, RECORDS, 7, scattered=frozenset([PARENTS]))
    outcome = applied(monkeypatch, target(), batches((RECORDS,)), span)
    assert outcome.scattered == {PARENTS}
    driver = PartitionApplier(TASK, Made(), target())
    rows = [SimpleNamespace(outcome=pickle.dumps(outcome))]
    frame: Any = SimpleNamespace(
        sparkSession=SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))
    )
    monkeypatch.setattr(
        executor_batch, "map_in_arrow", lambda *_: SimpleNamespace(collect=lambda: rows)
    )
    assert driver.scattered == frozenset()
    Executors(TASK, driver).apply(frame, {PARTITION: span})
    assert driver.scattered == {PARENTS}


@pytest.mark.parametrize("keeps_offsets", [True, False])
def test_executors_must_keep_offsets_where_their_driver_does(*, keeps_offsets: bool) -> None:
    driver: Any = SimpleNamespace(keeps_offsets=keeps_offsets)
    task = pickle.loads(Executors(TASK, driver)._run.task)
    assert task.target.needs_offsets is keeps_offsets


def test_each_use_of_executors_is_another_run() -> None:
    driver: Any = SimpleNamespace(keeps_offsets=True)
    assert Executors(TASK, driver)._run != Executors(TASK, driver)._run


def test_a_worker_of_another_machine_is_sent_no_passwords_and_takes_its_files_for_its_own(
    tmp_path: Path,
) -> None:
    """Its file of a certificate has another time, and a missing one is not being written."""
    ca = tmp_path / "ca.pem"
    ca.write_text("as it was")
    note_read(written_at([str(ca)]))
    password = tmp_path / "password"
    password.write_text("of ZooKeeper")
    take(str(password), "")
    driver: Any = SimpleNamespace(keeps_offsets=True)
    run = Executors(replace(TASK, spark_options={"spark.master": "spark://m:7077"}), driver)._run
    assert b"of ZooKeeper" not in pickle.dumps(run)
    assert str(ca).encode() not in pickle.dumps(run)


def test_a_worker_knows_the_files_that_its_driver_has_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else a certificate that is being written when the first batch comes would count as a fault of
    the task's settings, and a refused client would wait for ever for its former password."""
    ca = tmp_path / "ca.pem"
    ca.write_text("as it was")
    note_read(written_at([str(ca)]))
    password = tmp_path / "password"
    password.write_text("former")
    take(str(password), "")
    driver: Any = SimpleNamespace(keeps_offsets=True)
    run = Executors(TASK, driver)._run
    os.utime(ca, ns=(1, 1))
    password.write_text("present")
    # As in another process.
    monkeypatch.setattr(file_times, "_READ", {})
    begin_task()

    def refuse(*_: object) -> None:
        assert str(password) in changed_files()
        is_renewed = are_written_since(written_at([str(ca)]))
        raise (TargetUnavailable if is_renewed else ConfigError)("half a certificate")

    monkeypatch.setattr(executor_batch, "_applier", refuse)
    [batch] = apply_partition(run, {PARTITION: Span(0, 3, 7)}, {}, batches([3]))
    outcome: Outcome = pickle.loads(batch.column("outcome")[0].as_py())
    assert isinstance(outcome.error, TargetUnavailable)


def test_only_the_appliers_of_the_last_tasks_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(monkeypatch)
    for number in range(TASKS + 2):
        executor_batch._applier(RUN, replace(TASK, task_id=str(number)))
        executor_batch._applier(RUN, replace(TASK, task_id="0"))
    assert opened.made == [str(number) for number in range(TASKS + 2)]
    assert opened.closed == [1, 2]
