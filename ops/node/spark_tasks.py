"""The process in which a node runs its consumer tasks: a thread each, and one Spark application for
all, from the first backlog of one of them on. `cdcbus node spark`.

Its standard input is a socket, on which it receives orders and reports ended tasks, each as a line
of JSON:

    {"start":7,"task":"1084","log":"/var/log/1084.log"}   {"stop":7}
    {"ended":7,"code":1,"sentence":"..."}                 {"lost":"..."} all have ended, by no fault
                                                          of theirs
    {"crash":"...","tasks":[7]}                           all have ended, as Spark has; these used
                                                          it

A start has a number, so that late messages are about that start only. The process ends when the
socket is closed.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import orjson
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.jvm.class_path import class_path
from cdcbus.consumer.jvm.maven import java
from cdcbus.consumer.spark.session import OpenSpark, shared_spark
from cdcbus.ops.node.task_end import FAILED, end_of
from cdcbus.ops.node.task_process import RotatedLog, start_thread
from cdcbus.plugins.errors import CdcError, ConfigError, PositionUnavailable
from cdcbus.plugins.files.taken_texts import begin_task
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.control.beside import refuse_others_names
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.named_task import inspect_stored, ready_task
from cdcbus.tasks.process_identity import NODE_VARIABLE, end_with_node, patiently
from cdcbus.tasks.runtime.runner import run_guarded
from cdcbus.tasks.runtime.stop_signals import stop_signals
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.lock import Guard, Stop, guarded

LOG = logging.getLogger(__name__)
WAIT_SECONDS = 0.2
# Short, so that among many threads those that prove the locks get their turn in time.
SWITCH_SECONDS = 0.001
FORMAT = "%(asctime)s %(levelname)s %(message)s"


def run_spark_tasks(bus: BusSettings) -> None:
    """Runs tasks until the node closes the socket, SIGTERM, or SIGINT; then all tasks are stopped,
    with their positions stored. Raises ConfigError when Java or the Kafka connector are missing."""
    if NODE_VARIABLE not in os.environ:
        raise ConfigError("this process is started by a node; start that one: cdcbus node run")
    # Fails now if Spark lacks something, not at the first backlog.
    java()
    class_path()
    end_with_node()
    channel = _Channel(socket.socket(fileno=sys.stdin.fileno()))
    logs = _Logs()
    logging.basicConfig(handlers=[logs])
    logging.getLogger("cdcbus").setLevel(logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    sys.setswitchinterval(SWITCH_SECONDS)
    with stop_signals() as stop:
        try:
            client = connect(
                bus.zookeeper,
                auth=bus.zookeeper_auth,
                session_seconds=bus.lock_times.session_seconds,
            )
        except PositionUnavailable as error:
            # No fault of the tasks: the node starts them again without counting a failure.
            channel.send({"lost": str(error)})
            return
        try:
            _run_tasks(bus, client, channel, logs, stop)
        finally:
            client.stop()
            client.close()


def _run_tasks(
    bus: BusSettings, client: KazooClient, channel: _Channel, logs: _Logs, stop: Event
) -> None:
    """Runs what the node orders until `stop` is set."""
    name = f"cdcbus node {os.environ.get(NODE_VARIABLE, '')}"
    with guarded(
        client,
        lambda: _end_at_once(channel, {"lost": "ZooKeeper may have given its locks away"}),
        bus.lock_times,
    ) as guard:
        tasks = _Tasks(bus, client, guard, channel, logs)
        # This thread starts Spark, and then waits, so orders are read on another one.
        Thread(target=_obey, args=(channel, tasks, stop), name="orders", daemon=True).start()
        while not stop.is_set():
            if tasks.is_spark_wanted.wait(WAIT_SECONDS):
                opening = shared_spark(name, bus.spark_options, stop, tasks.end_with_spark)
                tasks.give_spark(opening, stop)
        # For tasks that never needed Spark; `give_spark` has stopped the others.
        tasks.stop_all()


def _end_at_once(channel: _Channel, report: Mapping[str, Any]) -> None:
    """Ends all work of this process and of its JVM, in all threads. `report`: for the node."""
    channel.send_at_once(report)
    os.killpg(0, signal.SIGKILL)


class _Channel:
    """Lines of JSON to and from the node. `send` can be called on any thread, and does nothing once
    the node has closed the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = Lock()

    def send(self, fields: Mapping[str, Any]) -> None:
        with self._sending, suppress(OSError):
            self._connection.sendall(orjson.dumps(fields) + b"\n")

    def send_at_once(self, fields: Mapping[str, Any]) -> None:
        """Sends without waiting for anything."""
        # Without the lock of `send`, whose holder may wait for the node.
        with suppress(OSError):
            if select.select([], [self._connection], [], 0)[1]:
                self._connection.send(orjson.dumps(fields) + b"\n", socket.MSG_DONTWAIT)

    def orders(self) -> Any:
        with suppress(OSError), self._connection.makefile("rb") as lines:
            yield from map(orjson.loads, lines)


