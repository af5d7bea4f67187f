"""Schedules of recurring work: a fixed interval, or cron's times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final

UNITS: Final = {"m": 60, "h": 3600, "d": 86400}
NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
DAYS_LOOKED_AT: Final = 366 * 8
"""The 29th of February comes at least once in eight years."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """An interval in seconds (`every`), or, where that is 0, the times that the other fields name.

    `weekdays`: 0 is Sunday. A day matches by both its number and its weekday, or by either where
    both are restricted (`is_either`), as in cron.
    """

    every: float = 0.0
    minutes: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    is_either: bool = False

    def after(self, epoch: float) -> float | None:
        """The next time after `epoch`, in epoch seconds, by this machine's local time; None where
        there is none. A time that the change to summer time skips is an hour later; of one that
        occurs twice, the first counts."""
        if self.every:
            return epoch + self.every
        first = datetime.fromtimestamp(epoch).date()
        for number in range(DAYS_LOOKED_AT):
            # By calendar days, not by 24 hours, as days of a clock change are shorter or longer.
            day = first + timedelta(days=number)
            if not self._is_day(day):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    found = datetime.combine(day, time(hour, minute)).timestamp()
                    # Hours and minutes are sorted, so the first one after the time is the next.
                    if found > epoch:
                        return found
        return None

    def _is_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_number = day.day in self.days
        by_weekday = day.isoweekday() % 7 in self.weekdays
        if self.is_either:
            return by_number or by_weekday
        return by_number and by_weekday


def read_schedule(text: str) -> Schedule:
    """Reads `30m`, `6h`, `1d`, one of NAMED, or five cron fields. Raises ValueError."""
    if found := re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", text):
        return Schedule(every=float(int(found[1]) * UNITS[found[2]]))
    fields = NAMED.get(text.lower(), text).split()
    if len(fields) != 5:
        raise ValueError("not a schedule")
    minutes = _numbers(fields[0], 0, 59)
    hours = _numbers(fields[1], 0, 23)
    days = _numbers(fields[2], 1, 31)
    months = _numbers(fields[3], 1, 12, MONTHS, 1)
    # cron has 0 and 7 for Sunday.
    weekdays = {day % 7 for day in _numbers(fields[4], 0, 7, DAYS)}
    schedule = Schedule(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(weekdays),
        # cron's rule: `*/2` counts as unrestricted as well.
        is_either=not fields[2].startswith("*") and not fields[4].startswith("*"),
    )
    # Such as the 31st of February.
    if schedule.after(0.0) is None:
        raise ValueError("never")
    return schedule


def _numbers(
    field: str, least: int, most: int, names: tuple[str, ...] = (), first: int = 0
) -> set[int]:
    """The numbers of one field: `*`, `5`, `1-5`, `*/10`, `10-50/10`, or several with commas.
    `names`: words for the numbers from `first` on. Raises ValueError."""
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        low, dash, high = span.partition("-")
        if span == "*":
            begin, end = least, most
        else:
            begin = end = _number(low, names, first)
            if dash:
                end = _number(high, names, first)
            # `10/5` is `10-59/5`, as in most crons.
            elif slash:
                end = most
        if not least <= begin <= end <= most:
            raise ValueError("out of range")
        found.update(range(begin, end + 1, _width(step) if slash else 1))
    return found


def _width(step: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]?", step):
        raise ValueError("not a step")
    return int(step)


def _number(text: str, names: tuple[str, ...], first: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + first
    if not re.fullmatch(r"[0-9]{1,2}", text):
        raise ValueError("not a number")
    return int(text)
