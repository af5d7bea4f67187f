"""Kafka records as the consumer gets them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from cdcbus.consumer.records.records import Record, Records


def records_of(pairs: Sequence[Record]) -> Records:
    """Offsets and values as columns."""
    return Records(
        pa.array([offset for offset, _ in pairs], pa.int64()),
        pa.array([value for _, value in pairs], pa.binary()),
    )
