"""Training run for the CDS archive, see `jvm/cds_archive.py`: exercises the Spark code paths of a
consumer task, without Kafka or a target, so that the JVM can archive the classes they load.

A program: `python -m cdcbus.consumer.cds_training FILE` writes the archive.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cdcbus.consumer.batch.executor_batch import map_in_arrow
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.jvm.cds_archive import MAPPED
from cdcbus.consumer.jvm.maven import kafka_connector_jars
from cdcbus.consumer.spark.kafka_stream import begin_at, kafka_stream
from cdcbus.consumer.spark.session import spark_session
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.positions import TopicPartition

NOBODY = "127.0.0.1:9"
# Makes Kafka's client give up quickly.
AT_ONCE = {"default.api.timeout.ms": "1000", "request.timeout.ms": "500"}
COLUMNS = (
    "'topic' AS topic",
    "0 AS partition",
    "value AS offset",
    "binary(string(value)) AS value",
    "value AS kafka_ms",
)


def main(file: Path) -> None:
    """Returns when Java has written the archive and ended. Raises CdcError, PySparkException."""
    options = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={file} {MAPPED}"}
    source = TopicConfig(NOBODY, ("training",), kafka_options=AT_ONCE)
    task = LoadTask(
        "training", source, "canalRow", "JdbcBatch", JdbcTarget(""), spark_options=options
    )
    with spark_session(task, Event()) as (spark, scratch):
        java: Any = spark.sparkContext._gateway
        _read_batches(spark, scratch)
        _look_for_kafka(spark, scratch, task)
        _load(java.jvm, kafka_connector_jars())
    java.shutdown()
    java.proc.stdin.close()
    code = java.proc.wait()
    if code:
        raise CdcError(f"Java ended with exit code {code}")


def _read_batches(spark: SparkSession, scratch: Path) -> None:
    """Reads micro-batches through a Python worker."""

    def read(frame: DataFrame, _: int) -> None:
        map_in_arrow(frame, _outcome).collect()

    source = spark.readStream.format("rate-micro-batch")
    stream = source.options(rowsPerBatch="32", numPartitions="1").load()
    writer = stream.selectExpr(*COLUMNS).writeStream.foreachBatch(read).trigger(availableNow=True)
    _run_to_end(writer, scratch / "batches")


def _run_to_end(writer: DataStreamWriter, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", checkpoint.as_uri()).start()
    query.awaitTermination()


def _outcome(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_arrays([pa.array([b""], pa.binary())], ["outcome"])


def _look_for_kafka(spark: SparkSession, scratch: Path, task: LoadTask) -> None:
    offsets = {TopicPartition("training", 0): 0}
    begin_at(scratch / "kafka", offsets)
    stream = kafka_stream(spark, task, offsets, 1)
    writer = stream.writeStream.foreachBatch(lambda frame, number: None)
    with suppress(StreamingQueryException):
        _run_to_end(writer, scratch / "kafka")


def _load(java: Any, jars: Iterable[Path]) -> None:
    """Loads the classes of the jars, as without a Kafka most of the code that reads from it has not
    run. Skips classes that cannot be loaded."""
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        with ZipFile(jar) as contents:
            files = contents.namelist()
        for file in files:
            if file.endswith(".class"):
                name = file.removesuffix(".class").replace("/", ".")
                with suppress(Py4JJavaError):
                    java.java.lang.Class.forName(name, False, loader)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (CdcError, PySparkException) as error:
        sys.exit(str(error))
