"""Spark's Kafka source: the offsets from which it reads, how much, and how far it has read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import unix_millis
from pyspark.sql.streaming.query import StreamingQuery

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.spark.jvm_folder import whole_path
from cdcbus.consumer.spark.settings import is_cluster
from cdcbus.consumer.spark.spark_errors import unwritable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition

# The size of a fetch, for the clients of all partitions together.
FETCH_BYTES = 64 << 20
COLUMNS = ("topic", "partition", "offset", "value")


def kafka_stream(
    spark: SparkSession, task: LoadTask, offsets: Mapping[TopicPartition, int], batch_records: int
) -> DataFrame:
    """A stream of topic, partition, offset, value and kafka_ms, the time when a record arrived in
    Kafka, from `offsets` on; only committed records. Includes headers where the task forwards them,
    or keys where a target's row can have records in several partitions.

    Partitions listed by the task are assigned, and those of a task that forwards records, which
    reads new ones only after the others. Otherwise new partitions of the topics are found, and read
    from their beginning.
    """
    is_forwarding = isinstance(task.target, PublishConfig)
    if task.source.partitions or is_forwarding:
        assigned: dict[str, list[int]] = {}
        for topic, number in offsets:
            assigned.setdefault(topic, []).append(number)
        chosen = {"assign": orjson.dumps(assigned).decode()}
    else:
        chosen = {"subscribe": ",".join(task.source.topics)}
    options = {
        **_fetching(len(offsets), batch_records),
        **_client_options(spark, task),
        "kafka.bootstrap.servers": task.source.servers,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": _offsets_json(offsets),
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(batch_records),
        **chosen,
    }
    more = []
    if is_forwarding:
        options["includeHeaders"] = "true"
        more = ["headers"]
    elif len(offsets) > 1:
        more = ["key"]
    read = spark.readStream.format("kafka").options(**options).load()
    return read.select(*COLUMNS, unix_millis("timestamp").alias("kafka_ms"), *more)


def _client_options(spark: SparkSession, task: LoadTask) -> dict[str, str]:
    """Without executors, the files that they name are in the caller's folder. Executors look for
    them in folders of their own."""
    is_local = not is_cluster(str(spark.sparkContext.master))
    options = {}
    for key, value in task.source.kafka_options.items():
        is_file = is_local and key.endswith(".location")
        options[f"kafka.{key}"] = whole_path(value) if is_file else value
    return options


@contextmanager
def fresh_checkpoint(scratch: Path, offsets: Mapping[TopicPartition, int]) -> Iterator[Path]:
    """A new checkpoint for the length of a block, with the offsets at which its query begins, see
    `begin_at`. Raises SparkUnavailable where it cannot be written."""
    with ExitStack() as stack:
        try:
            # Deleted after each query, as there can be many in a day.
            made = TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
            begin_at(folder, offsets)
        except OSError as error:
            raise unwritable(scratch, error) from error
        yield folder


def begin_at(checkpoint: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Writes the offsets at which the query begins into a new checkpoint, as Spark does at a first
    start. They take precedence over the stream's `startingOffsets`.

    Without them Spark first asks Kafka for the partitions, which takes a tenth of a second, and
    fails where they are not these; with them, Spark finds new ones with its first batch.
    """
    file = checkpoint / "sources" / "0" / "0"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\0v1\n" + _offsets_json(offsets).encode())


def _offsets_json(offsets: Mapping[TopicPartition, int]) -> str:
    topics: dict[str, dict[str, int]] = {}
    for (topic, number), offset in offsets.items():
        topics.setdefault(topic, {})[str(number)] = offset
    return orjson.dumps(topics).decode()


def _fetching(partitions: int, batch_records: int) -> dict[str, str]:
    """The fetch settings of the Kafka clients, one for each partition."""
    # LZ4 can have packed a poll's records 250 times smaller. 64 MB for all clients fit into 1 GB of
    # heap, and so do the records that 512 KB unpack to.
    share = FETCH_BYTES // max(1, partitions)
    fetch_bytes = min(512 << 10, max(256 << 10, share))
    # More records in a poll are faster, as Spark asks for a partition's first and last offset with
    # each poll.
    poll_records = min(8000, max(16, batch_records // 128))
    return {
        # Those two requests wait for the client's next fetch, which it sends as soon as it has some
        # records.
        "kafka.fetch.max.wait.ms": "1",
        "kafka.max.partition.fetch.bytes": str(fetch_bytes),
        "kafka.max.poll.records": str(poll_records),
    }


def end_offsets(query: StreamingQuery) -> dict[TopicPartition, int]:
    """The offset after the last record of the micro-batch in progress, per partition, transaction
    markers included. Must be called from within the micro-batch."""
    # The data frame does not hold the source's offsets.
    progress: Any = query._jsq.streamingQuery().availableOffsets()
    found = orjson.loads(progress.values().head().json())
    ends: dict[TopicPartition, int] = {}
    for topic, offsets in found.items():
        for number, offset in offsets.items():
            ends[TopicPartition(topic, int(number))] = offset
    return ends
