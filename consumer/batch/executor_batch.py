"""Partitions applied where Spark runs them: each Kafka partition is one Spark task, and its records
never come to the driver.

A partition's part of a batch comes as a stream, and is applied in slices: however many records it
has and however large they are, a few slices are in memory: one that is read, one that is decoded,
one that is written. Each slice is a transaction of the target with its offset. So a task that Spark
runs once more, as its executor was lost, goes on behind what has been committed; and one that was
only thought to be lost is undone, as the offset in the target is not the one that it has seen.
"""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain
from threading import Event
from time import monotonic
from traceback import walk_tb
from typing import Any

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
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.late import Begun, without_late
from cdcbus.consumer.records.records import NO_RECORDS, Records, topic_partition_of
from cdcbus.plugins.contracts import AppliedOffset
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.positions import TopicPartition

ARROW_BYTES = 4 << 20
FIRST_SLICE_BYTES, SLICE_BYTES = 3 << 20, 16 << 20
SLICES_AHEAD = 1
OUTCOME = StructType([StructField("outcome", BinaryType())])
TASKS = 8
"""Whose connections a Python worker keeps."""


@dataclass(frozen=True, slots=True)
class Span:
    """A partition's offsets from `start` to before `end`, read at the position of
    `position_version`; `low_watermark` and `is_hasty`: see Applier. `begun`: where epochs of fetch
    tasks began."""

    start: int
    end: int
    position_version: int
    low_watermark: int = 0
    is_hasty: bool = False
    begun: Begun = field(default_factory=dict)


def warm_up(spark: SparkSession, partitions: int) -> None:
    """Has Python workers started for so many partitions while Spark starts the query: that takes
    a second or two. Returns at once; what goes wrong is for the first batch to find out."""
    tasks = min(partitions, spark.sparkContext.defaultParallelism)

    def start() -> None:
        with suppress(Exception):
            spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(
                no_outcome
            )._jrdd.count()

    InheritableThread(start, name="warm-up", daemon=True).start()


class Executors:
    """Applies the micro-batches of one task. Not thread-safe."""

    def __init__(self, task: LoadTask, applier: Applier) -> None:
        """`applier` is the driver's, which does what no executor has a part of."""
        self._task, self._applier = pickle.dumps(task), applier

    def apply(self, frame: DataFrame, spans: Mapping[TopicPartition, Span]) -> list[Outcome]:
        """Of each partition; what is `same_in_all` of them may be left out of the frame. What the
        executors had to say is in the log then. Raises what one of them has met: nothing is
        known then of how far any partition has been applied, but by the target."""
        frame.sparkSession.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(ARROW_BYTES))
        self._applier.let_go()
        seen = {
            partition: offset
            for partition, offset in self._applier.seen.items()
            if partition in spans
        }
        rows = map_in_arrow(
            frame, partial(apply_partition, self._task, dict(spans), seen)
        ).collect()
        outcomes: list[Outcome] = [pickle.loads(row.outcome) for row in rows]
        for outcome in outcomes:
            for name, level, text in outcome.log:
                logging.getLogger(name).log(level, "%s", text)
        for outcome in outcomes:
            if outcome.error:
                raise outcome.error
            if outcome.seen:
                self._applier.seen[outcome.partition] = outcome.seen
        # transaction markers only
        for partition in spans.keys() - {outcome.partition for outcome in outcomes}:
            span = spans[partition]
            outcomes.append(
                Outcome(
                    partition,
                    span.end,
                    self._applier.apply(partition, NO_RECORDS, span.end, span.position_version),
                )
            )
        return outcomes


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """What `DataFrame.mapInArrow` does, which asks for pandas though it has no need of it."""
    mapped: Any = UserDefinedFunction(
        function, OUTCOME, "apply_partition", PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    return DataFrame(
        frame._jdf.mapInArrow(mapped(*(frame[name] for name in frame.columns))._jc, False, None),
        frame.sparkSession,
    )


# In an executor's Python worker, which applies one partition after the other, of whichever task.


def no_outcome(_: Iterable[int]) -> Iterator[bytes]:
    """That a worker knows this function means that it has loaded what the next one needs."""
    return iter(())


def apply_partition(
    pickled: bytes,
    spans: Mapping[TopicPartition, Span],
    seen: Mapping[TopicPartition, AppliedOffset],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    task: LoadTask = pickle.loads(pickled)
    slices = _slices(batches, task.max_records_per_batch)
    first = next(slices, None)
    if first is None:
        return
    partition = topic_partition_of(first, spans)
    if partition not in spans:  # a bounded replay has all it wants of this one, while others go on
        return
    outcome = Outcome(partition, spans[partition].start, begun=spans[partition].begun)
    with _kept_log(outcome.log):
        try:
            _apply(
                _applier(pickled),
                outcome,
                spans[partition],
                seen,
                chain([first], slices),
                task.converter,
            )
        except CdcError as error:
            outcome.error = error
        except Exception as error:  # its text may hold cells
            *_, (frame, line) = walk_tb(error.__traceback__)
            where = f"{frame.f_code.co_filename}:{line}"
            outcome.error = CdcError(
                f"task {task.task_id}: {partition} failed on an executor: "
                f"{type(error).__name__} at {where}"
            )
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(outcome)], pa.binary())], ["outcome"])


