"""Where the charts of tasks come from: Prometheus if one is set and answers, asked once for all
readers; else ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from cdcbus.ops.web.series.prometheus import NoAnswer, Prometheus
from cdcbus.ops.web.series.queries import TaskCharts, span_of, task_charts
from cdcbus.ops.web.series.series import Mark
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.bus_settings import BusSettings

KNOWN_SECONDS: Final = 15.0
AWAY_SECONDS: Final = 30.0
"""How long it is not asked again: each query to one that hangs takes seconds."""
KEPT: Final = 64
ALL_SECONDS: Final = 6.0
"""For all queries of a page."""
BUSY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Charted:
    """`charts`: None where these come from ZooKeeper; `why`: a sentence that says why."""

    charts: TaskCharts | None
    why: str = ""


def chart_source(settings: BusSettings) -> ChartSource:
    """The source that the settings name. A setting that cannot be read becomes a sentence on the
    pages, which then use ZooKeeper."""
    try:
        values = settings.prometheus
    except ConfigError as error:
        return ChartSource(None, str(error))
    if not values["url"]:
        return ChartSource(None)
    url, user, password, token, match = (
        values[name] or "" for name in ("url", "user", "password", "token", "match")
    )
    return ChartSource(Prometheus(url, user, password, token, match))


class ChartSource:
    """Thread-safe; one query at a time, as many readers want the same."""

    def __init__(
        self,
        prometheus: Prometheus | None,
        why: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`why`: why there is no Prometheus although one is set."""
        self._prometheus, self._why, self._clock = prometheus, why, clock
        self._known: dict[tuple[str, int], tuple[float, Sequence[Mark], Charted]] = {}
        self._away: tuple[float, Charted] | None = None
        self._lock = Lock()

    @property
    def shown(self) -> str:
        """The address of Prometheus; empty without one."""
        if self._prometheus is None:
            return ""
        return self._prometheus.url

    def charts(self, task_id: str, seconds: int, now: float, marks: Sequence[Mark]) -> Charted:
        """The charts of the last `seconds`. Never raises for what Prometheus does."""
        if self._prometheus is None:
            return Charted(None, self._why)
        if not self._lock.acquire(timeout=BUSY_SECONDS):
            return Charted(None, f"Prometheus at {self.shown} is slow, and others ask it")
        try:
            return self._charts(self._prometheus, task_id, seconds, now, marks)
        finally:
            self._lock.release()

    def _charts(
        self,
        prometheus: Prometheus,
        task_id: str,
        seconds: int,
        now: float,
        marks: Sequence[Mark],
    ) -> Charted:
        moment = self._clock()
        if self._away and moment < self._away[0]:
            return self._away[1]
        until, known_marks, known = self._known.get((task_id, seconds), (0.0, (), Charted(None)))
        # Charts hold the marks, so a new mark outdates them.
        if moment < until and list(known_marks) == list(marks):
            return known
        try:
            # By the clock that the queries are limited by, not by that of the tests.
            asked = replace(prometheus, deadline=time.monotonic() + ALL_SECONDS)
            found = task_charts(asked, task_id, span_of(seconds, now), marks)
        except NoAnswer as error:
            away = Charted(None, str(error))
            self._away = self._clock() + AWAY_SECONDS, away
            return away
        self._away = None
        charted = Charted(found)
        if found is None:
            charted = Charted(
                None,
                f"Prometheus at {self.shown} has nothing of this task in this time: let it read "
                "/metrics of a node, or check prometheus.match",
            )
        # First those that are outdated; if that is not enough, the oldest.
        self._known = {key: each for key, each in self._known.items() if moment < each[0]}
        while len(self._known) >= KEPT:
            del self._known[next(iter(self._known))]
        self._known[task_id, seconds] = self._clock() + KNOWN_SECONDS, tuple(marks), charted
        return charted
