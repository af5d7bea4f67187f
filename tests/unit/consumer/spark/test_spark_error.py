"""What a task does on what Spark raises, by the Java classes behind it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException, PySparkRuntimeError

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.spark.spark_errors import classified, ending, spark_error
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.error_policy import Action, policy_of
from cdcbus.plugins.errors import (
    BusRejected,
    BusUnavailable,
    CdcError,
    SparkEnded,
    SparkUnavailable,
)

TASK = LoadTask("7", TopicConfig("kafka:9092", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget(""))
OUTER = [
    "org.apache.spark.sql.streaming.StreamingQueryException",
    "java.lang.Exception",
    "org.apache.spark.SparkException",
]
KAFKA = "org.apache.kafka.common.errors"


@pytest.mark.parametrize(
    "classes",
    [
        [f"{KAFKA}.TimeoutException", f"{KAFKA}.RetriableException"],
        [
            f"{KAFKA}.UnknownTopicOrPartitionException",
            f"{KAFKA}.InvalidMetadataException",
            f"{KAFKA}.RetriableException",
        ],
        [
            "java.util.concurrent.ExecutionException",
            f"{KAFKA}.DisconnectException",
            f"{KAFKA}.RetriableException",
        ],
        [
            "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
            "org.apache.kafka.clients.consumer.InvalidOffsetException",
        ],
        [
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
            "java.lang.IllegalStateException",
        ],
        ["java.util.concurrent.TimeoutException"],
    ],
)
def test_kafka_s_passing_troubles_and_lost_offsets_are_looked_at_again(classes: list[str]) -> None:
    error = classified(TASK, "reason", [*OUTER, *classes])
    assert type(error) is BusUnavailable
    assert str(error) == "Spark cannot read from Kafka at kafka:9092: reason"


@pytest.mark.parametrize(
    "classes",
    [
        [f"{KAFKA}.SaslAuthenticationException", f"{KAFKA}.AuthenticationException"],
        [
            "org.apache.kafka.common.KafkaException",
            f"{KAFKA}.SslAuthenticationException",
            f"{KAFKA}.AuthenticationException",
        ],
        [f"{KAFKA}.TopicAuthorizationException", f"{KAFKA}.AuthorizationException"],
    ],
)
def test_refused_logins_and_rights_stop_with_where_to_look(classes: list[str]) -> None:
    error = classified(TASK, "reason", [*OUTER, *classes])
    assert type(error) is BusRejected
    assert "kafka.sasl.*" in str(error)


@pytest.mark.parametrize(
    "classes",
    [
        [],
        ["java.lang.OutOfMemoryError", "java.lang.Error"],
        ["org.apache.kafka.common.config.ConfigException"],
        ["java.net.Surprise"],
    ],
)
def test_the_unknown_stops_even_if_its_text_speaks_of_kafka(classes: list[str]) -> None:
    error = classified(TASK, "kafka", [*OUTER, *classes])
    assert type(error) is CdcError
    assert str(error) == "task 7: Spark failed: kafka"


@pytest.mark.parametrize(
    "loss",
    [
        "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: "
        "Command exited with code 137",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    ],
)
def test_executors_that_are_lost_as_often_as_spark_tries_are_tried_again(loss: str) -> None:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent "
        f"failure: Lost task 0.3 in stage 3.0: {loss}"
    )
    error = classified(TASK, text, OUTER)
    assert type(error) is SparkUnavailable
    assert policy_of(error).action is Action.RETRY


FRAMES = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/pyspark/worker.py", line 2028, in main
    func, profiler, deserializer, serializer = read_udfs(pickleSer, infile, eval_type)
                                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/opt/pyspark/serializers.py", line 473, in loads
    return cloudpickle.loads(obj, encoding=encoding)
"""
"""As PySpark 4.0 has them, without a Java exception."""


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (
            "ModuleNotFoundError: No module named 'psycopg'",
            "ModuleNotFoundError: No module named 'psycopg'",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow",
            "PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python "
            "in worker: 3.9 than that in driver: 3.11.\nPlease check",
            "[PYTHON_VERSION_MISMATCH] Python in worker: 3.9 than that in driver: 3.11.;",
        ),
    ],
)
def test_a_python_of_executors_that_does_not_fit_is_named_with_the_setting(
    last: str, shown: str
) -> None:
    error = classified(TASK, f"{FRAMES}{last}\n", [])
    assert type(error) is CdcError
    assert str(error).startswith("task 7: Python does not fit at an executor: ")
    assert shown in str(error)
    assert "spark.pyspark.python" in str(error) and "docs/loading.md#executors" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        f"{FRAMES}ValueError: secret\nAnna: Smith\n",
        f"org.apache.spark.SparkException: Job aborted{FRAMES}x.ValueError\n\tat org.apache.spark.X",
        f"{FRAMES}KeyError: 'secret'\n\nDuring handling of the above exception, another exception "
        f"occurred:\n{FRAMES}ValueError: secret",
    ],
)
def test_other_errors_in_python_of_executors_are_shown_by_class_and_place_without_cells(
    text: str,
) -> None:
    assert str(classified(TASK, text, OUTER)) == (
        "task 7: Spark failed: Python of an executor raised ValueError at "
        "/opt/pyspark/serializers.py:473"
    )