def _slices(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """The records in order, as many at once as may be one transaction. The first are few, so
    that all hands are soon at work."""
    parts: list[pa.RecordBatch] = []
    size = FIRST_SLICE_BYTES
    for batch in batches:
        for start in range(0, len(batch), most):
            parts.append(batch.slice(start, most))
            if sum(map(len, parts)) >= most or sum(part.nbytes for part in parts) >= min(
                size, SLICE_BYTES
            ):
                yield pa.Table.from_batches(parts)
                parts, size = [], 2 * size
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
    try:
        _begin(applier, outcome, span, seen)
        _apply_slices(applier, outcome, span, slices, converter)
        outcome.seen = applier.seen.get(outcome.partition)
    finally:
        applier.let_go()


def _begin(
    applier: Applier, outcome: Outcome, span: Span, seen: Mapping[TopicPartition, AppliedOffset]
) -> None:
    """Where the target has committed a part of the span, an executor was lost meanwhile: the
    partition goes on behind it. Else it holds what the driver has seen, or the first transaction
    finds that it does not."""
    applier.begin(outcome.partition, seen.get(outcome.partition))
    found = applier.seen.get(outcome.partition)
    known = seen.get(outcome.partition)
    is_ours = found is not None and (found.epoch, found.position_version) == (
        known.epoch if known else 0,
        span.position_version,
    )
    if found and is_ours and span.start < found.next_offset <= span.end:
        outcome.end, outcome.last = found.next_offset, found.details.last
    else:
        applier.seen = dict(seen)


def _apply_slices(
    applier: Applier, outcome: Outcome, span: Span, slices: Iterable[pa.Table], converter: str
) -> None:
    """One is written while the next is decoded and the one after that is read. After
    TURN_SECONDS, or twice TURN_BYTES, the partition leaves the rest of the batch for later."""
    partition, at, began = outcome.partition, outcome.end, monotonic()

    def write(
        records: Records,
        prepared: Future[Callable[[int, int, int, bool], BatchReport]],
        begin: int,
        end: int,
        late: int = 0,
    ) -> None:
        # else the one before has failed, or waits, and says why
        if outcome.end == begin and not outcome.waits:
            outcome.take(
                partial(
                    prepared.result(),
                    end,
                    span.position_version,
                    span.low_watermark,
                    span.is_hasty,
                ),
                end,
                records,
            )
            outcome.report.late += late

    with ThreadPoolExecutor(1, "prepare") as preparing, ThreadPoolExecutor(1, "write") as writing:
        written: deque[Future[None]] = deque()
        for part in slices:
            records = Records.of(part)
            end = min(records.offsets[-1].as_py() + 1, span.end)
            if end > at:
                outcome.report.came(*records.kafka_times())
                left = records.before(end)[len(records.before(at)) :]
                left, late = without_late(partition, left, converter, outcome.begun)
                written.append(
                    writing.submit(
                        write,
                        left,
                        preparing.submit(applier.prepare, partition, left),
                        at,
                        end,
                        len(late),
                    )
                )
                at = end
            outcome.value_bytes += part.column("value").nbytes
            if len(written) > SLICES_AHEAD:
                written.popleft().result()
            if (
                outcome.waits
                or outcome.value_bytes >= 2 * TURN_BYTES
                or monotonic() - began > TURN_SECONDS
            ):
                break
        else:
            if at < span.end:  # transaction markers, which are no records
                written.append(
                    writing.submit(
                        write,
                        NO_RECORDS,
                        preparing.submit(applier.prepare, partition, NO_RECORDS),
                        at,
                        span.end,
                    )
                )
        for future in written:
            future.result()
    outcome.seconds = monotonic() - began


@lru_cache(TASKS)
def _applier(pickled: bytes) -> Applier:
    task: LoadTask = pickle.loads(pickled)

    def put_dead_letters(dead_letters: Sequence[DeadLetter]) -> None:
        with DeadLetterTopic(task) as topic:
            topic.open()  # other executors may have put some, too
            topic.put(dead_letters)

    return make_applier(task, Event(), None if task.on_error is OnError.STOP else put_dead_letters)


@contextmanager
def _kept_log(kept: list[tuple[str, int, str]]) -> Iterator[None]:
    """What is logged inside the block, from INFO on."""

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append((record.name, record.levelno, record.getMessage()))

    logger, keeper = logging.getLogger("cdcbus"), Keeper(logging.INFO)
    logger.setLevel(logging.INFO)
    logger.addHandler(keeper)
    try:
        yield
    finally:
        logger.removeHandler(keeper)
