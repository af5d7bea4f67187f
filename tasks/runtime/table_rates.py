"""The current row changes per second of each table, computed once per report from existing
counters, never per row."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from cdcbus.tasks.zookeeper.stat import TableCounts, TableRate

WINDOW_SECONDS = 60.0
# Between two samples that are kept.
LOOKS_SECONDS = 10.0
TABLES_REPORTED = 50
Rows = dict[tuple[str, str], int]


class TableRates:
    """The rates over the last WINDOW_SECONDS. Used on one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Begins with no rows, so that the first minute counts from the task's start.
        self._looks: deque[tuple[float, Rows]] = deque([(clock(), {})])

    def of(self, counts: Sequence[TableCounts]) -> tuple[TableRate, ...]:
        """The busiest tables that had rows, busiest first, TABLES_REPORTED at most."""
        now = self._clock()
        rows = {(each.swimlane, each.table): each.rows for each in counts}
        # Keeps one sample from before the window, from which the difference is taken.
        while len(self._looks) > 1 and self._looks[1][0] <= now - WINDOW_SECONDS:
            self._looks.popleft()
        since, before = self._looks[0]
        if now - self._looks[-1][0] >= LOOKS_SECONDS:
            self._looks.append((now, rows))
        # A rate over less than a second would jump.
        if now - since < 1:
            return ()
        rates = []
        for name, count in rows.items():
            changed = count - before.get(name, 0)
            if changed > 0:
                rates.append(TableRate(*name, round(changed / (now - since), 2)))
        rates.sort(key=lambda each: -each.rows_per_second)
        return tuple(rates[:TABLES_REPORTED])
