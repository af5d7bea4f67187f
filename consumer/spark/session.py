"""The Spark session and its Kafka source."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import orjson
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import unix_millis
from pyspark.sql.streaming.query import StreamingQuery

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.jvm.cds_archive import archive_option
from cdcbus.consumer.jvm.class_path import class_path
from cdcbus.consumer.jvm.maven import kafka_connector_jars
from cdcbus.consumer.jvm.package_zip import package_zip
from cdcbus.plugins.errors import (
    BusRejected,
    BusUnavailable,
    CdcError,
    ConfigError,
    SparkEnded,
    SparkUnavailable,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition

LOG = logging.getLogger(__name__)
# What a call to Spark raises once its JVM has ended, for example by a signal to the whole process
# group.
JVM_ENDED = (Py4JError, ConnectionError, PySparkRuntimeError)
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

SPECULATION = (
    "has Spark apply one partition twice at the same time, which no order survives: leave it "
    "out, or set it to false"
)
_SCRATCH = "cdcbus-spark-"
ATTEMPTS = 4  # Spark's own default on clusters
_JAVA_OPTIONS, _CLASS_PATH, _JARS = (
    "spark.driver.extraJavaOptions",
    "spark.driver.extraClassPath",
    "spark.jars",
)
# A JVM whose threads died of lack of memory one by one would be silent for ever.
_JVM = "-XX:+ExitOnOutOfMemoryError"
# Java's second compiler has a task's first minute cost 3 s more of a core, most of it for what is
# called at the start only. So it takes what is called ten times as often as by its own measure, and
# the first compiler what is called twice as often.
_COMPILER = (
    "-XX:Tier3InvocationThreshold=400 -XX:Tier3MinInvocationThreshold=200 "
    "-XX:Tier3CompileThreshold=4000 "
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# The default collector costs more processor time for each record; this one with a small young
# generation takes no more memory. And the room for classes that Spark fills at its start is no
# reason to collect.
_COLLECTOR = "-XX:+UseParallelGC -XX:MaxNewSize=128m -XX:MetaspaceSize=256m"

# Small plans, one output: no web page, no adaptive planning, no shuffles.
_SETTINGS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # MLlib extends each session by functions for vectors, and to learn their types takes Spark most
    # of a second.
    "spark.sql.extensions.test.loadFromCp": "false",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.memory": "1g",
    # Clusters that watch a container's memory count in the Python worker, which needs more than the
    # 384 MB that Spark expects.
    "spark.executor.memoryOverhead": "1g",
    # A task runs for months: what was lost long ago does not count against it.
    "spark.executor.failuresValidityInterval": "1h",
    "spark.yarn.am.attemptFailuresValidityInterval": "1h",
    # What Spark keeps of Kafka's clients, and of their last poll, for a query that has ended: 5
    # minutes by default.
    "spark.kafka.consumer.cache.timeout": "5s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "2s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "2s",
    # Spark gives Python workers out by their environment, of which this is a part for SQL only: so
    # that one serves for all.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # A Python worker takes tens of megabytes for each slice, and gives them back: to Linux each
    # time, that would be a seventh of its work. The last two are the most that the C library would
    # come to by itself.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "spark.log.level": "FATAL",
    "spark.speculation": "false",  # whatever the cluster's defaults say
}
# Without executors nobody else needs to reach the driver, and cdcbus is there before Spark sends
# it.
_ALONE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "cdcbus.consumer.spark.python_daemon",
}


# Of a task: a session, and an empty folder for its checkpoints, during a block.
OpenSpark = Callable[[LoadTask, Event], AbstractContextManager[tuple[SparkSession, Path]]]


def spark_session(task: LoadTask, stop: Event) -> AbstractContextManager[tuple[SparkSession, Path]]:
    """A Spark application of the task's own. Raises ConfigError when Java, the Kafka connector
    or YARN's configuration are missing, and CdcError when Spark does not start, or when its
    cluster has ended the application."""
    return _application(f"cdcbus task {task.task_id}", task.spark_options, stop)


@contextmanager
def shared_spark(
    name: str, options: Mapping[str, str], stop: Event, on_end: Callable[[], object]
) -> Iterator[OpenSpark]:
    """One Spark application for many tasks, between which it shares its cores fairly. Raises as
    `spark_session` does.

    `on_end` is called, perhaps more than once, when its JVM has ended by itself, or its cluster has
    ended it: all that it was asked for is lost.
    """
    with _application(name, {"spark.scheduler.mode": "FAIR", **options}, stop) as (spark, scratch):
        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # tasks that begin at the same time would start one each

        def watch(seconds: float | None = None) -> None:
            with suppress(TimeoutExpired):
                gateway.proc.wait(seconds)
                if not stop.is_set():
                    on_end()

        @contextmanager
        def open_session(task: LoadTask, _stop: Event) -> Iterator[tuple[SparkSession, Path]]:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            try:
                yield spark.newSession(), folder
            except Exception as error:
                if not stop.is_set() and _is_ended(spark):
                    LOG.error("%s", _ended(name, spark))
                    on_end()
                elif isinstance(error, (*JVM_ENDED, SparkEnded)):
                    watch(2)  # first: a crash of all tasks is no error of one
                raise
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        Thread(target=watch, name="jvm-watch", daemon=True).start()
        yield open_session


@contextmanager
def _application(
    name: str, options: Mapping[str, str], stop: Event
) -> Iterator[tuple[SparkSession, Path]]:
    """A session, and an empty folder for checkpoints. Both are gone at the end.

    `options` override the settings above; Java options and jars are added.
    """
    check_speculation(options)
    # Spark adds most of them itself, but in the order of their folder, which is another one on each
    # machine
    jars = class_path()
    master = with_attempts(options.get("spark.master", _SETTINGS["spark.master"]))
    if master == "yarn":
        check_hadoop_configuration(os.environ)
    os.environ["PYSPARK_PYTHON"] = options.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    _remove_leftovers()
    scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))
    settings = {
        **_SETTINGS,
        "spark.app.name": name,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **({} if is_cluster(master) else {**_ALONE, "spark.local.dir": str(scratch / "local")}),
        **options,
        "spark.master": master,
        _CLASS_PATH: _joined(os.pathsep, jars, options.get(_CLASS_PATH)),
        _JARS: _joined(
            ",", kafka_connector_jars() if is_cluster(master) else (), options.get(_JARS)
        ),
        _JAVA_OPTIONS: java_options(
            options.get(_JAVA_OPTIONS, ""), os.environ, archive_option(jars)
        ),
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    if is_cluster(master):
        # which may take long, where nobody answers
        LOG.info("%s asks for executors: spark.master=%s", name, master)
    with _filtered_stderr(stop):
        try:
            spark = builder.getOrCreate()
        except Py4JJavaError as error:
            if stop.is_set():
                raise
            reasons = dict.fromkeys(
                str(cause.toString()).partition("\n")[0] for cause in _causes(error.java_exception)
            )
            remedy = (
                "; check that the cluster runs, can be reached from here and has room"
                if is_cluster(master)
                else ""
            )
            raise CdcError(
                f"{name}: Spark does not start with spark.master={master}: "
                f"{': '.join(reasons)}{remedy}"
            ) from error
    if current_thread() is main_thread():
        # Spark has put its own in place; how a task stops is decided elsewhere
        signal.signal(signal.SIGINT, on_interrupt)
    if has_executors(spark):
        spark.sparkContext.addPyFile(str(package_zip(scratch)))
    try:
        yield spark, scratch
    except Exception as error:
        if not stop.is_set() and _is_ended(spark):
            raise CdcError(_ended(name, spark)) from error
        raise
    finally:
        with suppress(*JVM_ENDED):
            spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _joined(separator: str, jars: Iterable[Path], given: str | None) -> str:
    return separator.join(filter(None, (*map(str, jars), given)))


def _is_ended(spark: SparkSession) -> bool:
    """Whether the application has been ended by its cluster. Not where its JVM has, which cannot
    be asked any more."""
    with suppress(*JVM_ENDED):
        return bool(spark.sparkContext._jsc.sc().isStopped())
    return False


def _ended(name: str, spark: SparkSession) -> str:
    context = spark.sparkContext
    return (
        f"{name}: its application {context.applicationId} was ended by "
        f"spark.master={context.master}, whose logs say why"
    )


def check_speculation(options: Mapping[str, str]) -> None:
    """Raises ConfigError where Spark is to run the same partition twice at once: each would undo
    the other's transactions."""
    if options.get("spark.speculation", "").strip().lower() == "true":
        raise ConfigError(f"spark.speculation=true {SPECULATION}")


