"""When files of certificates, keys and passwords were written, and which of them were read.

What is wrong with a certificate or key that was read well and written since may pass, as one of the
two is renewed first. A task reads its passwords only when it starts, so another start may help it
where one was written since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from cdcbus.plugins.log_context import TASK_AT_WORK

# Of files that were read together, here or by the driver: when each had been written.
_READ: dict[frozenset[str], dict[str, int]] = {}
# Of files of passwords: when each had been written as it was first read. By task where the process
# runs several, else under no name: any thread of a task can ask.
_OF_PROCESS: dict[str, int] = {}
_TAKEN: dict[str, dict[str, int]] = {}


def written_at(paths: Iterable[str]) -> dict[str, int]:
    """When each file was written, in epoch nanoseconds; 0 for one that cannot be found. It differs
    once a certificate has been renewed."""
    found: dict[str, int] = {}
    for path in sorted(paths):
        try:
            found[path] = Path(path).stat().st_mtime_ns
        except (OSError, ValueError):
            found[path] = 0
    return found


def note_read(times: Mapping[str, int]) -> None:
    """Notes that files can be used together; `times` were taken before they were read."""
    _READ[frozenset(times)] = dict(times)


def note_readable(times: Mapping[str, int]) -> None:
    """Notes that files could be read together, unless such were used before: a server that is not
    asked yet may refuse what they hold."""
    _READ.setdefault(frozenset(times), dict(times))


def all_read() -> dict[frozenset[str], dict[str, int]]:
    """All that was noted as read, for another process of the task."""
    return dict(_READ)


def note_all_read(read: Mapping[frozenset[str], dict[str, int]]) -> None:
    """Notes what another process of the task has read, and this one has not."""
    for times in read.values():
        note_readable(times)


def are_written_since(times: Mapping[str, int]) -> bool:
    """Whether the task, or another one here, has used files together, and one was written since."""
    return _READ.get(frozenset(times), times) != times


def begin_task() -> None:
    """Has the task at work count by itself what it takes over: the process runs others as well."""
    _TAKEN[TASK_AT_WORK.get()] = {}


def _taken() -> dict[str, int]:
    return _TAKEN.get(TASK_AT_WORK.get(), _OF_PROCESS)


def note_taken(path: str) -> None:
    """Notes, before it is read, that the text of a file is taken over for good."""
    taken = _taken()
    if path not in taken:
        taken |= written_at([path])


def newer_than_taken() -> list[str]:
    """The files that were written after they were taken over, and are there."""
    taken = _taken()
    now = written_at(taken)
    return [path for path, at in now.items() if at not in (0, taken[path])]
