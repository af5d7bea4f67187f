"""The charts of a task from Prometheus: queries over what /metrics of a node gives.

Each node reports all tasks, so the same series comes from several nodes: the highest value counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdcbus.ops.web.series.delays import charts_of_stages, empty_lines
from cdcbus.ops.web.series.prometheus import Found, Prometheus
from cdcbus.ops.web.series.series import Mark, Series, within

POINTS: Final = 240
LEAST_STEP_SECONDS: Final = 15
LEAST_WINDOW_SECONDS: Final = 120
"""It contains two scrapes that are a minute apart."""
TABLES: Final = 6
QUANTILES: Final = {"0.5": "p50", "0.95": "p95", "0.99": "p99"}
Values = list[float | None]


@dataclass(frozen=True, slots=True)
class TaskCharts:
    """`main`: rows and lag; `delays`: from stage to stage; `tables`: rows of the busiest."""

    main: Sequence[Series]
    delays: Sequence[Series] = ()
    tables: Sequence[Series] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """The times of a chart: the steps from `start` to before `end`."""

    start: int
    end: int
    step: int

    @property
    def window(self) -> str:
        """The window over which the rate, or the highest value, of one step is taken."""
        return f"{max(self.step, LEAST_WINDOW_SECONDS)}s"

    def values(self, found: Found) -> Values:
        values: Values = [None] * ((self.end - self.start) // self.step)
        for at, value in found.values.items():
            # Each value is asked for at the end of its step, see `_range`.
            number = round((at - self.start) / self.step) - 1
            if 0 <= number < len(values):
                values[number] = value
        return values


def span_of(seconds: int, now: float) -> Span:
    """The last `seconds`, in POINTS steps or fewer."""
    step = max(LEAST_STEP_SECONDS, seconds // POINTS)
    # Aligned, so that the steps of a chart do not move each time it is asked for.
    end = int(now) // step * step
    return Span(end - seconds // step * step, end, step)


def task_charts(
    prometheus: Prometheus, task_id: str, span: Span, marks: Sequence[Mark]
) -> TaskCharts | None:
    """The charts of a task; None where Prometheus has nothing about it in this time. Raises
    NoAnswer."""
    chosen = selector(task_id, prometheus.match)
    inside = within(marks, span.start, span.end)
    main = []
    for title, unit, query in (
        ("Rows", "a second", f"max(rate(cdcbus_task_rows_total{chosen}[{span.window}]))"),
        ("Lag", "seconds", _highest("cdcbus_task_lag_seconds", chosen, span)),
        ("Lag", "records", _highest("cdcbus_task_lag_records", chosen, span)),
        ("Lag", "bytes", _highest("cdcbus_task_lag_bytes", chosen, span)),
    ):
        # Without `by`, the highest of all is a single series.
        for found in _range(prometheus, query, span)[:1]:
            values = span.values(found)
            main.append(Series(title, unit, span.start, span.step, values, inside))
    if not main:
        return None
    query = _highest("cdcbus_task_delay_seconds", chosen, span, "stage, quantile")
    stages: dict[str, dict[str, Values]] = {}
    for found in _range(prometheus, query, span):
        share = QUANTILES.get(found.labels.get("quantile", ""))
        stage = found.labels.get("stage", "")
        if share and stage:
            lines = stages.setdefault(stage, empty_lines(len(main[0].values)))
            lines[share] = span.values(found)
    delays = charts_of_stages(stages, span.start, span.step, inside)
    return TaskCharts(main, delays, _tables(prometheus, chosen, span, inside))


def selector(task_id: str, match: str, more: str = "") -> str:
    """`{task="...",...}`."""
    parts = filter(None, (f"task={quoted(task_id)}", match, more))
    return f"{{{','.join(parts)}}}"


def quoted(text: str) -> str:
    """The text as a PromQL string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def any_of(names: Sequence[str]) -> str:
    """A regular expression of exactly these names. RE2 accepts a backslash only before ASCII
    punctuation."""
    return "|".join(map(_escaped, names))


def _escaped(name: str) -> str:
    return re.sub(r"([!-/:-@\[-^`{-~ ])", r"\\\1", name)


def _tables(prometheus: Prometheus, chosen: str, span: Span, marks: Sequence[Mark]) -> list[Series]:
    by = "max by (swimlane, table, operation)"
    counter = "cdcbus_table_rows_total"
    increase = f"{by} (increase({counter}{chosen}[{span.end - span.start}s]))"
    query = f"topk({TABLES}, sum by (table) ({increase}) > 0)"
    busiest = sorted(prometheus.now(query, span.end), key=_rows, reverse=True)
    names = [each.labels["table"] for each in busiest if "table" in each.labels]
    if not names:
        return []
    # One more matcher, before the closing brace.
    limited = f"{chosen[:-1]},table=~{quoted(any_of(names))}}}"
    query = f"sum by (table) ({by} (rate({counter}{limited}[{span.window}])))"
    found = {each.labels.get("table"): each for each in _range(prometheus, query, span)}
    charts = []
    for name in names:
        if name in found:
            values = span.values(found[name])
            charts.append(Series(name, "rows a second", span.start, span.step, values, marks))
    return charts


def _rows(found: Found) -> float:
    return max(found.values.values(), default=0)


def _highest(metric: str, chosen: str, span: Span, by: str = "") -> str:
    grouped = "max"
    if by:
        grouped = f"max by ({by})"
    return f"{grouped} (max_over_time({metric}{chosen}[{span.window}]))"


def _range(prometheus: Prometheus, query: str, span: Span) -> list[Found]:
    """A query at the end of each step."""
    return prometheus.range(query, span.start + span.step, span.end, span.step)
