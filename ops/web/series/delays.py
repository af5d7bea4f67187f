"""How long rows took from stage to stage, as charts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cdcbus.ops.web.series.series import Line, Mark, Series, within
from cdcbus.tasks.runtime.delay_history import STEP_SECONDS, DelayStep, longest
from cdcbus.tasks.runtime.throughput_history import HOUR_SECONDS

STAGES: Final = {
    "source_to_read": "Committed at the source → read",
    "read_to_kafka": "Read → acknowledged by Kafka",
    "source_to_kafka": "Committed at the source → acknowledged by Kafka",
    "kafka_to_taken": "Acknowledged by Kafka → taken by the task",
    "taken_to_target": "Taken by the task → committed at the target",
    "kafka_to_target": "Acknowledged by Kafka → committed at the target",
    "source_to_target": "Committed at the source → committed at the target",
}
"""In the order of a row's way: each part, then what they are together."""
SHARES: Final = {"p50": "half of the rows", "p95": "95 %", "p99": "99 %"}
Values = list[float | None]


def delay_charts(
    steps: Sequence[DelayStep],
    hours: Sequence[DelayStep],
    span: Series,
    marks: Sequence[Mark] = (),
) -> list[Series]:
    """A chart for each stage with timed rows, over the time of another chart: by five minutes, or
    by the hour if that one is."""
    is_by_hour = span.step_seconds >= HOUR_SECONDS
    step = HOUR_SECONDS if is_by_hour else STEP_SECONDS
    # Whole steps, as the history stores them.
    start = span.start // step * step
    slots = range(start, span.end, step)
    known = {each.at: each for each in steps}
    if is_by_hour:
        known = _by_hour(steps, hours, slots)
    found: dict[str, dict[str, Values]] = {}
    for number, at in enumerate(slots):
        if at not in known:
            continue
        for stage, times in known[at].stages.items():
            lines = found.setdefault(stage, empty_lines(len(slots)))
            for share, values in lines.items():
                values[number] = getattr(times, share)
    return charts_of_stages(found, start, step, marks)


def _by_hour(
    steps: Sequence[DelayStep], hours: Sequence[DelayStep], slots: range
) -> dict[int, DelayStep]:
    known = {each.at: each for each in hours}
    if slots:
        # The current hour is not stored before its end: its steps so far stand for it.
        current = slots[-1]
        so_far = [each for each in steps if each.at >= current]
        if so_far:
            known[current] = longest(current, so_far)
    return known


def empty_lines(length: int) -> dict[str, Values]:
    """The lines of a stage, by share, without a value yet."""
    lines: dict[str, Values] = {}
    for share in SHARES:
        lines[share] = [None] * length
    return lines


def charts_of_stages(
    stages: Mapping[str, Mapping[str, Values]], start: int, step: int, marks: Sequence[Mark]
) -> list[Series]:
    """`stages`: by stage and share, `p50`, values at each step. In the order of a row's way."""
    slots = max((len(each["p50"]) for each in stages.values()), default=0)
    end = start + step * slots
    inside = within(marks, start, end)
    known = [stage for stage in STAGES if stage in stages]
    others = sorted(stages.keys() - STAGES.keys())  # of another version
    charts = []
    for stage in known + others:
        lines = stages[stage]
        unit, factor = "seconds", 1
        if _highest(lines) < 1:
            unit, factor = "milliseconds", 1000
        shown = []
        for share, name in SHARES.items():
            shown.append(Line(name, _times(lines[share], factor)))
        first, *rest = shown
        title = STAGES.get(stage, stage.replace("_", " "))
        charts.append(Series(title, unit, start, step, first.values, inside, first.name, rest))
    return charts


def _highest(lines: Mapping[str, Values]) -> float:
    highest = 0.0
    for values in lines.values():
        for value in values:
            highest = max(highest, value or 0.0)
    return highest


def _times(values: Values, factor: int) -> Values:
    times: Values = []
    for value in values:
        if value is not None:
            value *= factor
        times.append(value)
    return times
