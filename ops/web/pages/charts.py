"""Charts as SVG: pure functions from numbers to markup.

Every chart says its title and its meaning in words too, for those who do not see it. A value of
None is not known: the line has a gap there, never a zero. Lines are drawn in a box of 100 by 100
that the page stretches; texts stand beside it, so that they keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup, escape

from cdcbus.ops.web.pages.formatting import count

STEPS = (1, 2, 2.5, 5, 10)
X_LABELS = 5
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """Values at equal steps of time, oldest first. `start` and `step_seconds`: epoch seconds of
    the first, and between two."""

    title: str
    unit: str
    start: int
    step_seconds: int
    values: Sequence[float | None]

    @property
    def end(self) -> int:
        """When the last step ends."""
        return self.start + self.step_seconds * len(self.values)


def sparkline(values: Sequence[float | None], title: str) -> Markup:
    """A small line without axes; its title says the highest and the last value."""
    top = max(known(values), default=0.0) or 1.0
    return _svg("spark", f"{title}: {_summary(values, '')}", "", _lines(values, top))


def line_chart(series: Series) -> Markup:
    """A figure with axes: times are UTC."""
    top = ceiling(max(known(series.values), default=0.0))
    description = (
        f"From {clock(series.start)} to {clock(series.end)} UTC. "
        f"{_summary(series.values, series.unit).capitalize()}."
    )
    plot = _svg(
        "plot",
        series.title,
        description,
        Markup('<path class="grid" d="M0 0H100M0 50H100"/>') + _lines(series.values, top),
    )
    times = [
        series.start + (series.end - series.start) * number // (X_LABELS - 1)
        for number in range(X_LABELS)
    ]
    return Markup(
        '<figure class="chart"><figcaption>{} <span class="unit">{}</span></figcaption>'
        '<div class="y" aria-hidden="true"><span>{}</span><span>{}</span><span>0</span></div>{}'
        '<div class="x" aria-hidden="true">{}</div></figure>'
    ).format(
        series.title,
        series.unit,
        count(top),
        count(top / 2),
        plot,
        Markup("").join(Markup("<span>{}</span>").format(clock(t)) for t in times),
    )


def known(values: Sequence[float | None]) -> list[float]:
    """The values without those that are not known."""
    return [value for value in values if value is not None]


def ceiling(highest: float) -> float:
    """The smallest round number that is not below it; 1 for next to nothing."""
    if highest < 1e-9:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(highest))
    return next(step * unit for step in (*STEPS, 20) if step * unit >= highest * (1 - 1e-9))


def clock(epoch_seconds: float) -> str:
    """A time of day in UTC."""
    return f"{datetime.fromtimestamp(epoch_seconds, UTC):%H:%M}"


def runs(values: Sequence[float | None], top: float) -> Iterator[list[Point]]:
    """The places of neighbouring known values, y from the top; a gap parts two runs."""
    width = 100 / max(1, len(values) - 1)
    run: list[Point] = []
    for number, value in enumerate(values):
        if value is not None:
            run.append((round(number * width, 2), round(100 - 100 * min(value, top) / top, 2)))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _lines(values: Sequence[float | None], top: float) -> Markup:
    drawn = Markup("")
    for run in runs(values, top):
        first, last = run[0][0], run[-1][0]
        path = (
            " ".join(f"{x:g},{y:g}" for x, y in run)
            if len(run) > 1
            else f"{first:g},{run[0][1]:g} {first + 0.01:g},{run[0][1]:g}"
        )
        drawn += Markup('<polygon points="{},100 {} {},100"/><polyline points="{}"/>').format(
            f"{first:g}", path, f"{last:g}", path
        )
    return drawn


def _svg(kind: str, title: str, description: str, inner: Markup) -> Markup:
    told = Markup("<title>{}</title>").format(title) + (
        Markup("<desc>{}</desc>").format(description) if description else ""
    )
    label = escape(f"{title}. {description}" if description else title)
    return Markup(
        '<svg class="{}" viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}{}</svg>'
    ).format(kind, label, told, inner)


def _summary(values: Sequence[float | None], unit: str) -> str:
    there = known(values)
    if not there:
        return "nothing is known yet"
    behind = f" {unit}" if unit else ""
    last = values[-1]
    return (
        f"highest {count(max(there))}{behind}, last "
        f"{'not known' if last is None else count(last) + behind}"
    )