def check_hadoop_configuration(environment: Mapping[str, str]) -> None:
    """Raises ConfigError when it names no folder that says where YARN is: then Spark looks for
    it on this machine, for a quarter of an hour."""
    named = {
        name: Path(folder)
        for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
        if (folder := environment.get(name))
    }
    if not any((folder / "yarn-site.xml").is_file() for folder in named.values()):
        found = " and ".join(
            f"{name} is {folder}, where there is none" for name, folder in named.items()
        )
        what = (
            "needs HADOOP_CONF_DIR (or YARN_CONF_DIR) in its environment, the folder of the "
            "cluster's yarn-site.xml"
        )
        raise ConfigError(f"spark.master=yarn {what}: {found or 'neither is set'}")


def java_options(given: str, environment: Mapping[str, str], archive: str = "") -> str:
    """Ours, `archive`, then the `given` ones. The collector is not named where these or the
    environment name one: Java takes no two."""
    chosen = " ".join(
        (
            given,
            *(
                environment.get(name, "")
                for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
            ),
        )
    )
    collector = "" if re.search(r"-XX:\+Use\w*GC\b", chosen) else _COLLECTOR
    return " ".join(
        filter(
            None,
            (
                _JVM,
                _COMPILER,
                collector,
                archive,
                f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
                given,
            ),
        )
    )


