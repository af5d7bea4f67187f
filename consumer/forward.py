"""One micro-batch into other Kafka topics: each Kafka partition is a lane, sent on in order, and acknowledged before its offset counts.

In transactions a lane's records and its offset are committed together. The offset is what the task's group has committed of the partition,
beside the change number (mzxid) that the ZooKeeper node of the position had then: a start goes on from it only if the node is still that
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from threading import Event, Lock
from time import perf_counter
from typing import NamedTuple

from cdcbus.consumer.dead_letters import DeadLetter
from cdcbus.consumer.offsets import Lane, TopicLogs, lanes_of
from cdcbus.consumer.processor import Processor
from cdcbus.consumer.records import Records
from cdcbus.consumer.report import BatchReport
from cdcbus.consumer.rewrite import Rewriter, Written
from cdcbus.consumer.task import LoadTask
from cdcbus.consumer.wanted import Wanted
from cdcbus.plugins.contracts import AppliedOffset, Converter, Counts
from cdcbus.plugins.errors import BusRejected, BusUnavailable, ConfigError, DataError, UnreadableEvent
from cdcbus.plugins.kafka.publish_config import PublishConfig
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.plugins.kafka.transaction import Transaction
from cdcbus.plugins.kafka.writer import CONNECT_SECONDS, LARGE_CURE, KafkaWriter
from cdcbus.plugins.rowchange import Op, TableId

LANES_AT_ONCE = 16

_Made = tuple[int, Written]  # from the record of which offset, what


class _Large(NamedTuple):
    """A record that may be too large, and of which record it was made."""

    offset: int
    topic: str
    table: TableId
    size_bytes: int


class Forwarder:
    """Sends lanes on. Thread-safe: lanes may be sent side by side, each by a client of its own. One process at a time."""

    is_dry_run = False
    lanes_at_once = LANES_AT_ONCE

    def __init__(
        self,
        task: LoadTask,
        config: PublishConfig,
        converter: Converter,
        process: Processor | None,
        put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None,
        stop: Event,
    ) -> None:
        """`put_dead_letters` returns when they are durable; None: whatever cannot be sent is raised. Brokers are waited for until `stop` is
        set."""
        self._task, self._config, self._stop = task, config, stop
        self._put_dead_letters = put_dead_letters
        self._wanted = Wanted(task, converter, process)
        self._rewriter = Rewriter(task.rules, config)
        self._outlets: dict[Lane, _Outlet] = {}
        self._opening, self._open = Lock(), ExitStack()

    def check_targets(self) -> None:
        """Raises BusUnavailable when no broker answers, BusRejected when a topic that the task file names is not there, ConfigError when
        the task reads one of them."""
        self.check_circle(named_topics(self._config))
        with self._looking_outlet():
            pass

    def check_circle(self, topics: Iterable[str]) -> None:
        """Raises ConfigError when the task would read what it writes to these topics."""
        read = sorted({*topics} & {*self._task.source.topics})
        if read and self._is_same_cluster:
            raise ConfigError(f"topic {read[0]} is both read and written, so records would go round for ever: name another to write to")

    def applied_offsets(self) -> list[AppliedOffset]:
        """How far each lane has been committed; empty without transactions. What was sent and is not committed is undone, and whoever has
        run the task before cannot commit any more. Raises BusError."""
        if not self._config.transactional_id:
            for outlet in self._outlets.values():
                outlet.start()
            return []
        return self._offsets(_Outlet.take_over)

    def committed_offsets(self) -> list[AppliedOffset]:
        """The same, and changes nothing."""
        return self._offsets(lambda _: None) if self._config.transactional_id else []

    def _offsets(self, prepare: Callable[[_Outlet], None]) -> list[AppliedOffset]:
        def applied(lane: Lane) -> AppliedOffset | None:
            outlet = self._outlet(lane)
            prepare(outlet)
            return outlet.applied()

        with TopicLogs(self._task) as logs:
            lanes = [lane for topic in self._task.source.topics for lane in lanes_of(self._task, logs, topic)]
        with ThreadPoolExecutor(LANES_AT_ONCE) as pool:
            return [offset for offset in pool.map(applied, lanes) if offset]

    def apply(self, lane: Lane, records: Records, end_offset: int, mzxid: int) -> BatchReport:
        """Returns once all is acknowledged, and dead letters are put. In transactions everything or nothing becomes visible.

        Raises DataError, naming the record, unless it becomes a dead letter; BusRejected, BusUnavailable, ConfigError.
        """
        report, letters = BatchReport(records=len(records)), list[DeadLetter]()
        if not records:
            return report
        started = perf_counter()
        outlet = self._outlet(lane)
        made = list(self._made(lane, records, outlet, report, letters))
        self.check_circle({written.topic for _, written in made})
        decoded = perf_counter()
        outlet.send(made)
        letters += outlet.letters()
        if letters and self._put_dead_letters:
            self._put_dead_letters(letters)  # before the offset moves past them
        applied = perf_counter()
        if made or letters:  # else it does no harm to read the records again
            outlet.commit(end_offset, mzxid)
        _count(report, made)
        report.decode_ms, report.apply_ms = (decoded - started) * 1000, (applied - decoded) * 1000
        report.commit_ms = (perf_counter() - applied) * 1000
        return report

    def close(self) -> None:
        """Of all clients. May be called twice."""
        self._open.close()

    # Records to records

    def _made(self, lane: Lane, records: Records, outlet: _Outlet, report: BatchReport, letters: list[DeadLetter]) -> Iterator[_Made]:
        for offset, value in records:
            if value is None or offset in outlet.too_large:
                continue
            try:
                yield from list(self._made_of(offset, value, outlet, report))  # all of it or nothing
            except (DataError, UnreadableEvent) as error:
                if self._put_dead_letters is None:
                    raise type(error)(f"record {lane[0]}[{lane[1]}]@{offset}: {error}") from error
                letters.append(DeadLetter(*lane, offset, str(error)))
                report.unread += 1

    def _made_of(self, offset: int, value: bytes, outlet: _Outlet, report: BatchReport) -> Iterator[_Made]:
        for change in self._wanted.changes(value, report):
            for written in self._rewriter.records(change):
                if written.op is Op.TRUNCATE and outlet.partitions(written.topic) > 1:
                    raise DataError(_truncate_refused(change.table.id, written.topic))
                yield offset, written

    # Lanes to Kafka

    def _outlet(self, lane: Lane) -> _Outlet:
        with self._opening:
            if lane not in self._outlets:
                self._outlets[lane] = self._open.enter_context(self._new_outlet(lane))
            return self._outlets[lane]

    def _new_outlet(self, lane: Lane) -> _Outlet:
        name = self._config.transactional_id
        if not name:
            return _Outlet(self._config, lane, self._stop, self._put_dead_letters is not None)
        config = replace(self._config, transactional_id=f"{name}-{lane[0]}-{lane[1]}")
        # Only a cluster that has the lane can keep an offset of it; any other keeps it at a partition that all lanes share.
        group, place = (name, lane) if self._is_same_cluster else (config.transactional_id, (config.topic, 0))
        return _Outlet(config, lane, self._stop, self._put_dead_letters is not None, group, place)

    @cached_property
    def _is_same_cluster(self) -> bool:
        with TopicLogs(self._task) as logs:
            return logs.cluster() == self._looking_outlet().cluster()

    def _looking_outlet(self) -> _Outlet:
        return _Outlet(replace(self._config, transactional_id=""), ("", 0), self._stop)


class _Outlet(KafkaWriter[_Large]):
    """A lane's way into Kafka. `too_large`: the offsets of records that are left out, as what they become is not taken, and why."""

    def __init__(
        self,
        config: PublishConfig,
        lane: Lane,
        stop: Event,
        keeps_letters: bool = False,
        group: str = "",
        place: tuple[str, int] = ("", 0),
    ) -> None:
        """`group` and `place`: of the offset that transactions keep."""
        super().__init__(config, stop)
        self._lane, self._keeps_letters = lane, keeps_letters
        self.too_large: dict[int, str] = {}
        self._transaction = Transaction(self, config, group, *place) if config.transactional_id else None
        self._is_mine = False

    def take_over(self) -> None:
        """See Transaction."""
        if self._transaction:
            self._transaction.take_over()
            self._is_mine = True

    def applied(self) -> AppliedOffset | None:
        """What was committed last."""
        offset, mzxid = self._transaction.committed() if self._transaction else (-1, "")
        return AppliedOffset(*self._lane, offset, int(mzxid)) if offset >= 0 and mzxid.isdecimal() else None

    def cluster(self) -> str:
        """The id of the brokers' cluster."""
        return str(self._metadata(self._config.topic, CONNECT_SECONDS).cluster_id)

    def partitions(self, topic: str) -> int:
        """How many a topic has, which is made where it is missing and may be made."""
        self._topics.need([topic])
        return len(self._metadata(topic, CONNECT_SECONDS).topics[topic].partitions)

    def send(self, made: Sequence[_Made]) -> None:
        """Returns once all is acknowledged but what is too large. Raises BusRejected, BusUnavailable."""
        if not self._is_mine:
            self.take_over()
        waiting: dict[str, list[Record]] = {}
        for offset, (topic, table, _, records) in made:
            for record in records:
                if len(record["value"]) > self._batch_bytes:
                    self._watch(record, _Large(offset, topic, table, len(record["value"])))
            waiting.setdefault(topic, []).extend(records)
        self._topics.need(waiting)
        for topic, records in waiting.items():
            self._produce(topic, records)
        self.flush()

    def letters(self) -> list[DeadLetter]:
        """Of the records that were too large."""
        return [DeadLetter(*self._lane, offset, reason) for offset, reason in self.too_large.items()]

    def commit(self, end_offset: int, mzxid: int) -> None:
        """Of all that was sent. Raises BusRejected, BusUnavailable."""
        if self._transaction:
            self._transaction.commit(end_offset, str(mzxid))
        self.too_large.clear()

    def _bury(self, refused: _Large) -> None:
        what = f"table {refused.table}, made of record {self._lane[0]}[{self._lane[1]}]@{refused.offset}"
        sentence = self._refusal(refused.topic, refused.size_bytes, what)
        if not self._keeps_letters:
            self._failure = BusRejected(f"{sentence}; {LARGE_CURE}")
            return
        self.too_large[refused.offset] = sentence
        if self._transaction:
            self._failure = BusUnavailable(f"{sentence}; its transaction is begun anew without it")


def _count(report: BatchReport, made: Sequence[_Made]) -> None:
    ops: dict[TableId, Counter[Op]] = {}
    for _, written in made:
        ops.setdefault(written.table, Counter())[written.op] += 1
    for table, counted in ops.items():
        report.table(table).add_ops(counted, Counts())


def _truncate_refused(table: TableId, topic: str) -> str:
    return (
        f"TRUNCATE of {table}: rows are spread over the partitions of topic {topic}, and no order holds between them; empty the table at "
        "the targets, then set the position behind the record; a topic with one partition carries it"
    )
