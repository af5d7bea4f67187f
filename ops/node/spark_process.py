"""The consumer tasks of a node that share one Spark application: one child process, `cdcbus node
spark`, whatever their number."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import orjson

from cdcbus.ops.node.task_process import TaskProcess, child_environment, start_thread
from cdcbus.plugins.own_program import own_program

COMMAND = own_program("cdcbus", "node", "spark")
CLOSE_SECONDS = 10.0


class SparkTask:
    """A started task that shares its process with others. `is_faultless`: it ended because of
    another, or because the process had to end."""

    def __init__(self, number: int, process: SparkProcess) -> None:
        self.number, self._process = number, process
        self._end: tuple[int, str] | None = None
        self.is_faultless = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def token(self) -> str:
        """See `process_token`."""
        return self._process.token

    def ended(self) -> int | None:
        """Its exit code, negative for the signal that ended the whole process; None while it
        runs."""
        if self._end is None:
            return None
        code, _ = self._end
        return code

    def ask_to_stop(self) -> None:
        """It stores its position and ends; the others continue."""
        if self._end is None:
            self._process.order({"stop": self.number})

    def kill(self) -> None:
        """Kills the process, if it has not ended yet: the others end with it, by no fault of
        theirs."""
        if self._end is None:
            self._process.kill(self)

    def last_words(self) -> str:
        """The sentence that it ended with; empty without one."""
        if self._end is None:
            return ""
        _, sentence = self._end
        return sentence

    def end(self, code: int, sentence: str, is_faultless: bool) -> None:
        self.is_faultless = is_faultless
        # `_end` last: the node's thread reads the rest as soon as it is set.
        self._end = code, sentence


class SparkProcess:
    """The shared process. Create it on the thread that lives as long as the node, as it ends with
    that thread. `log`: for what belongs to no task. `on_end` is called when tasks have ended.
    Raises OSError where it cannot be started."""

    def __init__(
        self, node_id: str, environment: Mapping[str, str], log: Path, on_end: Callable[[], object]
    ) -> None:
        # One socket for orders and reports; it closes when either process ends, however it ends.
        self._connection, child_end = socket.socketpair()
        self._on_end = on_end
        self._numbers = count(1)
        self._changing = Lock()
        self._tasks: dict[int, SparkTask] | None = {}  # None: it has ended
        # The tasks that it was killed for, or that used Spark when it ended, and why the process
        # gave up all tasks on its own: then the others are faultless.
        self._blamed: Collection[int] | None = None
        self._is_ending = False
        self._why = ""
        # Closed here once it is inherited: otherwise `_listen` would never see the child's end of
        # it close.
        with ExitStack() as undo, child_end:
            undo.callback(self._connection.close)
            process = subprocess.Popen(
                COMMAND,
                stdin=child_end.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=child_environment(environment, node_id),
                # A group of its own: `kill` reaches its JVM, and Ctrl-C at the node does not reach
                # it.
                start_new_session=True,
            )
            # `_listen` calls `on_end`, once it knows how the tasks have ended.
            self._process = TaskProcess(process, log, lambda: None)
            self._listener = Thread(target=self._listen, name=f"spark-{process.pid}", daemon=True)
            undo.callback(self._process.kill)
            start_thread(self._listener)
            undo.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def token(self) -> str:
        """See `process_token`."""
        return self._process.token

    @property
    def is_there(self) -> bool:
        """Whether it takes tasks: not any more once it ends, which can take long."""
        return not self._is_ending

    def start(self, task_id: str, log: Path) -> SparkTask:
        task = SparkTask(next(self._numbers), self)
        # A task is either among those that `_listen` ends, or sees here that the process ends, and
        # so has never had its order.
        with self._changing:
            if self._tasks is None or self._is_ending:
                task.end(-signal.SIGKILL, "its process has just ended", is_faultless=True)
            else:
                self._tasks[task.number] = task
        self.order({"start": task.number, "task": task_id, "log": str(log)})
        return task

    def order(self, fields: Mapping[str, object]) -> None:
        with suppress(OSError):  # `_listen` notices that it has ended
            self._connection.sendall(orjson.dumps(fields) + b"\n")

    def kill(self, blamed: SparkTask) -> None:
        """Kills the process because of one task, the first that this is called for; the others end
        by no fault of theirs."""
        # Before the kill: `_listen` reads it as soon as the process has ended.
        if self._blamed is None:
            self._blamed = [blamed.number]
        self._process.kill()

    def close(self) -> None:
        """Returns when the process has ended. Call it once its tasks have ended."""
        # No more orders: the process stops its tasks, and can still report them.
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        self._listener.join(CLOSE_SECONDS)
        self._process.kill()

    def _listen(self) -> None:
        with suppress(OSError), self._connection, self._connection.makefile("rb") as lines:
            for line in lines:
                fields = _fields_of(line)
                # The first reason counts; later ones follow from it.
                if not self._why and (why := fields.get("lost") or fields.get("crash")):
                    self._why, self._blamed = why, fields.get("tasks", [])
                # None: the task was already ended with the process, or is unknown.
                if self._tasks and (task := self._tasks.pop(fields.get("ended"), None)) is not None:
                    task.end(fields["code"], fields["sentence"], is_faultless=False)
                    self._on_end()
        with self._changing:
            self._is_ending = True
        # The socket closes a moment before the process has ended and has an exit code.
        self._process.wait(CLOSE_SECONDS)
        self._process.kill()  # and what it left running
        # Its tasks end with it: a process that waits for a dead disk can still hold their locks.
        while (code := self._process.ended()) is None:
            self._process.wait(CLOSE_SECONDS)
        # Code 0 with tasks left: somebody has stopped the process.
        code = code or -signal.SIGTERM
        sentence = self._why
        # The last lines of a process that was killed are not about its end.
        if not sentence and code > 0:
            sentence = self._process.last_words()
        with self._changing:
            rest, self._tasks = self._tasks or {}, None
        # Without a reason and without a task to blame, it counts as a crash of each task.
        for task in rest.values():
            is_blamed = self._blamed is None or task.number in self._blamed
            task.end(code, sentence, is_faultless=not is_blamed)
        self._on_end()


def _fields_of(line: bytes) -> Any:
    """The fields of a line; none where the process was killed while it wrote it."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
