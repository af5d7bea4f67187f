"""When files of certificates and keys were written, and which of them this process has read well:
what is wrong with one that was written since may pass, as a certificate is renewed first and its
key then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

# Of files that were read together: when each had been written.
_READ: dict[frozenset[str], dict[str, int]] = {}


def written_at(paths: Iterable[str]) -> dict[str, int]:
    """When each file was written, in epoch nanoseconds; 0 for one that cannot be found. It differs
    once a certificate has been renewed."""
    found: dict[str, int] = {}
    for path in sorted(paths):
        try:
            found[path] = Path(path).stat().st_mtime_ns
        except OSError:
            found[path] = 0
    return found


def note_read(times: Mapping[str, int]) -> None:
    """Notes that files can be used together; `times` were taken before they were read."""
    _READ[frozenset(times)] = dict(times)


def are_written_since(times: Mapping[str, int]) -> bool:
    """Whether files have been used together in this process, and one was written since."""
    return _READ.get(frozenset(times), times) != times
