"""A file in place of ZooKeeper: everything that one task stores, for one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

import orjson

from cdcbus.plugins.errors import NO_ROOM, PositionError, PositionUnavailable
from cdcbus.tasks.whole_file import write_whole

# Raised when an earlier version could no longer read the file.
FORMAT = 1
TOO_MUCH_OPEN = (errno.EMFILE, errno.ENFILE)
Fields = dict[str, Any]


class StateFile:
    """What a task stores, by swimlane. Thread-safe. Writes are atomic, even on a power failure,
    see `write_whole`.

    Others may edit the file at any time: it is read again whenever it is not the one that was
    written last. Raises PositionError for a file of another form, or of another task, and
    PositionUnavailable when the disk is full.
    """

    def __init__(self, path: Path, task_id: str) -> None:
        self.path, self._task_id = path, task_id
        # Reentrant, because `change` looks at the file itself.
        self._lock = RLock()
        self._fields: Fields = {}
        # Which file was read or written last, see `_identity`; None: there was none.
        self._seen: tuple[int, ...] | None = None
        with self._lock:
            self._look()

    def swimlane(self, name: str) -> Fields:
        """The fields of a swimlane, as the file is now. The caller must not change them."""
        with self._lock:
            self._look()
            found: Fields = self._fields.get("swimlanes", {}).get(name, {})
            return found

    def swimlanes(self) -> Mapping[str, Fields]:
        """The fields of all swimlanes, by name, under the same condition."""
        with self._lock:
            self._look()
            found: Mapping[str, Fields] = self._fields.get("swimlanes", {})
            return found

    def change(self, name: str, make: Callable[[Fields], None]) -> None:
        """Durably stores what `make` does to a swimlane's fields. `make` replaces members and never
        changes them in place, so that nothing is changed if the write fails."""
        with self._lock:
            self._look()
            # Copies, so that a failed write leaves the fields as the file has them.
            swimlanes = dict(self._fields.get("swimlanes", {}))
            swimlane = dict(swimlanes.get(name, {}))
            make(swimlane)
            swimlanes[name] = swimlane
            self._write({"format": FORMAT, "task": self._task_id, "swimlanes": swimlanes})

    def next_number(self, least: int = 0) -> int:
        """A number, at least the time in microseconds, that grows with each change, also from one
        file to the next. It is greater than `least`."""
        with self._lock:
            numbers = [least]
            for swimlane in self._fields.get("swimlanes", {}).values():
                numbers += (swimlane.get("change", 0), swimlane.get("epoch", 0))
            # By time, so that a file that was deleted or replaced does not give a number twice.
            return max(*numbers, time.time_ns() // 1_000 - 1) + 1

    def _look(self) -> None:
        try:
            seen = _identity(self.path.stat())
            if seen == self._seen:
                return
            data = self.path.read_bytes()
        except FileNotFoundError:
            self._fields, self._seen = {}, None
            return
        except OSError as error:
            raise _failed(self.path, "read", error) from error
        self._fields, self._seen = self._read(data), seen

    def _read(self, data: bytes) -> Fields:
        # Editors and full disks leave empty files; starting from scratch is a person's decision.
        if not data.strip():
            raise PositionError(
                f"{self.path} is empty; delete it if task {self._task_id} should start from "
                "scratch, else restore the file"
            )
        try:
            fields = orjson.loads(data)
            swimlanes = fields["swimlanes"]
            is_known = fields["format"] == FORMAT and all(
                isinstance(each, dict) for each in swimlanes.values()
            )
            task_id = str(fields["task"])
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise PositionError(
                f"{self.path} is not a file of positions: expected JSON with format, task and "
                f"swimlanes, {error}; name another file, or correct this one"
            ) from error
        if not is_known:
            raise PositionError(
                f"{self.path} is from an unknown version of cdcbus; expected "
                f'"format": {FORMAT} and an object for each swimlane'
            )
        if task_id != self._task_id:
            raise PositionError(
                f"{self.path} has the positions of task {task_id}, not of task {self._task_id}; "
                "give each task a file of its own"
            )
        return dict(fields)

    def _write(self, fields: Fields) -> None:
        data = orjson.dumps(fields, option=orjson.OPT_INDENT_2) + b"\n"
        try:
            seen = _identity(write_whole(self.path, data, is_replacing=True))
        except OSError as error:
            raise _failed(self.path, "written", error) from error
        self._fields, self._seen = fields, seen


@contextmanager
def state_file(path: Path, task_id: str) -> Iterator[StateFile]:
    """The file of positions, which need not exist yet, locked for this process until the block or
    the process ends. Raises PositionError when another process has it."""
    # So that links to one file have one lock.
    place = path.resolve()
    if place.exists() and not place.is_file():
        raise PositionError(f"{path} is not a file; name one for the positions of task {task_id}")
    # A file of its own, as each write replaces the file of positions.
    lock = place.with_name(f"{place.name}.lock")
    try:
        number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _failed(lock, "created", error) from error
    try:
        try:
            # The kernel releases it however the process ends, so nothing is left to clean up.
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(number, 20, 0).decode("ascii", "replace").strip()
            holder = f"process {pid}" if pid else "another process"
            raise PositionError(
                f"{path} is in use by {holder}; stop that process, or name another file"
            ) from error
        except OSError as error:
            raise _failed(lock, "locked", error) from error
        # Who holds the lock, for the message above; the number itself locks nothing, so that a full
        # disk does no harm.
        with suppress(OSError):
            os.ftruncate(number, 0)
            os.pwrite(number, f"{os.getpid()}\n".encode(), 0)
        yield StateFile(place, task_id)
    finally:
        os.close(number)


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    # without the time of the inode's change, which the rename sets
    return stat.st_ino, stat.st_dev, stat.st_size, stat.st_mtime_ns


def _failed(path: Path, done: str, error: OSError) -> PositionError:
    sentence = f"{path} cannot be {done}: {error.strerror}"
    if error.errno in NO_ROOM:
        return PositionUnavailable(f"{sentence}; make room there")
    if error.errno in TOO_MUCH_OPEN:
        return PositionUnavailable(
            f"{sentence}; raise the limit of the process (ulimit -n, LimitNOFILE of its unit), or "
            "of the machine (fs.file-max)"
        )
    return PositionError(f"{sentence}; correct the path or its rights")
