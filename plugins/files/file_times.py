"""When files of certificates and keys were written, and which of them were read.

What is wrong with a certificate or key that was read well and written since may pass, as one of the
two is renewed first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

# Of files that were read together, here or by the driver: when each had been written.
_READ: dict[frozenset[str], dict[str, int]] = {}


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
