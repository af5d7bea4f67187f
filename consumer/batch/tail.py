"""The tail gear: the driver reads records as they arrive in Kafka, with a native client, and
applies them immediately, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Event
from time import monotonic

from cdcbus.consumer.batch.added_partitions import AddedPartitions
from cdcbus.consumer.batch.batch_applier import BatchApplier
from cdcbus.consumer.batch.batch_size import BatchSize
from cdcbus.consumer.batch.kafka_reader import KafkaReader, ReadRecords
from cdcbus.consumer.batch.progress import is_done
from cdcbus.consumer.batch.topic_watch import TopicWatch
from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.log_context import TASK_AT_WORK

# How long a task without records to read takes to notice that it must stop.
WAIT_SECONDS = 1.0
LOOK_SECONDS = 1.0


def follow(
    task: LoadTask,
    batches: BatchApplier,
    size: BatchSize,
    watch: TopicWatch,
    stop: Event,
    is_too_much: Callable[[], bool],
) -> None:
    """Applies records as they arrive, until a backlog has built up and `is_too_much`, which is
    called for every backlog seen, returns true; until a bounded replay has reached its end; or
    until `stop` is set. Raises what is wrong with the topics, the target or the stored positions;
    nothing is lost then."""
    progress = batches.progress
    looked_at = monotonic()
    added = AddedPartitions(task, watch, progress)
    with (
        KafkaReader(task, progress.next_offsets, size.few_records) as reader,
        # Has a thread only once there is a backlog.
        ThreadPoolExecutor(1, "read-ahead", TASK_AT_WORK.set, (task.task_id,)) as reading,
    ):
        read_ahead: Future[ReadRecords] | None = None
        while not (stop.is_set() or is_done(task, progress)):
            # A partition may be waiting for the next record of another one, which had not arrived.
            is_from_all = size.is_held or len(progress.next_offsets) == 1
            read = partial(reader.read, WAIT_SECONDS, from_all=is_from_all)
            partitions, ends = read_ahead.result() if read_ahead else read()
            read_ahead = None
            count = bytes_ = 0
            for records in partitions.values():
                count += len(records)
                bytes_ += records.values.nbytes
            if ends:
                size.saw(count, bytes_)
            is_behind = size.is_backlog(reader.ahead())
            if ends:
                # Of a backlog the next records are read while these are applied.
                if is_behind:
                    read_ahead = reading.submit(read)
                is_applied = batches.apply_records(partitions, ends, is_held=not is_from_all)
                if not is_applied:
                    size.hold()
                    is_behind = False
                    _finish(read_ahead)
                    read_ahead = None
                    reader.go_back(progress.next_offsets)
            is_time_to_look = monotonic() - looked_at >= LOOK_SECONDS
            if is_time_to_look:
                looked_at = monotonic()
                batches.look_around()
                if (error := watch.look()) is not None:
                    raise error
                if new := added.due():
                    batches.scatter(new)
                    _finish(read_ahead)
                    read_ahead = None
                    reader.add(new)
                    # A single partition is read without record keys, and so without versions.
                    reader.go_back(progress.next_offsets)
            is_news = ends or is_time_to_look
            if is_news and is_behind and is_too_much():
                return


def _finish(read_ahead: Future[ReadRecords] | None) -> None:
    """Returns once nothing is read ahead any more: the reader is for one thread at a time. Raises
    the error of what was read ahead: the reader has taken records that it does not return."""
    if read_ahead:
        read_ahead.result()
