"""Applies partitions on Spark executors: each Kafka partition is one Spark task, and its records
never reach the driver.

A partition's part of a batch arrives as a stream, and is applied in slices. However many records it
has and however large they are, only a few slices are in memory: one is read, one decoded, one
written. Each slice is a transaction of the target with its offset. So a Spark task that is repeated
because its executor was lost resumes after the last commit; and the task of an executor that was
only presumed lost is undone, as the offset in the target is not the one that it has seen.
"""

from __future__ import annotations

import logging
import pickle
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from threading import Event
from time import monotonic
from traceback import walk_tb
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from cdcbus.consumer.batch.batch_size import TURN_BYTES, TURN_SECONDS
from cdcbus.consumer.batch.outcome import Outcome
from cdcbus.consumer.batch.sink import Applier, make_applier
from cdcbus.consumer.config import LoadTask, OnError
from cdcbus.consumer.records.batch_report import WritePrepared
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.late import Begun, learn, without_late
from cdcbus.consumer.records.records import NO_RECORDS, Records, topic_partition_of
from cdcbus.consumer.spark.settings import is_cluster
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget
from cdcbus.plugins.error_policy import NO_THREAD, NO_THREADS, policy_of
from cdcbus.plugins.errors import CdcError, SparkUnavailable
from cdcbus.plugins.files.file_times import all_read, note_all_read
from cdcbus.plugins.files.taken_texts import all_taken, begin_task
from cdcbus.plugins.kafka.dead_letter_sender import UnsentLetters
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId

LOG = logging.getLogger(__name__)
ARROW_BYTES = 4 << 20
FIRST_SLICE_BYTES = 3 << 20
SLICE_BYTES = 16 << 20
SLICES_AHEAD = 1
OUTCOME = StructType([StructField("outcome", BinaryType())])
# The number of tasks whose connections a Python worker keeps.
TASKS = 8


@dataclass(frozen=True, slots=True)
class Span:
    """A partition's offsets from `start` to before `end`."""

    start: int
    end: int
    # For these three see Applier.apply.
    position_version: int
    low_watermark: int = 0
    is_hasty: bool = False
    # Where the epochs of fetch tasks began.
    begun: Begun = field(default_factory=dict)
    # The driver's `ArrivalClock.now_ms`: an executor begins anew with each run, and would wait for
    # ever if it began to count then.
    now_ms: int = 0
    # The driver's `Applier.scattered`.
    scattered: frozenset[TableId | None] = frozenset()


class TaskRun(NamedTuple):
    """A task as executors receive it."""

    # New each time that the driver begins to use executors: their Python workers outlive a task's
    # run, and the target can be altered in between.
    run_id: str
    task: bytes
    # As `file_times.all_read` of the driver: a Python worker may be a new process. Nothing on a
    # cluster, whose machines have files of their own.
    files_read: Mapping[frozenset[str], dict[str, int]]
    # As `taken_texts.all_taken` of the driver. Nothing on a cluster: they leave no machine.
    texts_taken: Mapping[tuple[str, str], str]


def warm_up(spark: SparkSession, partitions: int) -> None:
    """Starts Python workers for these partitions while Spark starts the query, which takes a second
    or two. Returns immediately; an error is left to the first batch to report."""
    tasks = min(partitions, spark.sparkContext.defaultParallelism)

    def start() -> None:
        try:
            numbers = spark.sparkContext.parallelize(range(tasks), tasks)
            numbers.mapPartitions(no_outcome)._jrdd.count()
        except Exception:
            LOG.debug("no Python worker was started ahead", exc_info=True)

    InheritableThread(start, name="warm-up", daemon=True).start()


