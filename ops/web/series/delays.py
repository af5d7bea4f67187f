"""How long rows took from stage to stage, as charts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cdcbus.ops.web.series.series import Line, Mark, Series
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
    """A chart for each stage of which rows were timed, over the time of another chart: by five
    minutes, or by the hour where that one is."""
    is_by_hour = span.step_seconds >= HOUR_SECONDS
    step = HOUR_SECONDS if is_by_hour else STEP_SECONDS
    start = span.start // step * step
    slots = range(start, span.end, step)
    known = {each.at: each for each in (hours if is_by_hour else steps)}
    if is_by_hour and slots:
        current = slots[-1]
        if so_far := [each for each in steps if each.at >= current]:
            known[current] = longest(current, so_far)
    found: dict[str, dict[str, Values]] = {}
    for number, at in enumerate(slots):
        for stage, times in known[at].stages.items() if at in known else ():
            lines = found.setdefault(stage, {share: [None] * len(slots) for share in SHARES})
            for share, values in lines.items():
                values[number] = getattr(times, share)
    return charts_of_stages(found, start, step, marks)


def charts_of_stages(
    stages: Mapping[str, Mapping[str, Values]], start: int, step: int, marks: Sequence[Mark]
) -> list[Series]:
    """`stages`: by stage and share, `p50`, values at each step. In the order of a row's way."""
    end = start + step * max((len(each["p50"]) for each in stages.values()), default=0)
    inside = [mark for mark in marks if start <= mark.at <= end]
    ordered = [*(stage for stage in STAGES if stage in stages), *sorted(stages.keys() - STAGES)]
    charts = []
    for stage in ordered:
        lines = stages[stage]
        top = max((value for each in lines.values() for value in each if value), default=0.0)
        unit, factor = ("milliseconds", 1000) if top < 1 else ("seconds", 1)
        first, *rest = [
            Line(name, [None if value is None else value * factor for value in lines[share]])
            for share, name in SHARES.items()
        ]
        title = STAGES.get(stage, stage.replace("_", " "))
        charts.append(Series(title, unit, start, step, first.values, inside, first.name, rest))
    return charts
