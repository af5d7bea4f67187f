"""The Kafka partition of a record key, as chosen by the Java client, and so by porter."""

from __future__ import annotations

import struct

_SEED, _M, _32 = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of the Java client, unsigned."""
    size = len(data)
    value = _SEED ^ size
    whole = size & ~3
    for (part,) in struct.iter_unpack("<I", data[:whole]):
        part = part * _M & _32
        value = (value * _M & _32) ^ ((part ^ part >> 24) * _M & _32)
    if whole < size:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _32
    value = (value ^ value >> 13) * _M & _32
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, out of `partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions if partitions > 1 else 0