def with_attempts(master: str) -> str:
    """A local master under which Spark tries again what a Python worker has left undone by
    dying, as it does on clusters by itself."""
    found = re.fullmatch(r"local(?:\[([^,]*)\])?", master)
    return f"local[{found[1] or 1},{ATTEMPTS}]" if found else master


def is_cluster(master: str) -> bool:
    """Whether a `spark.master` gives tasks to executors of their own: all but `local` and
    `local[...]` do."""
    return not re.fullmatch(r"local(\[.*\])?", master)


def has_executors(spark: SparkSession) -> bool:
    """Whether records are fetched elsewhere than in this process's JVM."""
    return is_cluster(str(spark.sparkContext.master))


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


# What every JVM of Spark says at its start, and where in Java something has failed.
_UNTOLD = (
    b"WARNING: Using incubator modules",
    b"Setting default log level",
    b"To adjust logging level",
    b"Setting Spark log level",
    b"\tat ",
    b"\t... ",
)


@contextmanager
def _filtered_stderr(stop: Event) -> Iterator[None]:
    """A process started inside writes to our stderr through a filter, for as long as it lives:
    no greetings, no stack traces, nothing while it is ended."""
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
            if line.strip() and not line.startswith(_UNTOLD) and not stop.is_set():
                stderr.write(line)


FETCH_BYTES = 64 << 20  # of all partitions
COLUMNS = ("topic", "partition", "offset", "value")


def kafka_stream(
    spark: SparkSession, task: LoadTask, offsets: Mapping[TopicPartition, int], batch_records: int
) -> DataFrame:
    """A stream of topic, partition, offset, value and kafka_ms, when a record came into Kafka, from
    `offsets` on; only committed records. And of headers where the task sends them on, or of keys,
    where a target's row may be in several partitions.

    Chosen partitions are assigned, else new partitions of the topics are found and read from their
    beginning.
    """
    if task.source.partitions:
        chosen = {
            "assign": orjson.dumps(
                dict.fromkeys(task.source.topics, task.source.partitions)
            ).decode()
        }
    else:
        chosen = {"subscribe": ",".join(task.source.topics)}
    options = {
        **_fetching(len(offsets), batch_records),
        **{f"kafka.{key}": value for key, value in task.source.kafka_options.items()},
        "kafka.bootstrap.servers": task.source.servers,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": _offsets_json(offsets),
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(batch_records),
        **chosen,
    }
    headers = {"includeHeaders": "true"} if isinstance(task.target, PublishConfig) else {}
    more = ["headers"] if headers else ["key"] if len(offsets) > 1 else []
    read = spark.readStream.format("kafka").options(**options, **headers).load()
    return read.select(*COLUMNS, unix_millis("timestamp").alias("kafka_ms"), *more)