class _Logs(logging.Handler):
    """Each task's records go to its own log, all others to stderr."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self._files: dict[str, RotatedLog] = {}
        self._changing = Lock()

    def open(self, task_id: str, path: Path) -> None:
        with self._changing:
            self._files[task_id] = RotatedLog(path)

    def close_of(self, task_id: str, last_words: str) -> None:
        with self._changing, self._files.pop(task_id) as file:
            if last_words:
                file.write(f"{last_words}\n".encode())

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record) + "\n"
        with self._changing:
            file = self._files.get(TASK_AT_WORK.get())
            if file is None:
                sys.stderr.write(line)
            else:
                file.write(line.encode("utf-8", "replace"))


class _Tasks:
    """The tasks of this process, a thread each."""

    def __init__(
        self, bus: BusSettings, client: KazooClient, guard: Guard, channel: _Channel, logs: _Logs
    ) -> None:
        self._bus, self._client, self._guard = bus, client, guard
        self.is_spark_wanted = Event()
        self.spark: Future[OpenSpark] = Future()  # it starts while tasks continue
        self._channel, self._logs = channel, logs
        self._running: dict[int, tuple[Thread, Stop]] = {}
        self._spark_users: set[int] = set()
        self._changing = Lock()

    def give_spark(self, opening: AbstractContextManager[OpenSpark], stop: Event) -> None:
        """Starts Spark for all tasks that ask for it, until `stop` is set. If it does not start,
        the tasks that have asked get the error, and the next one that asks starts it again."""
        try:
            with opening as open_spark:
                self.spark.set_result(open_spark)
                stop.wait()
                # Within the block, as the tasks use the session until they have ended.
                self.stop_all()
        except Exception as error:
            # Spark had started, so this is not an error of the start.
            if self.spark.done():
                raise
            # Cleared first: a task that asks from now on sets it again, for the next one.
            self.is_spark_wanted.clear()
            failed, self.spark = self.spark, Future()
            failed.set_exception(error)

    def start(self, number: int, task_id: str, log: Path) -> None:
        """Starts the task. Never raises: the node is told why it has ended."""
        stop = Stop()
        self._logs.open(task_id, log)
        thread = Thread(
            target=self._run, args=(number, task_id, stop), name=f"task-{task_id}", daemon=True
        )
        try:
            # Together: nobody can wait for a thread that has not started.
            with self._changing:
                self._running[number] = thread, stop
                start_thread(thread)
        except OSError as error:
            del self._running[number]
            self._report_end(
                number,
                task_id,
                FAILED,
                f"it cannot be started on node {os.environ.get(NODE_VARIABLE, '')}: "
                f"{error.strerror}; check its limits of threads and memory",
            )

    def stop(self, number: int) -> None:
        _, stop = self._running.get(number, (None, None))
        if stop is not None:
            stop.set()

    def stop_all(self) -> None:
        """Returns when all have ended."""
        with self._changing:
            running = list(self._running.values())
        for _, stop in running:
            stop.set()
        for thread, _ in running:
            thread.join()

    def end_with_spark(self, sentence: str) -> None:
        """Ends all tasks at once, as their JVM or its application has ended. Only those that used
        it can have caused that."""
        _end_at_once(self._channel, {"crash": sentence, "tasks": list(self._spark_users)})

    @contextmanager
    def _open_session(
        self, number: int, task: LoadTask, stop: Event
    ) -> Iterator[tuple[SparkSession, Path]]:
        self._spark_users.add(number)
        try:
            with self._shared_session(task, stop) as session:
                yield session
        finally:
            self._spark_users.remove(number)

    @contextmanager
    def _shared_session(self, task: LoadTask, stop: Event) -> Iterator[tuple[SparkSession, Path]]:
        # The future before the wish: a failed start replaces `self.spark`, and this one gets its
        # error.
        spark = self.spark
        self.is_spark_wanted.set()
        # Polled, so that a task can be stopped while Spark starts.
        while not spark.done():
            if stop.wait(WAIT_SECONDS):
                raise _StoppedBefore
        with spark.result()(task, stop) as session:
            yield session

    def _run(self, number: int, task_id: str, stop: Stop) -> None:
        TASK_AT_WORK.set(task_id)
        begin_task()
        code, sentence = 0, ""
        try:
            task = ready_task(
                task_id,
                self._bus,
                patiently(lambda: inspect_stored(task_id, self._bus, Severity.ERROR), stop.is_set),
            )
            patiently(lambda: refuse_others_names(task, self._bus), stop.is_set)
            run_guarded(
                task,
                self._client,
                self._guard,
                os.environ.get(NODE_VARIABLE, ""),
                stop,
                partial(self._open_session, number),
            )
        except _StoppedBefore:
            pass
        except CdcError as error:
            code, sentence = end_of(error, task_id)
        except Exception as error:
            # A bug ends this task only, and the node must hear of its end in any case.
            code = FAILED
            sentence = (
                f"unexpected {type(error).__name__}; please report it with the output of `cdcbus "
                f"--debug task run {task_id}`"
            )
        self._report_end(number, task_id, code, sentence)
        del self._running[number]

    def _report_end(self, number: int, task_id: str, code: int, sentence: str) -> None:
        # The log is closed first: the node may start the task again, with the same log, once it
        # knows.
        self._logs.close_of(task_id, sentence)
        self._channel.send({"ended": number, "code": code, "sentence": sentence})


class _StoppedBefore(Exception):
    """A task was asked to stop before Spark had started."""


def _obey(channel: _Channel, tasks: _Tasks, stop: Event) -> None:
    for order in channel.orders():
        if "start" in order:
            tasks.start(order["start"], order["task"], Path(order["log"]))
        else:
            tasks.stop(order["stop"])
    # The node has closed the socket, or has ended.
    stop.set()
