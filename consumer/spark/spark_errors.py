"""Translates Spark's exceptions to our errors."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.query import StreamingQuery

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import (
    BusRejected,
    BusUnavailable,
    CdcError,
    SparkEnded,
    SparkUnavailable,
)

# The errors of a call to Spark once its JVM has ended, for example after a signal to the whole
# process group.
JVM_ENDED = (Py4JError, ConnectionError, PySparkRuntimeError)
# Its connections break before it has ended.
END_SECONDS = 2.0
# The exit code of a JVM with ExitOnOutOfMemoryError.
OUT_OF_MEMORY = 3
# Java's exceptions about Kafka, by how the task reacts to them. Each counts anywhere in the cause
# chain, and so do its subclasses.
_REFUSED = (
    "org.apache.kafka.common.errors.AuthenticationException",
    "org.apache.kafka.common.errors.AuthorizationException",
)
_PASSING = (
    # Time-outs, no leader, an unknown topic: Kafka may answer soon.
    "org.apache.kafka.common.errors.RetriableException",
    "org.apache.kafka.common.errors.WakeupException",
    "org.apache.kafka.common.errors.InterruptException",
    # An offset is out of range, or missing.
    "org.apache.kafka.clients.consumer.InvalidOffsetException",
    # Kafka has deleted offsets, or partitions: the next start says which.
    "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
    # A fetch timed out.
    "java.util.concurrent.TimeoutException",
    "java.net.UnknownHostException",
)
# Spark's texts for a job of which a part has failed ATTEMPTS times.
_LOST = ("ExecutorLostFailure", "Python worker exited unexpectedly")
# Where Spark keeps its files. Without room there, another attempt may find some. Java does not say
# why it cannot make a folder.
_FULL = ("No space left on device", "Disk quota exceeded", "mkdir of file:")
# Kafka's client raises a ConfigException, although the name service may be back soon.
_UNRESOLVED = "No resolvable bootstrap urls"
# An error in an executor's Python, as its worker reports it: the frames, all of them indented, then
# its class and the first line of its text.
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(?P<frames>(?:[ \t].*\n|\n)*)"
    r"(?P<name>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$",
    re.MULTILINE,
)
_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
# Pyspark's error where driver and executor have Pythons of two minor versions.
_OTHER_PYTHON = "[PYTHON_VERSION_MISMATCH]"


def spark_error(task: LoadTask, error: BaseException) -> CdcError:
    """Our error for an exception of Spark, by the Java exceptions that caused it. Where Kafka is
    unreachable, another attempt helps; where it lacks a topic or an offset, another attempt says
    precisely what is wrong. An unknown exception stops the task."""
    if isinstance(error, PySparkRuntimeError):
        # Within a batch it is only raised when the JVM has ended.
        return jvm_ended(task, error)
    java = getattr(error, "java_exception", getattr(error, "_origin", None))
    if java is None:
        return classified(task, str(error), [])
    return _java_error(task, java)


def unwritable(folder: Path | str, error: OSError) -> SparkUnavailable:
    """The error for a folder of temporary files that cannot be written, as on a full disk."""
    return SparkUnavailable(
        f"Spark's temporary files cannot be written in {folder}: {error.strerror}; make room "
        "there, or name another folder (TMPDIR)"
    )


def jvm_ended(task: LoadTask, error: BaseException) -> SparkEnded:
    """The error for a JVM that has ended; `error` was raised by a call to Spark."""
    return ended(f"task {task.task_id}", how_jvm_ended() or type(error).__name__)


def ended(name: str, how: str) -> SparkEnded:
    """The error for a JVM that has ended."""
    return SparkEnded(f"{name}: the JVM of Spark has ended ({how}); the log before says more")


def how_jvm_ended() -> str:
    """How this process's JVM has ended, or does within a moment; empty where it runs on."""
    gateway: Any = SparkContext._gateway
    # None in an executor.
    if gateway is not None:
        with suppress(TimeoutExpired):
            return ending(gateway.proc.wait(END_SECONDS))
    return ""


def ending(code: int) -> str:
    """How a JVM has ended, by its exit code as `subprocess` gives it."""
    if code == -signal.SIGKILL:
        return "killed by SIGKILL, as Linux does where the machine has no memory left: see dmesg"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    if code == OUT_OF_MEMORY:
        return "out of memory; give it more: spark.driver.memory"
    return f"exit code {code}"


def query_error(task: LoadTask, query: StreamingQuery) -> CdcError:
    """The error of a query that has ended. Reads the Java exception, which PySpark's own exception
    can lack."""
    failure = query._jsq.exception()
    if not failure.isDefined():
        return classified(task, "", [])
    return _java_error(task, failure.get())


def _java_error(task: LoadTask, java: Any) -> CdcError:
    """`java`: an exception as py4j shows it."""
    texts: list[str] = []
    classes: list[str] = []
    for cause in causes(java):
        texts.append(str(cause.toString()))
        ancestor = cause.getClass()
        while ancestor is not None:
            classes.append(str(ancestor.getName()))
            ancestor = ancestor.getSuperclass()
    return classified(task, "\n".join(texts), classes)


def causes(java: Any) -> Iterator[Any]:
    """The exception itself, its cause, and so on."""
    # Bounded, as a cause chain can be circular.
    for _ in range(100):
        if java is None:
            return
        yield java
        java = java.getCause()


def classified(task: LoadTask, text: str, classes: Sequence[str]) -> CdcError:
    """The error for a cause chain. `text`: the chain's texts, of which the first line is shown as
    the reason, or the error in an executor's Python; `classes`: the chain's classes with their
    ancestors, outermost first."""
    reason = next((line for line in text.splitlines() if line.strip()), "no reason given")
    # The last one: it was raised while those before it were handled.
    for raised in list(_TRACEBACK.finditer(text))[-1:]:
        kind, words = raised["name"].rpartition(".")[2], raised["text"] or ""
        if kind.endswith(("ModuleNotFoundError", "ImportError")) or _OTHER_PYTHON in words:
            return CdcError(
                f"task {task.task_id}: Python does not fit at an executor: {kind}: {words}; "
                "spark.pyspark.python must name one of the driver's minor version there, with the "
                "packages of docs/loading.md#executors"
            )
        # Only its class and place: its text can hold cells.
        reason = f"Python of an executor raised {kind}"
        for file, line in _FRAME.findall(raised["frames"])[-1:]:
            reason += f" at {file}:{line}"
    if any(name in _REFUSED for name in classes):
        remedy = (
            "check the task's settings kafka.security.protocol, kafka.sasl.*, kafka.ssl.* "
            "and the user's rights"
        )
        return BusRejected(f"Kafka at {task.source.servers} refuses Spark: {reason}; {remedy}")
    if any(name in _PASSING for name in classes) or _UNRESOLVED in text:
        return BusUnavailable(f"Spark cannot read from Kafka at {task.source.servers}: {reason}")
    if any(words in text for words in _FULL):
        return SparkUnavailable(
            f"task {task.task_id}: Spark cannot write its temporary files: {reason}; make room "
            "there (spark.local.dir, TMPDIR)"
        )
    if any(words in text for words in _LOST):
        return SparkUnavailable(f"Spark's executors were lost again and again: {reason}")
    return CdcError(f"task {task.task_id}: Spark failed: {reason}")
