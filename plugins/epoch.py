"""The epoch in a record: which holder of a swimlane's lock has sent it, so that readers can tell
a late record of one that has lost it.

Text of a fixed length: 13 digits that grow with each holder, a hyphen, and 8 hexadecimal digits
that stand for the fetch task and its swimlane. It stands where it is found without reading the
record: canalRow has it first, oggJson last.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

DIGITS: Final = 13
LENGTH: Final = DIGITS + 9
_BEFORE, _AFTER = b'"epoch":"', b'"'
_SIZE: Final = 1 + len(_BEFORE) + LENGTH + len(_AFTER) + 1
_FIRST, _LAST = b"{" + _BEFORE, b"," + _BEFORE
_IS_LAST: Final = {"canalRow": False, "canalCompat": False, "oggJson": True, "porterCompat": True}
"""The formats that have it, and in which place."""


def epoch_text(number: int, task_id: str, swimlane: str) -> str:
    """The epoch in the records of this holder."""
    return f"{number:0{DIGITS}d}-{zlib.crc32(f'{task_id}/{swimlane}'.encode()):08x}"


def without_epoch(value: bytes, converter: str) -> bytes:
    """A record without its epoch: what is sent once more on purpose is never late."""
    match _IS_LAST.get(converter):
        case False if value.startswith(_FIRST):
            return b"{" + value[_SIZE:]
        case True if value[-_SIZE:].startswith(_LAST):
            return value[:-_SIZE] + b"}"
    return value


def epochs(values: pa.BinaryArray, converter: str) -> pa.BinaryArray | None:
    """The epoch of each record, null where it names none; None where none of them does."""
    # A fetch task, which names its epoch only, starts without PyArrow.
    import pyarrow as pa
    import pyarrow.compute as pc

    is_last = _IS_LAST.get(converter)
    if is_last is None:
        return None
    found = pc.binary_slice(values, -_SIZE) if is_last else pc.binary_slice(values, 0, _SIZE)
    start, end = (_LAST, b'"}') if is_last else (_FIRST, b'",')
    is_named = pc.fill_null(pc.and_(pc.starts_with(found, start), pc.ends_with(found, end)), False)
    if not pc.any(is_named).as_py():
        return None
    return pc.if_else(
        is_named, pc.binary_slice(found, len(start), -len(end)), pa.scalar(None, found.type)
    )
