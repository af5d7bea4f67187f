"""Starts and ends the Spark application of a task, or of many tasks."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Event, Thread, current_thread, main_thread
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql import SparkSession

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.jvm.cds_archive import archive_option
from cdcbus.consumer.jvm.class_path import class_path
from cdcbus.consumer.jvm.maven import kafka_connector_jars
from cdcbus.consumer.jvm.package_zip import package_zip
from cdcbus.consumer.spark.jvm_folder import (
    FOLDER_VARIABLE,
    caller_folder,
    jvm_folder,
    make_whole,
    whole_path,
    with_whole_paths,
)
from cdcbus.consumer.spark.scratch import new_folder, scratch_folder
from cdcbus.consumer.spark.settings import (
    CLASS_PATH,
    JARS,
    JAVA_OPTIONS,
    LOCAL_SETTINGS,
    SETTINGS,
    check_hadoop_configuration,
    check_speculation,
    is_cluster,
    java_options,
    joined,
    with_attempts,
)
from cdcbus.consumer.spark.spark_errors import (
    JVM_ENDED,
    causes,
    ended,
    ending,
    how_jvm_ended,
    unwritable,
)
from cdcbus.consumer.spark.stderr import filtered_stderr
from cdcbus.plugins.errors import (
    CdcError,
    SparkEnded,
    SparkUnavailable,
)

LOG = logging.getLogger(__name__)
# In the error of an application that starts although its cluster has given up meanwhile.
_GIVEN_UP = "on a running MetricsSystem"
# In Java's errors about settings, which another attempt cannot fix.
_WRONG_SETTINGS = ("Could not parse Master URL", "java.lang.IllegalArgumentException")
# Opens Spark for a task during a block; yields a session, and an empty folder for its checkpoints.
OpenSpark = Callable[[LoadTask, Event], AbstractContextManager[tuple[SparkSession, Path]]]


def spark_session(task: LoadTask, stop: Event) -> AbstractContextManager[tuple[SparkSession, Path]]:
    """Runs a Spark application for this task alone. Raises ConfigError when Java, the Kafka
    connector or YARN's configuration is missing, SparkUnavailable when the cluster grants no
    application, and CdcError when Spark does not start for another reason, or when its cluster has
    ended the application."""
    return _application(f"cdcbus task {task.task_id}", task.spark_options, stop)


@contextmanager
def shared_spark(
    name: str, options: Mapping[str, str], stop: Event, on_end: Callable[[str], object]
) -> Iterator[OpenSpark]:
    """One Spark application for many tasks, among which it shares its cores fairly. Raises what
    `spark_session` raises.

    `on_end` is called with a sentence, perhaps more than once, when the JVM has died, or the
    cluster has ended the application: all its work in progress is lost.
    """
    with _application(name, {"spark.scheduler.mode": "FAIR", **options}, stop) as (spark, scratch):
        gateway: Any = spark.sparkContext._gateway
        # Started now, as tasks that begin at the same time would each start one.
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]

        def watch(seconds: float | None = None) -> None:
            with suppress(TimeoutExpired):
                code = gateway.proc.wait(seconds)
                if not stop.is_set():
                    on_end(str(ended(name, ending(code))))

        @contextmanager
        def open_session(task: LoadTask, _stop: Event) -> Iterator[tuple[SparkSession, Path]]:
            folder = new_folder(scratch)
            try:
                yield spark.newSession(), folder
            except Exception as error:
                # Reported before the task's own error, as all tasks end, and no single one is to
                # blame.
                if isinstance(error, SparkEnded):
                    watch(2)
                elif not stop.is_set() and (end := _end(name, spark)):
                    LOG.error("%s", end)
                    on_end(str(end))
                raise
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        Thread(target=watch, name="jvm-watch", daemon=True).start()
        yield open_session


@contextmanager
def _application(
    name: str, options: Mapping[str, str], stop: Event
) -> Iterator[tuple[SparkSession, Path]]:
    """A session, and an empty folder for checkpoints, during a block. `options` override SETTINGS;
    Java options and jars are added."""
    check_speculation(options)
    # py4j also raises what it logs, partly on the root logger itself.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    # Spark adds most jars itself, but in the order of their folder, which differs between machines;
    # the CDS archive fits one order only.
    jars = class_path()
    master = with_attempts(options.get("spark.master", SETTINGS["spark.master"]))
    if master == "yarn":
        check_hadoop_configuration(os.environ)
    python = options.get("spark.pyspark.python", sys.executable)
    # A bare name is looked for on the path.
    if os.sep in python and not is_cluster(master):
        python = whole_path(python)
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with scratch_folder() as scratch:
        settings = _settings(name, options, master, scratch, jars)
        on_interrupt = signal.getsignal(signal.SIGINT)
        if is_cluster(master):
            # Logged first, as the start takes long where the cluster does not answer.
            LOG.info("%s asks for executors: spark.master=%s", name, master)
        with filtered_stderr(stop):
            try:
                spark = _started(settings, jvm_folder(scratch, is_cluster(master)))
            except Py4JJavaError as error:
                # Another attempt of this process must start from scratch.
                _stop_context()
                if stop.is_set():
                    raise
                raise _no_start(name, master, error) from error
        if current_thread() is main_thread():
            # Spark has installed a handler of its own, but how a task stops is decided elsewhere.
            signal.signal(signal.SIGINT, on_interrupt)
        try:
            if has_executors(spark):
                spark.sparkContext.addPyFile(str(_package(scratch)))
            yield spark, scratch
        except Exception as error:
            if isinstance(error, SparkEnded) or stop.is_set():
                raise
            if end := _end(name, spark):
                raise end from error
            raise
        finally:
            with suppress(*JVM_ENDED):
                spark.stop()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether it is no stack trace of an error that is raised, too, and becomes a sentence."""
    return record.module != "java_gateway"


