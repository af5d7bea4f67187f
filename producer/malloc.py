"""Settings of the C library's memory allocation."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BYTES, _KEPT_BYTES = 4 << 20, 8 << 20


def give_large_blocks_back() -> None:
    """Makes the process return the memory of large rows to the system once they are sent. Does
    nothing with a C library that has no such setting; glibc has."""
    # Left alone, glibc raises the limit for blocks of their own to 32 MB, and keeps smaller ones in
    # a heap full of holes. With that limit set it returns what is free at the heap's end in pieces
    # of 128 KB, and asks for them again with the next rows: a tenth of the processor time of small
    # ones.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        ctypes.CDLL(None).mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