@pytest.mark.parametrize("reason", ["No space left on device", "Disk quota exceeded"])
def test_a_full_disk_is_waited_for(reason: str) -> None:
    error = classified(
        TASK, f"Job aborted due to stage failure\njava.io.IOException: {reason}", OUTER
    )
    assert type(error) is SparkUnavailable
    assert "Spark cannot write its temporary files" in str(error)


def test_a_name_service_that_is_away_passes() -> None:
    text = (
        "KafkaException: Failed to construct kafka consumer\nConfigException: No resolvable "
        "bootstrap urls given in bootstrap.servers"
    )
    assert (
        type(classified(TASK, text, ["org.apache.kafka.common.config.ConfigException"]))
        is BusUnavailable
    )


@dataclass
class JavaClass:
    """As py4j shows them."""

    name: str
    ancestor: JavaClass | None = None

    def getName(self) -> str:
        return self.name

    def getSuperclass(self) -> JavaClass | None:
        return self.ancestor


@dataclass
class Throwable:
    of: JavaClass
    cause: Throwable | None = None

    def getClass(self) -> JavaClass:
        return self.of

    def toString(self) -> str:
        return "\nSpark's text\nand more"

    def getCause(self) -> Throwable | None:
        return self.cause


class Captured(Exception):
    """As PySpark makes them."""

    def __init__(self, origin: Throwable | None) -> None:
        super().__init__("PySpark's text")
        self._origin = origin


class Raised(Exception):
    """As py4j makes them."""

    java_exception: Throwable


TIMED_OUT = Throwable(
    JavaClass("java.lang.Exception"),
    Throwable(JavaClass(f"{KAFKA}.X", JavaClass(f"{KAFKA}.RetriableException"))),
)


def test_the_cause_chain_is_found_where_pyspark_and_py4j_keep_it() -> None:
    raised = Raised("An error occurred while calling o85.count")
    raised.java_exception = TIMED_OUT
    for error in (Captured(TIMED_OUT), raised):
        found = spark_error(TASK, error)
        assert type(found) is BusUnavailable
        assert str(found).endswith(": Spark's text")


def test_an_error_without_java_behind_it_stops() -> None:
    assert type(spark_error(TASK, ValueError("kafka"))) is CdcError
    assert str(spark_error(TASK, Captured(None))) == "task 7: Spark failed: PySpark's text"


def test_a_jvm_that_is_gone_is_told_apart_from_what_spark_fails_in() -> None:
    gone = PySparkRuntimeError("the SparkContext was stopped")
    assert type(spark_error(TASK, gone)) is SparkEnded
    assert type(spark_error(TASK, PySparkException("of a call"))) is CdcError


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (-9, "killed by SIGKILL, as Linux does where the machine has no memory left: see dmesg"),
        (-15, "killed by SIGTERM"),
        (3, "out of memory; give it more: spark.driver.memory"),
        (1, "exit code 1"),
    ],
)
def test_how_a_jvm_has_ended_is_told_by_its_exit_code(code: int, how: str) -> None:
    assert ending(code) == how
