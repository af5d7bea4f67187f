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
# The formats with an epoch, and whether it is last or first.
_IS_LAST: Final = {
    "canalRow": False,
    "canalCompat": False,
    "oggJson": True,
    "porterCompat": True,
}


def epoch_text(number: int, task_id: str, swimlane: str, bus: str = "") -> str:
    """The epoch of this holder, as in its records. `bus`: what identifies the keeper of the
    lock."""
    return f"{number:0{DIGITS}d}-{zlib.crc32(f'{task_id}/{swimlane}/{bus}'.encode()):08x}"


def without_epoch(value: bytes, converter: str) -> bytes:
    """A record without its epoch, as a record sent again on purpose is never late."""
    match _IS_LAST.get(converter):
        case False if found := _MEMBER_FIRST.match(value):
            return b"{" + value[found.end() :]
        case True if found := _MEMBER_LAST.search(value):
            return value[: found.start()] + b"}"
    return value


def epochs(values: pa.BinaryArray, converter: str) -> pa.BinaryArray | None:
    """The epoch of each record, null where it names none; None where none of them does."""
    # Imported here, as a fetch task only writes its epoch, and starts without PyArrow.
    import pyarrow as pa
    import pyarrow.compute as pc

    is_last = _IS_LAST.get(converter)
    if is_last is None:
        return None
    if is_last:
        start, end = _LAST, b'"}'
        found = pc.binary_slice(values, -_SIZE)
    else:
        start, end = _FIRST, b'",'
        found = pc.binary_slice(values, 0, _SIZE)
    is_named = pc.and_(pc.starts_with(found, start), pc.ends_with(found, end))
    is_named = pc.fill_null(is_named, False)
    if not pc.any(is_named).as_py():
        return None
    epoch = pc.binary_slice(found, len(start), -len(end))
    return pc.if_else(is_named, epoch, pa.scalar(None, found.type))