def _package(folder: Path) -> Path:
    try:
        return package_zip(folder)
    except OSError as error:
        raise unwritable(folder, error) from error


def _settings(
    name: str, options: Mapping[str, str], master: str, scratch: Path, jars: Sequence[Path]
) -> dict[str, str]:
    settings = {
        **SETTINGS,
        "spark.app.name": name,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    # On a cluster, executors fetch the connector's jars from the driver.
    sent_jars: list[Path] = []
    if is_cluster(master):
        sent_jars = list(kafka_connector_jars())
    else:
        settings |= LOCAL_SETTINGS
        settings["spark.local.dir"] = str(scratch / "local")
        settings[f"spark.executorEnv.{FOLDER_VARIABLE}"] = str(caller_folder())
    settings |= options
    settings["spark.master"] = master
    settings[CLASS_PATH] = joined(os.pathsep, [*jars, options.get(CLASS_PATH)])
    settings[JARS] = joined(",", [*sent_jars, options.get(JARS)])
    settings[JAVA_OPTIONS] = java_options(
        options.get(JAVA_OPTIONS, ""), os.environ, archive_option(jars)
    )
    return settings


def _started(settings: Mapping[str, str], folder: Path) -> SparkSession:
    """`folder`: where the JVM begins, if this process has none yet."""
    if folder != caller_folder():
        settings = with_whole_paths(settings)
    if SparkContext._gateway is None:
        make_whole(os.environ)
        configuration = SparkConf().setAll(list(settings.items()))
        gateway = launch_gateway(configuration, {"cwd": folder})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)
    else:
        _forget_folders(SparkContext._jvm)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _forget_folders(jvm: Any) -> None:
    """Makes the JVM use `spark.local.dir` of its next application. It keeps that of the first one,
    whose scratch folder is gone: Spark would make it again, and any other process that starts Spark
    would remove it, as nobody has locked it."""
    getattr(getattr(jvm, "org.apache.spark.util.Utils$"), "MODULE$").clearLocalRootDirs()


def _stop_context() -> None:
    """Stops the context that a failed start has left behind: every further start would find it."""
    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(*JVM_ENDED):
            context.stop()


def _no_start(name: str, master: str, error: Py4JJavaError) -> CdcError:
    # A dict used as an ordered set: a cause often repeats the text of the one before.
    reasons: dict[str, None] = {}
    for cause in causes(error.java_exception):
        first_line, _, _ = str(cause.toString()).partition("\n")
        reasons[first_line] = None
    sentence = f"{name}: Spark does not start with spark.master={master}: {': '.join(reasons)}"
    is_wrong = any(words in sentence for words in _WRONG_SETTINGS)
    if (is_wrong and _GIVEN_UP not in sentence) or not is_cluster(master):
        return CdcError(sentence)
    return SparkUnavailable(
        f"{sentence}; check that the cluster runs, can be reached from here and has room"
    )


def _end(name: str, spark: SparkSession) -> CdcError | None:
    """The error for an application that has ended: by its cluster, or with its JVM, which ends it
    first where it is asked to stop. None where it has not, as far as one can know."""
    has_answered = False
    with suppress(*JVM_ENDED):
        if not spark.sparkContext._jsc.sc().isStopped():
            return None
        has_answered = True
    if how := how_jvm_ended():
        return ended(name, how)
    if not has_answered:
        return None
    context = spark.sparkContext
    return CdcError(
        f"{name}: its application {context.applicationId} was ended by "
        f"spark.master={context.master}, whose logs say why"
    )


def has_executors(spark: SparkSession) -> bool:
    """Whether executors fetch records, rather than this process's JVM."""
    return is_cluster(str(spark.sparkContext.master))
