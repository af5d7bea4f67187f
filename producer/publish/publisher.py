"""Publishes row changes to Kafka: topic, key, partition, acknowledgement."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from threading import Event
from typing import NamedTuple

from cdcbus.plugins.contracts import (
    Converter,
    DdlConverter,
    JoiningConverter,
    MarkingConverter,
)
from cdcbus.plugins.errors import BusRejected, BusUnavailable, UnreadableEvent
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.producer import LARGE_REMEDY, KafkaWriter
from cdcbus.plugins.kafka.record_key import SNAPSHOT, Record
from cdcbus.plugins.kafka.topic_names import plain_name, topic_of
from cdcbus.plugins.rowchange import Op, Origin, RowChange, TableDdl, TableId
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.plugins.transform.processor import make_processor
from cdcbus.producer.config import AS_THEY_ARE, TRUNCATE, RowTransform
from cdcbus.producer.decoding.row_image import OPS
from cdcbus.producer.publish.log_watch import LogWatch
from cdcbus.producer.publish.oversized import LargeRecord, dead_letter
from cdcbus.producer.publish.routes import Made, TableRoutes
from cdcbus.producer.publish.row_batching import RecordLimits, many_rows
from cdcbus.producer.source.row_events import Part, Rows

LOG = logging.getLogger(__name__)
BATCH_ROWS = 1000
# Columns for which writers and code are kept, about 100 MB. A table counts them once for its writer
# and up to four times for its code: 2,000 tables of 5 columns with rows of all kinds.
CODE_COLUMNS = 50_000
# The client wakes a waiter for acknowledgements only when this time is over: the first
# acknowledgements take a millisecond or two.
PUSH_SECONDS, SLOW_PUSH_SECONDS = 0.001, 0.02
PUSHES, SLOW_PUSHES = 10, 5
NO_PLACE = Origin()
"""The origin of rows whose place may differ when they are read again."""
_LINGER = {"linger.ms", "queue.buffering.max.ms"}


def _name_of(key: bytes) -> str:
    """The name of a row without a place, the same each time."""
    return f"key-{sha256(key).hexdigest()[:16]}"


class _Large(NamedTuple):
    record: LargeRecord
    key: bytes
    size_bytes: int

    @property
    def size(self) -> _Size:
        return self.record.topic, self.record.table, self.key, self.size_bytes


_Size = tuple[str, str, bytes, int]
"""A row that is too large, regardless of its place: topic, table, record key, size in bytes."""


class KafkaPublisher(KafkaWriter[_Large]):
    """Sends row changes to the topics of a task. A context manager; entering checks that the topics
    that the task names exist.

    `tables`: the number of row changes queued for each table, by operation; `logs`: what the topics
    were given.
    """

    def __init__(
        self,
        config: PublishConfig,
        converter: Converter,
        stop: Event,
        *,
        task_id: str = "",
        takes_partial: bool = False,
        rows_per_record: int = 1,
        transform: RowTransform = AS_THEY_ARE,
        on_queued: Callable[[int], None] | None = None,
        status: TaskStatus | None = None,
    ) -> None:
        """`task_id` is part of the keys of dead letters. `takes_partial`: rows whose images lack
        columns are sent, too. `rows_per_record`: at most. `transform`: how rows are transformed
        first. `on_queued` is called about once a second with the bytes of records that wait for
        Kafka, of `config.queue_bytes`. `status` is told while Kafka acknowledges nothing. Raises
        ConfigError for an event processor that cannot be imported."""
        super().__init__(config, stop, on_queued, status)
        self._task_id = task_id
        self._rows_per_record = rows_per_record
        self._converter = converter
        self._marks_snapshots = (
            isinstance(converter, MarkingConverter) and converter.marks_snapshots
        )
        # refused records, which go to the dead-letter topic when they are made again
        self._dead: set[LargeRecord] = set()
        # the same for rows whose place differs when they are read again
        self._dead_sizes: set[_Size] = set()
        self._routes = TableRoutes(
            config,
            converter,
            transform,
            make_processor(transform.processor),
            lambda topic: self._topics.need([topic]),
            self._partitions_of,
            self._limits if rows_per_record > 1 else None,
            takes_partial=takes_partial,
            on_code=self._add_code,
        )
        self._limits_of: dict[str, RecordLimits] = {}
        self._code = 0  # columns for which the routes have writers and code
        self.tables: dict[TableId, Counter[Op]] = {}
        self.logs = LogWatch(config, self.connecting, self.has_sent_all, stop)
        self._row = 0  # the next row's number in its transaction
        self._is_prompt = not _LINGER & config.kafka_options.keys()

    def send(self, parts: Iterable[Part]) -> int:
        """Queues rows and DDL in order; waits while the queue is full. Returns the number of row
        changes.

        Raises UnreadableEvent, BusRejected for a record that Kafka refuses, BusUnavailable if the
        task is stopped while it waits, ConfigError for a table that has no topic.
        """
        if self._code > CODE_COLUMNS:
            self._routes.clear()
            self._limits_of.clear()
            self._code = 0
        sent = 0
        waiting: dict[str, list[Record]] = {}
        try:
            for part in parts:
                if isinstance(part, TableDdl):
                    for topic, records in self._of_ddl(part):
                        waiting.setdefault(topic, []).extend(records)
                    sent += part.kind == TRUNCATE
                else:
                    sent += self._send_rows(part, waiting)
        except UnreadableEvent:
            self._produce_all(waiting)  # what comes before it is sent
            raise
        self._produce_all(waiting)
        return sent

    def _send_rows(self, rows: Rows, waiting: dict[str, list[Record]]) -> int:
        """Adds the records of an event to those that wait, and queues them where they are many.
        Returns the number of row changes."""
        # Rows are numbered within their transaction, which can have several batches.
        if rows.is_first:
            self._row = 0
        made, count = self._routes.made(rows, self._row)
        for each in made:
            self._look_for_large(rows.origin, each, waiting)
            records = self._joined(rows, each)
            if rows.origin.is_snapshot and not self._marks_snapshots:
                for record in records:
                    record["headers"] = SNAPSHOT
            waiting.setdefault(each.topic, []).extend(records)
        self._row += count
        self.tables.setdefault(rows.table.table.id, Counter())[OPS[rows.kind]] += count
        # A large batch is handed over piece by piece, so that little of it waits here.
        for each in made:
            if len(waiting[each.topic]) * self._rows_per_record >= BATCH_ROWS:
                self._produce(each.topic, waiting.pop(each.topic))
        return count

    def _partitions_of(self, topic: str) -> int:
        """The number of a topic's partitions, 0 where it is not known. Raises BusError."""
        shape = self.shape(topic)
        return 0 if shape is None else shape.partitions

    def send_changes(self, changes: Sequence[RowChange]) -> int:
        """Like `send`, for row changes that are decoded already, row by row. Raises as `send`."""
        waiting: dict[str, list[Record]] = {}
        try:
            # by table, as a table's records are made together; records of one topic keep their
            # order
            for table, several in groupby(changes, lambda change: change.table.id):
                some = list(several)
                for made in self._routes.of_changes(some):
                    self._look_for_large(NO_PLACE, made, waiting)
                    waiting.setdefault(made.topic, []).extend(made.records)
                counts = self.tables.setdefault(table, Counter())
                for change in some:
                    counts[change.op] += 1
                for topic in [name for name, own in waiting.items() if len(own) >= BATCH_ROWS]:
                    self._produce(topic, waiting.pop(topic))
        except UnreadableEvent:
            self._produce_all(waiting)  # what comes before it is sent
            raise
        self._produce_all(waiting)
        return len(changes)

    def _look_for_large(self, origin: Origin, made: Made, waiting: dict[str, list[Record]]) -> None:
        """Watches the delivery of records that may be too large, and removes those that were
        refused before: adds their dead letters to `waiting`."""
        numbers = [
            number
            for number, record in enumerate(made.records)
            if len(record["value"]) > self._batch_bytes
        ]
        # From the end, so that a removed record leaves the earlier numbers right.
        for number in reversed(numbers):
            record = made.records[number]
            which = LargeRecord(
                made.topic,
                str(made.table),
                made.key,
                # letters are keyed by place: rows without one must not share a key
                origin.file if origin is not NO_PLACE else _name_of(record["key"]),
                origin.pos,
                self._row,
                number,
            )
            large = _Large(which, record["key"], len(record["value"]))
            has_place = origin is not NO_PLACE and not origin.is_snapshot
            is_dead = which in self._dead and origin is not NO_PLACE
            if is_dead or (not has_place and large.size in self._dead_sizes):
                waiting.setdefault(self._config.dead_letter_topic, []).append(
                    dead_letter(self._task_id, *large)
                )
                del made.records[number]
            else:
                self._watch(record, large)

    def _joined(self, rows: Rows, made: Made) -> list[Record]:
        """Joins the records of an event to records of many rows, if the task wants them; not after
        a processor, whose rows can be of other tables and operations."""
        is_alone = self._rows_per_record == 1 or self._routes.is_processed(rows.table.table.id)
        if is_alone or made.is_joined:
            return made.records
        # checked when the task file was read
        assert isinstance(self._converter, JoiningConverter)
        return many_rows(made.records, self._limits(made.topic), self._converter.joined)

    def _limits(self, topic: str) -> RecordLimits:
        """The limits of a topic's records of many rows."""
        if topic not in self._limits_of:
            self._limits_of[topic] = RecordLimits(
                self._topics.partitions(topic), self._rows_per_record, self._batch_bytes
            )
        return self._limits_of[topic]

    def push(self, has_more: Callable[[], bool]) -> bool:
        """Hands queued records to Kafka without waiting to fill batches, and waits briefly for the
        acknowledgements, until `has_more` says that there is something else to do: records that
        arrive meanwhile are sent together. Returns whether everything is acknowledged. If the task
        file sets linger.ms, batches are filled for that time instead. Raises as `send`."""
        is_done = False
        if self._is_prompt:
            for seconds in (PUSH_SECONDS,) * PUSHES + (SLOW_PUSH_SECONDS,) * SLOW_PUSHES:
                if is_done or has_more():
                    break
                is_done = not self._served(self.client.flush, seconds) and not self._refused
            self._raise_failure()
        return is_done

    def _of_ddl(self, ddl: TableDdl) -> Iterator[tuple[str, list[Record]]]:
        """Yields a record for each partition of each topic: rows that the statement concerns may
        follow in any of them. A TRUNCATE requires a single partition: readers of other partitions
        can be ahead, and would lose rows that were written after it. Raises UnreadableEvent if the
        topic has more."""
        if ddl.kind == TRUNCATE:
            for made in self._routes.truncate(ddl):
                partitions = self._topics.partitions(made.topic)
                if partitions > 1:
                    raise UnreadableEvent(_truncate_refused(ddl, made.topic, partitions))
                yield made.topic, made.records
            self.tables.setdefault(ddl.table, Counter())[Op.TRUNCATE] += 1
            return
        assert isinstance(self._converter, DdlConverter)  # checked when the task file was read
        for named in self._routes.ddl(ddl):
            topic = topic_of(named.table, self._config)
            value = self._converter.ddl_to_bytes(named)
            yield (
                topic,
                [
                    {"key": None, "value": value, "partition": number}
                    for number in range(self._topics.partitions(topic))
                ],
            )

    def start(self) -> None:
        super().start()
        self.logs.restart()

    def dropped(self, tables: Iterable[TableId]) -> None:
        """Notes that tables are gone at the source, each without a table's name a whole schema:
        the topics that are named after them may be deleted."""
        for table in tables:
            for name in self._routes.own_names(table):
                if name.table:
                    self.logs.dropped(plain_name(str(name)))
                else:
                    self.logs.dropped(plain_name(name.schema), is_schema=True)

    def committed(self) -> None:
        self.logs.committed()

    def _produce(self, topic: str, records: list[Record]) -> None:
        self.logs.sending(topic, len(records))
        super()._produce(topic, records)

    def _produce_all(self, waiting: dict[str, list[Record]]) -> None:
        for topic, records in waiting.items():
            self._produce(topic, records)

    def _on_too_large(self, refused: _Large) -> None:
        self.logs.refused(refused.record.topic)
        dead_letter_topic = self._config.dead_letter_topic
        sentence = self._refusal(refused.record.topic, refused.size_bytes, str(refused.record))
        if not dead_letter_topic:
            self._failure = BusRejected(f"{sentence}; {LARGE_REMEDY}")
            return
        LOG.error("%s; key and position go to topic %s", sentence, dead_letter_topic)
        if self._config.transactional_id:
            # A refused record ends its transaction: only a repeated one can do without it.
            self._dead.add(refused.record)
            self._dead_sizes.add(refused.size)
            self._failure = BusUnavailable(f"{sentence}; its transaction is repeated without it")
        else:
            self._produce_one(dead_letter_topic, dead_letter(self._task_id, *refused))

    def _add_code(self, columns: int) -> None:
        self._code += columns


def _truncate_refused(ddl: TableDdl, topic: str, partitions: int) -> str:
    return (
        f"{ddl.origin.file}:{ddl.origin.pos}: TRUNCATE of {ddl.table}, whose rows are spread over "
        f"{partitions} partitions of topic "
        f"{topic}: no order holds between them, so that targets would keep rows from before it or "
        "lose rows from after it. Once all before "
        "it is applied, empty the table at the targets, and continue with "
        "loader.source.truncate=false; a topic with one partition carries it"
    )
