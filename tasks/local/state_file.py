"""A file in the place of ZooKeeper: all that one task stores, for one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

import orjson

from cdcbus.plugins.errors import PositionError, PositionUnavailable

FORMAT = 1
_FULL = (errno.ENOSPC, errno.EDQUOT)
Fields = dict[str, Any]


class StateFile:
    """What a task stores, by swimlane. Thread-safe. It is there wholly or as it was before, also
    after a loss of power: written beside, synchronised, put in its place.

    Others may edit the file meanwhile: it is read again wherever it is not the one that was
    written last. Raises PositionError for what is not such a file, or another task's;
    PositionUnavailable where the disk is full.
    """

    def __init__(self, path: Path, task_id: str) -> None:
        self.path, self._task_id = path, task_id
        self._lock = RLock()
        self._fields: Fields = {}
        self._seen: tuple[int, ...] | None = None
        with self._lock:
            self._look()

    def swimlane(self, name: str) -> Fields:
        """What is stored of it, as the file is now; not to be changed."""
        with self._lock:
            self._look()
            found: Fields = self._fields.get("swimlanes", {}).get(name, {})
            return found

    def change(self, name: str, make: Callable[[Fields], None]) -> None:
        """Stores durably what `make` does to a swimlane's fields: in place of their members, never
        within them, so that nothing is changed where the write fails."""
        with self._lock:
            self._look()
            swimlanes = dict(self._fields.get("swimlanes", {}))
            swimlane = dict(swimlanes.get(name, {}))
            make(swimlane)
            swimlanes[name] = swimlane
            self._write({"format": FORMAT, "task": self._task_id, "swimlanes": swimlanes})

    def next_number(self, least: int = 0) -> int:
        """A number that grows with each change and from file to file: the time, in microseconds."""
        with self._lock:
            numbers = [least]
            for swimlane in self._fields.get("swimlanes", {}).values():
                numbers += (swimlane.get("change", 0), swimlane.get("epoch", 0))
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
        if not data.strip():
            raise PositionError(
                f"{self.path} is empty; delete it if task {self._task_id} is to begin anew, else "
                "bring back the file as it was"
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
                f"{self.path} is of a version of cdcbus that is not known here; expected "
                f'"format": {FORMAT} and an object for each swimlane'
            )
        if task_id != self._task_id:
            raise PositionError(
                f"{self.path} has the positions of task {task_id}, not of task {self._task_id}; "
                "give each task a file of its own"
            )
        return dict(fields)

    def _write(self, fields: Fields) -> None:
        beside = self.path.with_name(f".{self.path.name}.new")
        try:
            with beside.open("wb") as file:
                file.write(orjson.dumps(fields, option=orjson.OPT_INDENT_2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
                seen = _identity(os.fstat(file.fileno()))
            beside.replace(self.path)
            _synchronise(self.path.parent)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            raise _failed(self.path, "written", error) from error
        self._fields, self._seen = fields, seen


@contextmanager
def state_file(path: Path, task_id: str) -> Iterator[StateFile]:
    """The file of positions, which need not be there yet, as the only process that has it: until
    the block ends, or the process does. Raises PositionError."""
    place = path.resolve()  # so that links to one file have one lock
    if place.exists() and not place.is_file():
        raise PositionError(f"{path} is not a file; name one for the positions of task {task_id}")
    lock = place.with_name(f"{place.name}.lock")
    try:
        number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _failed(lock, "made", error) from error
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(number, 20, 0).decode("ascii", "replace").strip() or "another one"
            raise PositionError(
                f"{path} is in use by process {holder}, which runs with it; stop that one, or name "
                "another file"
            ) from error
        os.ftruncate(number, 0)
        os.pwrite(number, f"{os.getpid()}\n".encode(), 0)
        yield StateFile(place, task_id)
    finally:
        os.close(number)


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    # not the time of the inode's own change: putting the file in its place sets it
    return stat.st_ino, stat.st_dev, stat.st_size, stat.st_mtime_ns


def _synchronise(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _failed(path: Path, done: str, error: OSError) -> PositionError:
    sentence = f"{path} cannot be {done}: {error.strerror}"
    if error.errno in _FULL:
        return PositionUnavailable(f"{sentence}; make room there")
    return PositionError(f"{sentence}; correct the path or its rights")
