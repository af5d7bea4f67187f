"""A task that a node runs, as a child process: `cdcbus task run ID`. Everything it prints goes to
one log file, which is rotated."""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

from cdcbus.ops.node.task_end import SENTENCE_FOLLOWS
from cdcbus.plugins.own_program import own_program
from cdcbus.tasks.process_identity import NODE_VARIABLE, PARENT_VARIABLE, process_token

LOG = logging.getLogger(__name__)
# With the current file, a task's logs take 60 MiB at most.
LOG_BYTES = 10 << 20
LOG_FILES = 5
LOG_MODE = 0o640
KILL_SECONDS = 1.0
# a line of the log, not the sentence that the task ends with
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d |\s+at |WARNING|warning: |\d\d/\d\d/\d\d ")


def start_task(
    task_id: str,
    node_id: str,
    environment: Mapping[str, str],
    log: Path,
    on_end: Callable[[], object],
) -> TaskProcess:
    """Starts a task. Call it on the thread that lives as long as the node, as the task ends with
    that thread. `on_end` is called when the task has ended. Raises OSError."""
    process = subprocess.Popen(
        own_program("cdcbus", "task", "run", task_id),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=child_environment(environment, node_id),
        # A group of its own: `kill` reaches its children, and Ctrl-C at the node does not reach it.
        start_new_session=True,
    )
    return TaskProcess(process, log, on_end)


def child_environment(environment: Mapping[str, str], node_id: str) -> dict[str, str]:
    """The environment of a process that a node starts, and that ends with the node."""
    return {
        **environment,
        NODE_VARIABLE: node_id,
        PARENT_VARIABLE: str(os.getpid()),
        # What a killed task has printed is in its log.
        "PYTHONUNBUFFERED": "1",
    }


def start_thread(thread: Thread) -> None:
    """Starts a thread. Raises OSError where this process may have no more, as a process that cannot
    be started does."""
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error


class TaskProcess:
    """A started task. `token`: see `process_token`."""

    is_faultless = False  # whatever ends it is its own fault

    def __init__(
        self, process: subprocess.Popen[bytes], log: Path, on_end: Callable[[], object]
    ) -> None:
        """Raises OSError, and kills the process, where this one may have no more threads."""
        self._process, self.log, self._on_end = process, log, on_end
        self.token = process_token(process.pid)
        # It has ended, and what it left running was killed.
        self._is_over = False
        # Until then it was waited for, after it was killed; 0: it was not killed.
        self._kill_by = 0.0
        # What it printed was waited for.
        self._is_read = False
        # Enough for a sentence of several lines.
        self._last: deque[str] = deque(maxlen=20)
        self._reader = Thread(target=self._read, name=f"log-{process.pid}", daemon=True)
        try:
            start_thread(self._reader)
        except OSError:
            # Nobody would read what it prints.
            self.kill()
            assert process.stdout is not None
            process.stdout.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> int | None:
        """Its exit code, negative for the signal that ended it, once all that it printed is in
        the log; None while it runs. What it has left running is killed."""
        code = self._process.poll()
        if code is None:
            return None
        # After a kill there is no sentence to wait for; a kill after its end changes nothing. Once
        # and not longer, as a process that the task left running can hold the pipe.
        if code >= 0 and not self._is_read:
            self._reader.join(1)
            self._is_read = True
        self.kill()
        return code

    def ask_to_stop(self) -> None:
        """SIGTERM: it stores its position and ends."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float) -> None:
        """Returns when it has ended, or after that time."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL to it and its children; nothing once it has ended and was killed. It may not have
        ended when this returns: see `ended`."""
        # By now its number can be that of another process, whose group would be killed.
        if self._is_over:
            return
        # Also after its end: the group may have outlived it.
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:
            LOG.warning(
                "process %d has left processes of another user running; end them", self._process.pid
            )
        # Waited for once, and not for long: a process that waits for a dead disk does not end, and
        # the node has other tasks.
        if not self._kill_by:
            self._kill_by = time.monotonic() + KILL_SECONDS
        self.wait(self._kill_by - time.monotonic())
        self._is_over = self._process.poll() is not None

    def last_words(self) -> str:
        """The sentence that it ended with; empty without one."""
        words: list[str] = []
        for line in reversed(self._last):
            if line == SENTENCE_FOLLOWS or _LOGGED.match(line):
                break
            words.insert(0, line)
        # Where all lines are of the log, the last one says most.
        if not words:
            words = list(self._last)[-1:]
        return "\n".join(words)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed, RotatedLog(self.log) as log:
            for line in printed:
                log.write(line)
                if text := line.decode("utf-8", "replace").strip():
                    self._last.append(text)
        # The end of the pipe can come before that of the process.
        self._process.wait()
        self._on_end()


class RotatedLog:
    """Appends to a file. At LOG_BYTES the file becomes `.1`, the old `.1` becomes `.2`, and so on
    to LOG_FILES. Lines that the disk does not take are lost: a full disk stops no task."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._open()

    def __enter__(self) -> RotatedLog:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def write(self, line: bytes) -> None:
        with suppress(OSError):
            if self._file is None:
                self._open()
            if self._file is not None:
                # An empty file is not rotated: a line above the limit goes in whole.
                if self._file.tell() + len(line) > LOG_BYTES and self._file.tell():
                    self._rotate()
                self._file.write(line)
                self._file.flush()

    def _rotate(self) -> None:
        assert self._file is not None
        # None until a new one is open: if that fails, the next line tries again. So it does if the
        # disk does not take the last lines, which closes the file as well.
        full, self._file = self._file, None
        full.close()
        # From the oldest on, so that each name is free before it is used.
        for number in range(LOG_FILES - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _open(self) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.fdopen(_opened(self._path), "ab")


def _opened(path: Path) -> int:
    """Opens a log to append. For owner and group only, also if the file existed with more rights:
    logs name tables, hosts and users."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, LOG_MODE)
    with suppress(OSError):  # somebody else's file
        os.fchmod(file, LOG_MODE)
    return file
