"""The folder in which a Spark application keeps its temporary files."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
    with ExitStack() as stack:
        yield _new_locked(parent, stack)


def _new_locked(parent: Path, stack: ExitStack) -> Path:
    """A new folder, locked where the file system has locks; `stack` removes it. systemd-tmpfiles
    empties /tmp of what is older than ten days, but not of what is locked."""
    while True:
        folder = new_folder(parent, f"{_SCRATCH}{os.getpid()}-")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            stack.callback(os.close, _locked(folder))
        # Somebody found it before it was locked, and removes it.
        except (BlockingIOError, FileNotFoundError):
            continue
        except OSError:
            return folder
        if folder.exists():
            return folder


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
    """Removes scratch folders of killed tasks, which nobody has locked. Only where the file system
    has no locks, the id of its process counts, which a folder's name holds: in a container another
    process soon has the same."""
    for folder in parent.glob(f"{_SCRATCH}*"):
        pid, _, _ = folder.name.removeprefix(_SCRATCH).partition("-")
        if not pid.isdigit():
            continue
        with ExitStack() as stack:
            try:
                # Held until it is removed: its maker sees so that it must make another one.
                stack.callback(os.close, _locked(folder))
            except BlockingIOError:
                continue
            except OSError:
                if _is_alive(int(pid)):
                    continue
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
