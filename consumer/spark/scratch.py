"""The folder in which a Spark application keeps its temporary files."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cdcbus.consumer.spark.spark_errors import unwritable

_SCRATCH = "cdcbus-spark-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yields an empty folder, which is deleted after the block, even where Spark does not start.
    Removes the folders of killed tasks first."""
    try:
        parent = Path(tempfile.gettempdir())
    except OSError as error:
        raise unwritable("any folder", error) from error
    _remove_leftovers(parent)
    folder = new_folder(parent, f"{_SCRATCH}{os.getpid()}-")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # systemd-tmpfiles empties /tmp of what is older than ten days, but not of what is locked.
        with suppress(OSError):
            stack.callback(os.close, _locked(folder))
        yield folder


def _locked(folder: Path) -> int:
    """A descriptor that holds a lock on the folder until it is closed. Raises BlockingIOError where
    another process has it, OSError where the file system has no locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def new_folder(parent: Path, prefix: str = "") -> Path:
    """A new folder. Raises SparkUnavailable where it cannot be made."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:
        raise unwritable(parent, error) from error


def _remove_leftovers(parent: Path) -> None:
    """Removes scratch folders of killed tasks: a folder's name holds the id of its process. A
    locked one is in use all the same, by another container that shares the parent folder."""
    for folder in parent.glob(f"{_SCRATCH}*"):
        pid, _, _ = folder.name.removeprefix(_SCRATCH).partition("-")
        if pid.isdigit() and not _is_alive(int(pid)) and not _is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_locked(folder: Path) -> bool:
    try:
        os.close(_locked(folder))
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