def begin_at(checkpoint: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Writes into a new checkpoint where the query begins, as Spark does at a first start; it
    counts more than what the stream says.

    Without it Spark first asks Kafka which partitions there are, which takes a tenth of a second,
    and fails where they are not these; with it, Spark finds new ones with its first batch.
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
    """How Kafka's clients fetch, one for each partition: the more records in a poll the faster, as
    Spark asks for a partition's first and last offset with each. A poll unpacks its records, which
    LZ4 may have packed 250 times smaller, so what all clients hold is to stay small: 64 MB have
    room in 1 GB, and so have the records that 512 KB unpack to.

    A client asks for more as soon as it has some, and those two questions wait behind that one, so
    it is not to wait for long.
    """
    return {
        "kafka.fetch.max.wait.ms": "1",
        "kafka.max.partition.fetch.bytes": str(
            min(512 << 10, max(256 << 10, FETCH_BYTES // max(1, partitions)))
        ),
        "kafka.max.poll.records": str(min(8000, max(16, batch_records // 128))),
    }


# Classes of Java's that mean Kafka, by what is to be done: each counts wherever in the cause chain
# it, or a descendant of it, stands.
_REFUSED = (
    "org.apache.kafka.common.errors.AuthenticationException",
    "org.apache.kafka.common.errors.AuthorizationException",
)
_PASSING = (
    # time-outs, no leader, an unknown topic: may be known soon
    "org.apache.kafka.common.errors.RetriableException",
    "org.apache.kafka.common.errors.WakeupException",
    "org.apache.kafka.common.errors.InterruptException",
    "org.apache.kafka.clients.consumer.InvalidOffsetException",  # out of range, or no offset
    # offsets are gone, or partitions: the next start says which
    "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
    "java.util.concurrent.TimeoutException",  # of a fetch
    "java.net.UnknownHostException",
)
# What Spark says of a job of which it has tried a part as often as it does.
_LOST = ("ExecutorLostFailure", "Python worker exited unexpectedly")
# a ConfigException to Kafka's client, but the name service may be back soon
_UNRESOLVED = "No resolvable bootstrap urls"


def spark_error(task: LoadTask, error: BaseException) -> CdcError:
    """What Spark raised, as ours, by the Java exceptions behind it: another attempt is worth
    while where Kafka is away, and tells precisely what is wrong where it lacks a topic or an
    offset. What is not known stops the task."""
    if isinstance(error, PySparkRuntimeError):  # nothing else raises it within a batch
        return jvm_ended(task, error)
    java = getattr(error, "java_exception", getattr(error, "_origin", None))
    return classified(task, str(error), []) if java is None else _java_error(task, java)


def jvm_ended(task: LoadTask, error: BaseException) -> SparkEnded:
    """`error`: what a call to Spark has raised."""
    return SparkEnded(
        f"task {task.task_id}: the JVM of Spark has ended ({type(error).__name__}); the log before "
        "says more"
    )


def query_error(task: LoadTask, query: StreamingQuery) -> CdcError:
    """The same for a query that has ended. PySpark's own form of its exception may lack the Java
    one."""
    failure = query._jsq.exception()
    return _java_error(task, failure.get()) if failure.isDefined() else classified(task, "", [])


def _java_error(task: LoadTask, java: Any) -> CdcError:
    """`java`: an exception as py4j shows it."""
    texts, classes = list[str](), list[str]()
    for cause in _causes(java):
        texts.append(str(cause.toString()))
        ancestor = cause.getClass()
        while ancestor is not None:
            classes.append(str(ancestor.getName()))
            ancestor = ancestor.getSuperclass()
    return classified(task, "\n".join(texts), classes)


def _causes(java: Any) -> Iterator[Any]:
    """The exception itself, what has caused it, and so on."""
    for _ in range(100):
        if java is None:
            return
        yield java
        java = java.getCause()


def classified(task: LoadTask, text: str, classes: Sequence[str]) -> CdcError:
    """`text`: of the cause chain, of which the first line is told; `classes`: of the cause
    chain, with their ancestors, outermost first."""
    reason = next((line for line in text.splitlines() if line.strip()), "no reason given")
    if any(name in _REFUSED for name in classes):
        remedy = (
            "check the task's settings kafka.security.protocol, kafka.sasl.*, kafka.ssl.* "
            "and the user's rights"
        )
        return BusRejected(f"Kafka at {task.source.servers} refuses Spark: {reason}; {remedy}")
    if any(name in _PASSING for name in classes) or _UNRESOLVED in text:
        return BusUnavailable(f"Spark cannot read from Kafka at {task.source.servers}: {reason}")
    if any(words in text for words in _LOST):
        return SparkUnavailable(f"Spark's executors were lost again and again: {reason}")
    return CdcError(f"task {task.task_id}: Spark failed: {reason}")


def end_offsets(query: StreamingQuery) -> dict[TopicPartition, int]:
    """The offset after the last record of the micro-batch at work, per partition, transaction
    markers included. Asked from within it."""
    # the source's offsets are no part of the frame
    progress: Any = query._jsq.streamingQuery().availableOffsets()
    ends = orjson.loads(progress.values().head().json())
    return {
        TopicPartition(topic, int(number)): offset
        for topic, offsets in ends.items()
        for number, offset in offsets.items()
    }
