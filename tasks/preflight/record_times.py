"""Checks that the times in records agree with when Kafka received them: times of another time zone
are off by whole or half hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from cdcbus.plugins.dates import EPOCH
from cdcbus.plugins.registry import takes_zone
from cdcbus.plugins.rowchange import Op, RowChange, TableId
from cdcbus.plugins.time_zone import offset_of, read_zone
from cdcbus.tasks.preflight.result import CheckResult, warning

STEP_S: Final = 1800
"""Half an hour: all but a few zones differ from UTC by a multiple of it."""
NEAR_S: Final = 120
"""The longest time that a record may have taken on its way to Kafka."""
# 14 hours, as in the zone that is farthest ahead of UTC.
MOST_STEPS: Final = 28
# Fewer TIMESTAMP cells may be off by chance, as people enter any time.
LEAST_CELLS: Final = 3
SHARE: Final = 0.8
# In steps of half an hour.
HALF_DAY: Final = 24
CLOCKS_12: Final = (
    "porter writes op_ts by a clock of 12 hours: for half of the day it is 12 hours too early, "
    "which no zone corrects"
)


@dataclass(slots=True)
class RecordTimes:
    """Kafka's times minus those in records, in seconds: `commits` by commit time, `cells` by
    TIMESTAMP cells that were just written."""

    commits: list[float] = field(default_factory=list)
    cells: dict[tuple[TableId, str], list[float]] = field(default_factory=dict)

    def add(self, change: RowChange, came_ms: int) -> None:
        if came_ms <= 0:
            return
        if change.origin.commit_ms:
            self.commits.append((came_ms - change.origin.commit_ms) / 1000)
        if change.op not in (Op.INSERT, Op.UPDATE):
            return
        before, after = change.before or {}, change.after or {}
        for column in change.table.columns:
            cell = after.get(column.name)
            # Only a cell that was just written can be about the present.
            is_new = cell is not None and before.get(column.name) != cell
            if is_new and column.mysql_type.lower().startswith("timestamp"):
                moment = _moment(cell or "")
                if moment is not None:
                    place = (change.table.id, column.name)
                    self.cells.setdefault(place, []).append(came_ms / 1000 - moment)

    def results(self, topic: str, converter: str, time_zone: str) -> Iterator[CheckResult]:
        """A warning for times that are off by hours. `time_zone`: the task's setting."""
        subject = f"times in {topic}"
        steps = usual_steps(self.commits)
        if steps:
            found = f"the newest records carry times {_words(steps)} Kafka received them"
            yield warning(subject, found, _remedy(steps, converter, time_zone))
        off = {place: usual_steps(seconds, LEAST_CELLS) for place, seconds in self.cells.items()}
        # Some are right, so the others may differ on purpose.
        if 0 in off.values():
            return
        for (table, column), steps in off.items():
            if steps:
                yield warning(
                    subject,
                    f"column {column} of {table}, a TIMESTAMP, has times {_words(steps)} Kafka "
                    "received its rows",
                    _zone_remedy(steps, time_zone),
                )
                return


def usual_steps(seconds: Sequence[float], least: int = 1) -> int | None:
    """The number of half hours by which most times are off. None where there are too few times, or
    they disagree, as for rows that took long to reach Kafka."""
    found = Counter(map(_steps, seconds))
    if not found:
        return None
    steps, count = found.most_common(1)[0]
    if count < max(least, SHARE * len(seconds)):
        return None
    return steps


def _steps(seconds: float) -> int | None:
    steps = round(seconds / STEP_S)
    is_near = abs(seconds - steps * STEP_S) <= NEAR_S
    if not is_near or abs(steps) > MOST_STEPS:
        return None
    return steps


def _moment(cell: str) -> float | None:
    try:
        # 26 characters are a time with six digits of a fraction, without a zone.
        return (datetime.fromisoformat(cell[:26]).replace(tzinfo=None) - EPOCH).total_seconds()
    except ValueError:
        return None


def _words(steps: int) -> str:
    hours = f"{abs(steps) / 2:g} hours"
    if abs(steps) == 2:
        hours = "1 hour"
    if steps > 0:
        return f"{hours} before"
    return f"{hours} after"


def _remedy(steps: int, converter: str, time_zone: str) -> str:
    if not takes_zone(converter) or converter.startswith("canal"):
        return "Check the clock of the source: these times are epoch seconds, which have no zone."
    if abs(steps) == HALF_DAY:
        return f"{CLOCKS_12}. Lag, retention and alarms go by Kafka's times."
    return _zone_remedy(steps, time_zone)


def _zone_remedy(steps: int, time_zone: str) -> str:
    zone = read_zone(time_zone or "UTC")
    now = datetime.now(UTC).astimezone(zone).replace(tzinfo=None)
    # The offset under which these times would have been right.
    ahead = offset_of(zone, now) - timedelta(seconds=steps * STEP_S)
    minutes = abs(ahead) // timedelta(minutes=1)
    sign = "-" if ahead < timedelta() else "+"
    return (
        f"They are read as {time_zone or 'UTC'}. If their writer runs in another time zone, name "
        f"it: consumer.source.timeZone={sign}{minutes // 60:02}:{minutes % 60:02}, or the zone's "
        "name, which covers summer time."
    )
