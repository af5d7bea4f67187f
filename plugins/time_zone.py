"""Converts local times of a time zone, as in records that name no zone, to UTC and back.

A zone is a name of the IANA's database (`Asia/Shanghai`) or a fixed offset (`+08:00`, `GMT+8`).
Where its clocks are put forward, the skipped times do not exist; where they are put back, a time
that comes twice counts as the first of the two.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cdcbus.plugins.dates import EPOCH

OFFSET: Final = re.compile(r"(?:GMT|UTC)?([+-])([0-9]{1,2})(?::?([0-5][0-9]))?")
CLOCK: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?")
NO_DATE: Final = "0000-00-00"
LAST_OFFSET: Final = timedelta(hours=14)
SECOND: Final = timedelta(seconds=1)
OF_THE_MACHINE: Final = {"localtime", "Factory", "posixrules"}


@lru_cache(maxsize=100)
def read_zone(text: str) -> tzinfo:
    """The zone of a name or an offset. Raises ValueError where there is none: names are matched
    exactly, and abbreviations such as CST are ambiguous."""
    if text in ("UTC", "GMT", "Z"):
        return UTC
    if found := OFFSET.fullmatch(text):
        sign, hours, minutes = found.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset > LAST_OFFSET:
            raise ValueError("beyond any zone")
        if sign == "-":
            offset = -offset
        return timezone(offset)
    if text in OF_THE_MACHINE or text.startswith(("posix/", "right/")):
        raise ValueError("no zone of its own")
    try:
        return ZoneInfo(text)
    except (OSError, KeyError) as error:
        # A folder of zones, or no zone of that name.
        raise ValueError("no such zone") from error


def offset_of(zone: tzinfo, clock: datetime) -> timedelta:
    """The offset from UTC of a clock of the zone that shows this time. In a skipped time it counts
    as not yet put forward."""
    return clock.replace(tzinfo=zone).utcoffset() or timedelta()


def seconds_ahead(zone: tzinfo, clock_seconds: int) -> int:
    """The offset from UTC in seconds, for a clock's time in seconds since 1970."""
    return offset_of(zone, EPOCH + timedelta(seconds=clock_seconds)) // SECOND


def in_utc(zone: tzinfo, text: str) -> str:
    """A local time as UTC, with the same fraction of a second; a zero date is returned unchanged.
    Raises ValueError for text that is not a time, and for a time that clocks of the zone skip."""
    return _converted(zone, text, is_to_utc=True)


def in_zone(zone: tzinfo, text: str) -> str:
    """A UTC time as clocks of the zone show it, otherwise as `in_utc`."""
    return _converted(zone, text, is_to_utc=False)


def _converted(zone: tzinfo, text: str, *, is_to_utc: bool) -> str:
    found = CLOCK.fullmatch(text)
    if found is None:
        raise ValueError("no date and time")
    if text.startswith(NO_DATE):
        return text
    return _shifted(zone, found[1], is_to_utc) + (found[2] or "")


def puts_clocks_back(zone: tzinfo, year: int) -> bool:
    """Whether the zone has two offsets in a year, judged by the first day of each month."""
    offsets = {offset_of(zone, datetime(year, month, 1)) for month in range(1, 13)}
    return len(offsets) > 1


def comes_twice(zone: tzinfo, text: str) -> bool:
    """Whether clocks of the zone show this time at two moments, as they are put back. False for a
    zero date."""
    return not text.startswith(NO_DATE) and _comes_twice(zone, text[:19])


@lru_cache(maxsize=100_000)
def _comes_twice(zone: tzinfo, text: str) -> bool:
    clock = datetime.fromisoformat(text)
    return offset_of(zone, clock) != offset_of(zone, clock.replace(fold=1))


@lru_cache(maxsize=100_000)
def _shifted(zone: tzinfo, text: str, is_to_utc: bool) -> str:
    """A time to UTC or back. Cached, as rows that are written together share most of their
    seconds."""
    clock = datetime.fromisoformat(text)
    try:
        if not is_to_utc:
            shown = clock.replace(tzinfo=UTC).astimezone(zone)
        else:
            shown = (clock - offset_of(zone, clock)).replace(tzinfo=UTC)
            if shown.astimezone(zone).replace(tzinfo=None) != clock:
                raise ValueError("a time that clocks skip")
    except OverflowError as error:
        raise ValueError("beyond all calendars") from error
    return shown.replace(tzinfo=None).isoformat(text[10], "seconds")
