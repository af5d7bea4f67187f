"""Texts of files, such as passwords, that a task takes over when it starts.

It never reads them again, so another start may help one that is refused where such a file holds
another text by now.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import javaproperties

from cdcbus.plugins.log_context import TASK_AT_WORK

EMPTIED_SECONDS: Final = 60.0
# By path and key: what was first read; empty while nothing could be. By task where the process runs
# several, else under no name: any thread of a task can ask.
_Texts = dict[tuple[str, str], str]
_OF_PROCESS: _Texts = {}
_TAKEN: dict[str, _Texts] = {}


def begin_task(taken: Mapping[tuple[str, str], str] | None = None) -> None:
    """Has the task at work count by itself what it takes over: the process runs others as well.
    `taken`: as `all_taken` of another process of the task."""
    _TAKEN[TASK_AT_WORK.get()] = dict(taken or {})


def all_taken() -> _Texts:
    """What the task has taken over, for another process of it."""
    return dict(_taken())


def _taken() -> _Texts:
    return _TAKEN.get(TASK_AT_WORK.get(), _OF_PROCESS)


def take(path: str, key: str) -> str:
    """The text of a file, without the line break at its end; with a `key`, the text behind that.
    Raises OSError, ValueError where it is not such a file, KeyError."""
    taken = _taken()
    taken.setdefault((path, key), "")
    text = _read(path, key)
    taken[path, key] = taken[path, key] or text
    return text


def _read(path: str, key: str) -> str:
    text = Path(path).read_text(encoding="utf-8")
    # Editors end files with a line break, which no secret has.
    return javaproperties.loads(text)[key] if key else text.rstrip("\r\n")


def changed_files() -> list[str]:
    """The files that hold another text than was taken over, if any."""
    taken = _taken().items()
    return sorted({path for (path, key), text in taken if _present(path, key) not in ("", text)})


def emptied_files() -> list[str]:
    """The files that were taken over and have just lost all of their text, as while they are
    written."""
    return sorted({path for path, _ in _taken() if _is_emptied(Path(path))})


def _is_emptied(file: Path) -> bool:
    try:
        found = file.stat()
    except OSError:  # removed just now
        return False
    # One that stays empty is meant to be, or a person must see it.
    is_young = time.time() - found.st_mtime < EMPTIED_SECONDS
    return file.is_file() and not found.st_size and is_young


def _present(path: str, key: str) -> str:
    """The text by now; empty where there is none."""
    # Others, such as pipes, can be read only once.
    if not Path(path).is_file():
        return ""
    try:
        return _read(path, key)
    except (OSError, ValueError, KeyError):
        return ""
