"""Loads chunks of all tables in parallel. Each is a Spark job with one task, so that the end of
each is known when it happens, and no more are read at a time than the source should bear."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from threading import Condition, Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from cdcbus.consumer.batch.spark_beside import SparkBeside
from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.error_policy import Action, policy_of
from cdcbus.plugins.errors import CdcError, OffsetConflict, SourceUnavailable
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.chunks import (
    CHUNK_BYTES,
    FIRST_ROWS,
    MOST_ROWS,
    Bound,
    rows_for,
)
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import TableState
from cdcbus.producer.snapshot.reader import ChunkReader
from cdcbus.tasks.direct.chunks.chunk_loader import altered, load_chunk, reading
from cdcbus.tasks.direct.chunks.course import Chunk, Course, Loaded, Reader

if TYPE_CHECKING:
    from pyspark import SparkContext

LOG = logging.getLogger(__name__)
# Between two reports, each of which stores the progress.
STORE_SECONDS = 1.0
LOOK_SECONDS = 0.2
_Answer = TypeVar("_Answer")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 20.0


@dataclass(frozen=True, slots=True)
class Sourced:
    """The source of a table. `work`: the pickled Work of its chunks."""

    config: SourceConfig
    server: Server
    selected: SelectedTable
    work: bytes


def load_all(
    load: LoadTask,
    courses: Sequence[Course],
    sourced: Mapping[TableId, Sourced],
    spark: SparkBeside,
    readers: int,
    stop: Event,
    report: Callable[[], None],
    counts: dict[int, int],
) -> None:
    """Returns when all chunks are committed, or `stop` is set. Calls `report` once a second, on
    this thread. `counts`: how much each reader has committed, which grows before the progress of a
    chunk's table. Retries after temporary failures (an unavailable server, lost executors); raises
    any other error of a chunk."""
    session, _ = spark.session
    with ExitStack() as opened:
        pool = _Pool(load, courses, sourced, session.sparkContext, opened, stop, counts)
        pool.run(readers, report)


class _Pool:
    def __init__(
        self,
        load: LoadTask,
        courses: Sequence[Course],
        sourced: Mapping[TableId, Sourced],
        spark: SparkContext,
        opened: ExitStack,
        stop: Event,
        counts: dict[int, int],
    ) -> None:
        self._counts = counts
        self._opened, self._readers = opened, dict[str, ChunkReader]()
        self._load, self._courses, self._sourced = load, courses, sourced
        self._spark, self._stop = spark, stop
        self._changed, self._cutting = Condition(), Lock()
        self._chunks = self._cut()
        self._sizes: dict[TableId, Loaded] = {}
        self._failure: BaseException | None = None
        self._working = 0
        self._first_rows = FIRST_ROWS

    def run(self, readers: int, report: Callable[[], None]) -> None:
        # Only such threads inherit Spark's settings of the thread that starts them.
        from pyspark import InheritableThread

        self._working = readers
        threads = []
        for number in range(readers):
            thread = InheritableThread(
                self._work, args=(number,), name=f"chunks-{number}", daemon=True
            )
            thread.start()
            threads.append(thread)
        try:
            while not self._is_over():
                report()
        except CdcError as error:
            with self._changed:
                self._failure = self._failure or error
        if self._is_ending():
            # The JVM may have ended.
            with suppress(Exception):
                self._spark.cancelAllJobs()
        for thread in threads:
            while thread.is_alive():
                # One may wait for a lock at the source, or begin to after it was interrupted.
                if self._is_ending():
                    self._interrupt()
                thread.join(LOOK_SECONDS)
        if self._failure is not None and not self._stop.is_set():
            raise self._failure

    def _is_ending(self) -> bool:
        return self._stop.is_set() or self._failure is not None

    def _interrupt(self) -> None:
        for reader in tuple(self._readers.values()):
            reader.interrupt()

    def _is_over(self) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._working or self._is_ending(),
                STORE_SECONDS,
            )

    def _work(self, reader: int) -> None:
        try:
            while not self._stop.is_set() and self._failure is None:
                # A separate lock: an unavailable source delays only new chunks.
                with self._cutting:
                    found = next(self._chunks, None)
                if found is None:
                    return
                course, chunk = found
                loaded = self._surely(chunk, reader)
                if loaded is not None:
                    with self._changed:
                        self._counts[reader] = loaded.committed
                        self._sizes[chunk.table] = loaded
                        course.done(chunk, loaded)
        except BaseException as error:
            with self._changed:
                # The first failure is the cause; others mostly follow from it.
                self._failure = self._failure or error
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _surely(self, chunk: Chunk, reader: int) -> Loaded | None:
        """Loads a chunk, retrying temporary failures; None if the load ends first."""
        pause = FIRST_PAUSE
        while not self._stop.is_set() and self._failure is None:
            found = self._spark_job(chunk, Reader(reader, self._counts.get(reader, 0)))
            if isinstance(found, Loaded):
                return found
            # OffsetConflict means here that another process has the task, which no retry changes.
            if isinstance(found, OffsetConflict) or policy_of(found).action is not Action.RETRY:
                raise found
            LOG.warning("%s; chunk %d again in %g s", found, chunk.number, pause)
            self._stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return None

    def _spark_job(self, chunk: Chunk, by: Reader) -> Loaded | CdcError:
        work = self._sourced[chunk.table].work
        # One task: a failure of one chunk repeats no other.
        job: Any = self._spark.parallelize([(chunk, by)], 1).map(partial(load_chunk, work))
        try:
            [found] = job.collect()
        except Exception as error:
            from cdcbus.consumer.spark.spark_errors import spark_error

            return spark_error(self._load, error)
        assert isinstance(found, Loaded | CdcError)
        return found

    # Called by one thread at a time.

    def _cut(self) -> Iterator[tuple[Course, Chunk]]:
        number = 0
        for course in self._courses:
            if course.progress.state is TableState.DONE:
                continue
            selected = self._sourced[course.table].selected
            after, until = course.progress.after, course.progress.until
            if until is not None and after != until:
                self._first_rows = first_rows(self._ask(course.table, partial(_size, course.table)))
            while until is not None and after != until:
                find = partial(_end, selected, after, until, self._rows(course.table))
                end = self._ask(course.table, find)
                number += 1
                chunk = Chunk(course.table, number, after, end, selected.shape)
                with self._changed:
                    course.cut(chunk)
                yield course, chunk
                after = end
            # Chunks check on their own, but the table may have been altered after the last one.
            now = self._ask(course.table, partial(_now, course.table))
            if now is None or now.shape != selected.shape:
                raise altered(course.table)
            with self._changed:
                course.is_cut = True
                course.finish_if_done()

    def _ask(self, table: TableId, question: Callable[[ChunkReader], _Answer]) -> _Answer:
        """Asks the table's source, retrying while it is unavailable. Raises SourceUnavailable if
        the load ends first."""
        config, server = self._sourced[table].config, self._sourced[table].server
        pause = FIRST_PAUSE
        while True:
            try:
                with reading(table, config):
                    if server.identity not in self._readers:
                        reader = ChunkReader(config, server)
                        self._readers[server.identity] = self._opened.enter_context(closing(reader))
                    return question(self._readers[server.identity])
            except SourceUnavailable as error:
                # A new connection is made at the next attempt.
                self._readers.pop(server.identity, None)
                LOG.warning("%s; asking again in %g s", error, pause)
                if self._stop.wait(pause) or self._failure is not None:
                    raise
                pause = min(2 * pause, LONGEST_PAUSE)

    def _rows(self, table: TableId) -> int:
        size = self._sizes.get(table)
        if size is None:
            return self._first_rows
        # By the chunk that ended last, so that chunks keep their size where rows grow.
        return rows_for(CHUNK_BYTES, size.rows, size.bytes)


def _end(
    selected: SelectedTable, after: Bound | None, until: Bound, rows: int, reader: ChunkReader
) -> Bound:
    """The last key of a chunk of `rows` rows after `after`."""
    return reader.nth_key(selected, after, until, rows) or until


def _size(table: TableId, reader: ChunkReader) -> int:
    """The size of a row in bytes, as the server estimates it."""
    return reader.estimate(table)[1]


def first_rows(row_bytes: int) -> int:
    """The number of rows in a table's first chunks, before one shows how large its rows are."""
    if not row_bytes:
        return FIRST_ROWS
    return rows_for(CHUNK_BYTES, MOST_ROWS, MOST_ROWS * row_bytes)


def _now(table: TableId, reader: ChunkReader) -> SelectedTable | None:
    return reader.describe(table)
