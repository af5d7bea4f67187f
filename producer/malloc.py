"""Settings of the C library's memory allocation."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BYTES, _KEPT_BYTES = 4 << 20, 8 << 20


def give_large_blocks_back() -> None:
    """Makes the process return the memory of large rows to the system once they are sent. Does
    nothing if the C library has no such setting; glibc has it."""
    # By default glibc raises the mmap threshold up to 32 MB, and keeps smaller blocks in a
    # fragmented heap. With the threshold set, glibc trims the heap's free end in pieces of 128 KB
    # and requests them again for the next rows, which takes a tenth of the processor time of small
    # rows: so the trim threshold is set as well.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        ctypes.CDLL(None).mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
