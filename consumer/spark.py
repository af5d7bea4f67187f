"""The Spark session and its Kafka source."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import orjson
from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdcbus.consumer.jars import kafka_connector_jars
from cdcbus.consumer.offsets import Lane
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.errors import BusRejected, BusUnavailable, CdcError

LOG = logging.getLogger(__name__)
# What a call to Spark raises once its JVM has ended, for example by a signal to the whole process group.
JVM_ENDED = (Py4JError, ConnectionError, PySparkRuntimeError)
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

_SCRATCH = "cdcbus-spark-"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# Small plans, one output: no web page, no adaptive planning, no shuffles. A query without new records asks Kafka ten times a second.
_SETTINGS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "FATAL",
}


@contextmanager
def spark_session(task: LoadTask, stop: Event) -> Iterator[tuple[SparkSession, Path]]:
    """A Spark application of the task's own, and an empty folder for its checkpoints. Both are gone at the end.

    A task file's `spark.*` keys override the settings above; its Java options are added. Raises ConfigError when Java or the Kafka
    connector are missing.
    """
    jars = kafka_connector_jars()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    _remove_leftovers()
    scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))
    settings = {
        **_SETTINGS,
        "spark.app.name": f"cdcbus task {task.task_id}",
        "spark.jars": ",".join(map(str, jars)),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **task.spark_options,
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()} {task.spark_options.get(_JAVA_OPTIONS, '')}",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    with _filtered_stderr(stop):
        spark = builder.getOrCreate()
    signal.signal(signal.SIGINT, on_interrupt)  # Spark has put its own in place; how a task stops is decided elsewhere
    try:
        yield spark, scratch
    finally:
        with suppress(*JVM_ENDED):
            spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _remove_leftovers() -> None:
    """Scratch folders of tasks that were killed: their name tells the process, which is no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        pid = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# What every JVM of Spark says at its start.
_GREETINGS = (b"WARNING: Using incubator modules", b"Setting default log level", b"To adjust logging level", b"Setting Spark log level")


@contextmanager
def _filtered_stderr(stop: Event) -> Iterator[None]:
    """A process started inside writes to our stderr through a filter, for as long as it lives: no greetings, nothing while it is ended."""
    reading, writing = os.pipe()
    ours = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    Thread(target=_copy_lines, args=(reading, ours, stop), name="spark-stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(ours, 2)


def _copy_lines(reading: int, writing: int, stop: Event) -> None:
    with open(reading, "rb") as lines, open(writing, "wb", buffering=0) as stderr:
        for line in lines:
            if line.strip() and not line.startswith(_GREETINGS) and not stop.is_set():
                stderr.write(line)


def kafka_stream(spark: SparkSession, task: LoadTask, offsets: Mapping[Lane, int]) -> DataFrame:
    """A stream of topic, partition, offset and value, from `offsets` on; only committed records.

    With a chosen partition it is assigned, else new partitions of the topics are found and read from their beginning.
    """
    starting: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        starting.setdefault(topic, {})[str(partition)] = offset
    if task.source.partition is None:
        chosen = {"subscribe": ",".join(task.source.topics)}
    else:
        chosen = {"assign": orjson.dumps({topic: [task.source.partition] for topic in task.source.topics}).decode()}
    options = {
        "kafka.fetch.max.wait.ms": "5",
        **{f"kafka.{key}": value for key, value in task.source.kafka_options.items()},
        "kafka.bootstrap.servers": task.source.servers,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": orjson.dumps(starting).decode(),
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(task.max_records_per_batch),
        **chosen,
    }
    return spark.readStream.format("kafka").options(**options).load().select("topic", "partition", "offset", "value")


# Spark writes two small files per batch to remember its progress. The checkpoint is thrown away, ZooKeeper holds the position: so they
# may be written behind. The second is Spark's switch to allow that for a sink other than Kafka.
ASYNCHRONOUS_PROGRESS = {"asyncProgressTrackingEnabled": "true", "_asyncProgressTrackingOverrideSinkSupportCheck": "true"}


# Classes of Java's that mean Kafka, by what is to be done: each counts wherever in the cause chain it, or a descendant of it, stands.
_REFUSED = (
    "org.apache.kafka.common.errors.AuthenticationException",
    "org.apache.kafka.common.errors.AuthorizationException",
)
_PASSING = (
    "org.apache.kafka.common.errors.RetriableException",  # time-outs, no leader, an unknown topic: may be known soon
    "org.apache.kafka.common.errors.WakeupException",
    "org.apache.kafka.common.errors.InterruptException",
    "org.apache.kafka.clients.consumer.InvalidOffsetException",  # out of range, or no offset
    "org.apache.spark.sql.kafka010.KafkaIllegalStateException",  # offsets are gone, or partitions: the next start says which
    "java.util.concurrent.TimeoutException",  # of a fetch
    "java.net.UnknownHostException",
)
_UNRESOLVED = "No resolvable bootstrap urls"  # a ConfigException to Kafka's client, but the name service may be back soon


def spark_error(task: LoadTask, error: BaseException) -> CdcError:
    """What Spark raised, as ours, by the Java exceptions behind it: another attempt is worth while where Kafka is away, and tells precisely
    what is wrong where it lacks a topic or an offset. What is not known stops the task."""
    java = getattr(error, "java_exception", getattr(error, "_origin", None))
    return classified(task, str(error), []) if java is None else _java_error(task, java)


def query_error(task: LoadTask, query: StreamingQuery) -> CdcError:
    """The same for a query that has ended. PySpark's own form of its exception may lack the Java one."""
    failure = query._jsq.exception()
    return _java_error(task, failure.get()) if failure.isDefined() else classified(task, "", [])


def _java_error(task: LoadTask, java: Any) -> CdcError:
    """`java`: an exception as py4j shows it."""
    texts, classes = list[str](), list[str]()
    while java is not None and len(texts) < 100:
        texts.append(str(java.toString()))
        ancestor = java.getClass()
        while ancestor is not None:
            classes.append(str(ancestor.getName()))
            ancestor = ancestor.getSuperclass()
        java = java.getCause()
    return classified(task, "\n".join(texts), classes)


def classified(task: LoadTask, text: str, classes: Sequence[str]) -> CdcError:
    """`text`: of the cause chain, of which the first line is told; `classes`: of the cause chain, with their ancestors, outermost first."""
    reason = next((line for line in text.splitlines() if line.strip()), "no reason given")
    if any(name in _REFUSED for name in classes):
        cure = "check the task's settings kafka.security.protocol, kafka.sasl.*, kafka.ssl.* and the user's rights"
        return BusRejected(f"Kafka at {task.source.servers} refuses Spark: {reason}; {cure}")
    if any(name in _PASSING for name in classes) or _UNRESOLVED in text:
        return BusUnavailable(f"Spark cannot read from Kafka at {task.source.servers}: {reason}")
    return CdcError(f"task {task.task_id}: Spark failed: {reason}")


def end_offsets(query: StreamingQuery) -> dict[Lane, int]:
    """The offset after the last record of the micro-batch at work, per lane, transaction markers included. Asked from within it."""
    progress: Any = query._jsq.streamingQuery().availableOffsets()  # the source's offsets are no part of the frame
    ends = orjson.loads(progress.values().head().json())
    return {(topic, int(partition)): offset for topic, partitions in ends.items() for partition, offset in partitions.items()}
