"""The tail gear: the driver reads records as they arrive in Kafka, with a native client, and
applies them immediately, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import monotonic

from cdcbus.consumer.batch.batch_applier import BatchApplier
from cdcbus.consumer.batch.batch_size import BatchSize
from cdcbus.consumer.batch.kafka_reader import KafkaReader
from cdcbus.consumer.batch.progress import is_done
from cdcbus.consumer.batch.topic_watch import TopicWatch
from cdcbus.consumer.config import LoadTask

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
    with KafkaReader(task, progress.next_offsets, size.few_records) as reader:
        while not (stop.is_set() or is_done(task, progress)):
            # A partition may be waiting for the next record of another one, which had not arrived.
            is_from_all = size.is_held or len(progress.next_offsets) == 1
            partitions, ends = reader.read(WAIT_SECONDS, from_all=is_from_all)
            if ends:
                count = bytes_ = 0
                for records in partitions.values():
                    count += len(records)
                    bytes_ += records.values.nbytes
                size.saw(count, bytes_)
                if not batches.apply_records(partitions, ends, is_held=not is_from_all):
                    size.hold()
                    reader.go_back(progress.next_offsets)
            is_time_to_look = monotonic() - looked_at >= LOOK_SECONDS
            if is_time_to_look:
                looked_at = monotonic()
                batches.look_around()
                if (error := watch.look()) is not None:
                    raise error
                if new := watch.new_partitions():
                    batches.scatter(new)
                    reader.add(new)
            is_news = ends or is_time_to_look
            if is_news and size.is_backlog(reader.ahead()) and is_too_much():
                return
