"""The epoch in a record: it identifies the holder of a swimlane's lock that sent the record, so
that readers recognize a late record of a process that has lost the lock.

It is text of a fixed length: 13 digits that grow with each holder, a hyphen, and 8 hexadecimal
digits that identify the fetch task, its swimlane and the bus that keeps the lock: another bus
counts epochs of its own, also for a task of the same id. Its place can be found without parsing the
record: first in canalRow, last in oggJson.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

DIGITS: Final = 13
LENGTH: Final = DIGITS + 9
_BEFORE, _AFTER = b'"epoch":"', b'"'
_SIZE: Final = 1 + len(_BEFORE) + LENGTH + len(_AFTER) + 1
_FIRST, _LAST = b"{" + _BEFORE, b"," + _BEFORE
# Of any length, as tasks without ZooKeeper have written longer ones.
_TEXT: Final = rb"[0-9]+-[0-9a-f]{8}" + _AFTER
_MEMBER_FIRST: Final = re.compile(_FIRST + _TEXT + b",")
_MEMBER_LAST: Final = re.compile(_LAST + _TEXT + rb"\}\Z")
# Where each converter's records can have an epoch, for `auto` that of either format. The other
# formats that `auto` reads have their columns deeper inside, so none of their records shows one.
_PLACES: Final = {
    "canalRow": (_FIRST,),
    "canalCompat": (_FIRST,),
    "oggJson": (_LAST,),
    "porterCompat": (_LAST,),
    "auto": (_FIRST, _LAST),
}


def has_epochs(converter: str) -> bool:
    """Whether records that this converter reads can have an epoch."""
    return converter in _PLACES


def epoch_text(number: int, task_id: str, swimlane: str, bus: str = "") -> str:
    """The epoch of this holder, as in its records. `bus`: what identifies the keeper of the
    lock."""
    return f"{number:0{DIGITS}d}-{zlib.crc32(f'{task_id}/{swimlane}/{bus}'.encode()):08x}"


def without_epoch(value: bytes, converter: str) -> bytes:
    """A record without its epoch, as a record sent again on purpose is never late."""
    for place in _PLACES.get(converter, ()):
        if place == _FIRST and (found := _MEMBER_FIRST.match(value)):
            return b"{" + value[found.end() :]
        if place == _LAST and (found := _MEMBER_LAST.search(value)):
            return value[: found.start()] + b"}"
    return value


def epochs(values: pa.BinaryArray, converter: str) -> pa.BinaryArray | None:
    """The epoch of each record, null where it names none; None where none of them does."""
    # Imported here, as a fetch task only writes its epoch, and starts without PyArrow.
    import pyarrow.compute as pc

    found = None
    for place in _PLACES.get(converter, ()):
        there = _epochs_at(place, values)
        if found is None:
            found = there
        elif there is not None:
            found = pc.coalesce(found, there)
    return found


def _epochs_at(place: bytes, values: pa.BinaryArray) -> pa.BinaryArray | None:
    """As `epochs`, where each record has its epoch in this place, if any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if place == _LAST:
        end = b'"}'
        found = pc.binary_slice(values, -_SIZE)
    else:
        end = b'",'
        found = pc.binary_slice(values, 0, _SIZE)
    is_named = pc.and_(pc.starts_with(found, place), pc.ends_with(found, end))
    is_named = pc.fill_null(is_named, False)
    if not pc.any(is_named).as_py():
        return None
    epoch = pc.binary_slice(found, len(place), -len(end))
    return pc.if_else(is_named, epoch, pa.scalar(None, found.type))