class Executors:
    """Applies the micro-batches of one task. Not thread-safe."""

    def __init__(self, task: LoadTask, applier: Applier) -> None:
        """`applier` is the driver's, for what needs no executor; it has taken the target over."""
        if applier.keeps_offsets and isinstance(task.target, JdbcTarget):
            task = replace(task, target=replace(task.target, needs_offsets=True))
        is_beside = not is_cluster(task.spark_master)
        self._run = TaskRun(
            uuid4().hex,
            pickle.dumps(task),
            all_read() if is_beside else {},
            all_taken() if is_beside else {},
        )
        self._applier = applier

    @property
    def are_fenced(self) -> bool:
        """Whether the target refuses what executors still write of a batch that was cancelled, once
        another attempt has begun."""
        return self._applier.commits_offsets

    def apply(self, frame: DataFrame, spans: Mapping[TopicPartition, Span]) -> list[Outcome]:
        """Applies the spans, writes the executors' log lines, and returns each partition's outcome.
        Columns that are `same_in_all` partitions can be missing in the frame. Raises the first
        executor's error; then only the target knows how far each partition has been applied."""
        frame.sparkSession.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(ARROW_BYTES))
        self._applier.let_go()
        apply = partial(apply_partition, self._run, dict(spans), dict(self._applier.seen))
        rows = map_in_arrow(frame, apply).collect()
        outcomes: list[Outcome] = [pickle.loads(row.outcome) for row in rows]
        for outcome in outcomes:
            for name, level, text in outcome.log:
                logging.getLogger(name).log(level, "%s", text)
        for outcome in outcomes:
            self._applier.add_scattered(outcome.scattered)
            if outcome.seen:
                self._applier.seen[outcome.partition] = outcome.seen
        for outcome in outcomes:
            if outcome.error:
                raise outcome.error
        # Partitions without an outcome have transaction markers only, which Spark does not return:
        # the driver moves their offsets.
        for partition in spans.keys() - {outcome.partition for outcome in outcomes}:
            end = spans[partition].end
            version = spans[partition].position_version
            report = self._applier.apply(partition, NO_RECORDS, end, version)
            outcomes.append(Outcome(partition, end, report))
        return outcomes


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """Does the same as `DataFrame.mapInArrow`, which requires pandas without using it."""
    mapped: Any = UserDefinedFunction(
        function, OUTCOME, "apply_partition", PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    columns = [frame[name] for name in frame.columns]
    rows = frame._jdf.mapInArrow(mapped(*columns)._jc, False, None)
    return DataFrame(rows, frame.sparkSession)


# From here on: in an executor's Python worker, which applies one partition after the other, of any
# task.


def no_outcome(_: Iterable[int]) -> Iterator[bytes]:
    """Returns nothing, for `warm_up`: to unpickle this function, a worker imports this module, and
    with it everything that `apply_partition` needs."""
    return iter(())


def apply_partition(
    run: TaskRun,
    spans: Mapping[TopicPartition, Span],
    seen: Mapping[TopicPartition, AppliedOffset],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Applies one partition's records, and yields one row with its pickled `Outcome`, errors
    included; nothing where there are no records or the partition has no span."""
    task: LoadTask = pickle.loads(run.task)
    note_all_read(run.files_read)
    begin_task(run.texts_taken)
    slices = _slices(batches, task.max_records_per_batch)
    first = next(slices, None)
    if first is None:
        return
    partition = topic_partition_of(first, spans)
    if partition not in spans:
        # A bounded replay has finished this partition, but not others.
        return
    span = spans[partition]
    outcome = Outcome(partition, span.start, begun=span.begun)
    with _kept_log(outcome.log):
        try:
            all_slices = chain([first], slices)
            _apply(_applier(run, task), outcome, span, seen, all_slices, task.converter)
        except CdcError as error:
            outcome.error = error
        except Exception as error:
            # Only its type and line: its text can hold cells.
            *_, (frame, line) = walk_tb(error.__traceback__)
            where = f"{frame.f_code.co_filename}:{line}"
            kind, reason = CdcError, type(error).__name__
            if policy_of(error) is NO_THREADS:
                kind, reason = SparkUnavailable, f"{NO_THREAD}, look at its limits,"
            outcome.error = kind(
                f"task {task.task_id}: {partition} failed on an executor: {reason} at {where}"
            )
    pickled_outcome = pa.array([pickle.dumps(outcome)], pa.binary())
    yield pa.RecordBatch.from_arrays([pickled_outcome], ["outcome"])


def _slices(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Yields the records in order, in slices that fit into one transaction. The first slices are
    small, so that reading, decoding and writing soon run side by side."""
    parts: list[pa.RecordBatch] = []
    count = bytes_ = 0
    slice_bytes = min(FIRST_SLICE_BYTES, SLICE_BYTES)
    for batch in batches:
        for start in range(0, len(batch), most):
            part = batch.slice(start, most)
            parts.append(part)
            count += len(part)
            bytes_ += part.nbytes
            if count >= most or bytes_ >= slice_bytes:
                yield pa.Table.from_batches(parts)
                parts = []
                count = bytes_ = 0
                slice_bytes = min(2 * slice_bytes, SLICE_BYTES)
    if parts:
        yield pa.Table.from_batches(parts)


def _apply(
    applier: Applier,
    outcome: Outcome,
    span: Span,
    seen: Mapping[TopicPartition, AppliedOffset],
    slices: Iterable[pa.Table],
    converter: str,
) -> None:
    applier.arrivals.saw(span.now_ms)
    applier.epochs.follow(outcome.partition, span.begun, span.start)
    try:
        _begin(applier, outcome, span, seen)
        _apply_slices(applier, outcome, span, slices, converter)
        outcome.seen = applier.seen.get(outcome.partition)
    finally:
        # What was committed before an error counts, too.
        outcome.scattered = applier.scattered
        applier.epochs.leave(outcome.partition)
        applier.let_go()


def _begin(
    applier: Applier, outcome: Outcome, span: Span, seen: Mapping[TopicPartition, AppliedOffset]
) -> None:
    """Looks at the target's offset. Where it has committed a part of the span, an executor was lost
    meanwhile: the partition resumes after that part. Otherwise the target holds the offset that the
    driver has seen, or the first transaction finds that it does not."""
    known = seen.get(outcome.partition)
    applier.begin(outcome.partition, seen)
    applier.add_scattered(span.scattered)
    found = applier.seen.get(outcome.partition)
    if found and span.start < found.next_offset <= span.end:
        epoch = known.epoch if known else 0
        if (found.epoch, found.position_version) == (epoch, span.position_version):
            outcome.end = found.next_offset
            outcome.last = found.details.last
            return
    applier.seen = dict(seen)


def _apply_slices(
    applier: Applier, outcome: Outcome, span: Span, slices: Iterable[pa.Table], converter: str
) -> None:
    """Writes one slice while the next is decoded and the one after that is read. After
    TURN_SECONDS, or twice TURN_BYTES, the partition leaves the rest of the batch for later."""
    partition = outcome.partition
    at = outcome.end
    began = monotonic()

    def write(
        records: Records,
        prepared: Future[WritePrepared],
        begin: int,
        end: int,
        late: int = 0,
    ) -> None:
        # The former slice has failed or waits, and says why.
        if outcome.end != begin or outcome.waits:
            return
        apply = prepared.result()
        write_it = partial(apply, end, span.position_version, span.low_watermark, span.is_hasty)
        outcome.take(write_it, end, records)
        outcome.report.late += late

    with ThreadPoolExecutor(1, "prepare") as preparing, ThreadPoolExecutor(1, "write") as writing:
        written: deque[Future[None]] = deque()
        for part in slices:
            records = Records.of(part)
            end = min(records.offsets[-1].as_py() + 1, span.end)
            # By an executor that was lost, and with it what it knew of epochs.
            committed = records.before(at)
            learn(committed, converter, outcome.begun)
            if end > at:
                outcome.report.came(*records.kafka_times())
                left = records.before(end)[len(committed) :]
                left, late = without_late(partition, left, converter, outcome.begun)
                applier.epochs.add(partition, outcome.begun)
                prepared = preparing.submit(applier.prepare, partition, left)
                written.append(writing.submit(write, left, prepared, at, end, len(late)))
                at = end
            outcome.value_bytes += part.column("value").nbytes
            if len(written) > SLICES_AHEAD:
                written.popleft().result()
            is_turn_over = (
                outcome.value_bytes >= 2 * TURN_BYTES or monotonic() - began > TURN_SECONDS
            )
            # What is committed is read to its end, as it shows which records after it are late.
            if outcome.waits or (is_turn_over and end >= at):
                break
        else:
            if at < span.end:
                # The span ends with transaction markers, which are no records.
                prepared = preparing.submit(applier.prepare, partition, NO_RECORDS)
                written.append(writing.submit(write, NO_RECORDS, prepared, at, span.end))
        for future in written:
            future.result()
    outcome.seconds = monotonic() - began


_appliers = OrderedDict[str, tuple[TaskRun, Applier]]()
# By task: each attempt of a driver is another run, with another applier.
_unsent_letters: dict[str, UnsentLetters] = {}


def _applier(run: TaskRun, task: LoadTask) -> Applier:
    """The applier of this run of the task. What a former run knew of the target, such as its
    columns and keys, can have changed."""
    former_run, applier = _appliers.pop(task.task_id, (None, None))
    if applier is None or former_run != run:
        if applier is not None:
            applier.close()
        applier = _new_applier(task)
    _appliers[task.task_id] = run, applier
    if len(_appliers) > TASKS:
        _, (_, oldest) = _appliers.popitem(last=False)
        oldest.close()
    return applier


def _new_applier(task: LoadTask) -> Applier:
    def put_dead_letters(dead_letters: Sequence[DeadLetter]) -> None:
        unsent = _unsent_letters.setdefault(task.task_id, set())
        with DeadLetterTopic(task, unsent) as topic:
            # Counts the open ones, as other executors may have put some meanwhile.
            topic.open()
            topic.put(dead_letters)

    if task.on_error is OnError.STOP:
        return make_applier(task, Event())
    return make_applier(task, Event(), put_dead_letters)


@contextmanager
def _kept_log(kept: list[tuple[str, int, str]]) -> Iterator[None]:
    """Adds to `kept` what is logged inside the block, from INFO on."""

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append((record.name, record.levelno, record.getMessage()))

    logger = logging.getLogger("cdcbus")
    keeper = Keeper(logging.INFO)
    logger.setLevel(logging.INFO)
    logger.addHandler(keeper)
    try:
        yield
    finally:
        logger.removeHandler(keeper)
