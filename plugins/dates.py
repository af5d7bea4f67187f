"""The dates of epoch times. Records and stored positions can hold any number as a time: other
writers may count in another unit, and people may set it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1)
# The years 1 to 9999.
FIRST_US: Final = -62_135_596_800_000_000
LAST_US: Final = 253_402_300_799_999_999


def dated_us(epoch_us: int) -> int:
    """The time itself; 0, as for an unknown time, where no date has it."""
    return epoch_us if FIRST_US <= epoch_us <= LAST_US else 0


def utc_text(epoch_ms: int, timespec: str = "seconds", separator: str = " ", zone: str = "") -> str:
    """A time in UTC as `2026-01-31 12:00:00`, with `zone` after it; for a number that no date has,
    a text that says so."""
    if not FIRST_US <= epoch_ms * 1000 <= LAST_US:
        return f"(no date: {epoch_ms} ms)"
    moment = EPOCH + timedelta(milliseconds=epoch_ms)
    return moment.isoformat(separator, timespec) + zone
