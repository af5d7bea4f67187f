"""Clock times of a time zone, as records hold them that name none, to UTC and back.

A zone is a name of the IANA's database (`Asia/Shanghai`) or a fixed offset (`+08:00`, `GMT+8`).
Where its clocks are put forward, times that they skip belong to no moment; where they are put
back, a time that comes twice is taken for the first of the two.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

OFFSET: Final = re.compile(r"(?:GMT|UTC)?([+-])([0-9]{1,2})(?::?([0-5][0-9]))?")
CLOCK: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?")
NO_DATE: Final = "0000-00-00"
EPOCH: Final = datetime(1970, 1, 1)
LAST_OFFSET: Final = timedelta(hours=14)
SECOND: Final = timedelta(seconds=1)
OF_THE_MACHINE: Final = {"localtime", "Factory", "posixrules"}


@lru_cache(maxsize=100)
def read_zone(text: str) -> tzinfo:
    """The zone of a name or an offset. Raises ValueError where there is none: names are matched
    exactly, and abbreviations such as CST mean several."""
    if text in ("UTC", "GMT", "Z"):
        return UTC
    if found := OFFSET.fullmatch(text):
        sign, hours, minutes = found.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset > LAST_OFFSET:
            raise ValueError("beyond any zone")
        return timezone(-offset if sign == "-" else offset)
    if text in OF_THE_MACHINE or text.startswith(("posix/", "right/")):
        raise ValueError("no zone of its own")
    try:
        return ZoneInfo(text)
    except (OSError, KeyError) as error:  # a folder of zones, or none of that name
        raise ValueError("no such zone") from error


def offset_of(zone: tzinfo, clock: datetime) -> timedelta:
    """How far a clock of the zone that shows this is ahead of UTC. In a time that is skipped it
    counts as not yet put forward."""
    return clock.replace(tzinfo=zone).utcoffset() or timedelta()


def seconds_ahead(zone: tzinfo, clock_seconds: int) -> int:
    """The same, of a clock's time in seconds since 1970."""
    return offset_of(zone, EPOCH + timedelta(seconds=clock_seconds)) // SECOND


def in_utc(zone: tzinfo, text: str) -> str:
    """A clock's time as UTC, with the same digits of a second; a zero date is none. Raises
    ValueError for what is no time, and for a time that clocks of the zone skip."""
    found = CLOCK.fullmatch(text)
    if found is None:
        raise ValueError("no date and time")
    if text.startswith(NO_DATE):
        return text
    return _shifted(zone, found[1], is_to_utc=True) + (found[2] or "")


def in_zone(zone: tzinfo, text: str) -> str:
    """A time of UTC as clocks of the zone show it, otherwise as `in_utc`."""
    found = CLOCK.fullmatch(text)
    if found is None:
        raise ValueError("no date and time")
    if text.startswith(NO_DATE):
        return text
    return _shifted(zone, found[1], is_to_utc=False) + (found[2] or "")


def puts_clocks_back(zone: tzinfo, year: int) -> bool:
    """Whether clocks of the zone have two offsets in a year, by the first of each month."""
    return len({offset_of(zone, datetime(year, month, 1)) for month in range(1, 13)}) > 1


def comes_twice(zone: tzinfo, text: str) -> bool:
    """Whether clocks of the zone, which show this time, show it at two moments, as they are put
    back. A zero date is none."""
    return not text.startswith(NO_DATE) and _comes_twice(zone, text[:19])


@lru_cache(maxsize=100_000)
def _comes_twice(zone: tzinfo, text: str) -> bool:
    clock = datetime.fromisoformat(text)
    return offset_of(zone, clock) != offset_of(zone, clock.replace(fold=1))


@lru_cache(maxsize=100_000)
def _shifted(zone: tzinfo, text: str, is_to_utc: bool) -> str:
    """Rows that are written together share most of their seconds."""
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
