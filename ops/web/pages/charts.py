"""Charts as SVG: pure functions from numbers to markup.

Every chart has its title and its meaning in words too, for screen readers. A value of None is
unknown: the line has a gap, never a zero. Lines are drawn in a box of 100 by 100 that the page
stretches; texts are outside of it, so that they keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from markupsafe import Markup, escape

from cdcbus.ops.web.pages import formatting
from cdcbus.ops.web.pages.formatting import count
from cdcbus.ops.web.series.marks import WORDS
from cdcbus.ops.web.series.series import Series

# The top of an axis is one of these times a power of ten.
STEPS = (1, 2, 2.5, 5, 10)
X_LABELS = 5
SPOKEN_MARKS = 5  # of a kind, each by its time
Point = tuple[float, float]


def sparkline(values: Sequence[float | None], title: str) -> Markup:
    """A small line without axes. Its title has the highest and the last value."""
    top = max(known(values), default=0.0)
    if top <= 0.0:  # a line of zeros lies at the bottom
        top = 1.0
    return _svg("spark", f"{title}: {_summary(values, '')}", "", _lines(values, top))


def line_chart(series: Series) -> Markup:
    """A figure with axes: times are UTC."""
    highest = 0.0
    for line in series.lines:
        highest = max([highest, *known(line.values)])
    top = ceiling(highest)
    description = f"From {moment(series, series.start)} to {moment(series, series.end)} UTC."
    for line in series.lines:
        summary = _summary(line.values, series.unit)
        if line.name:
            summary = f"{line.name}: {summary}"
        description += f" {summary[:1].upper()}{summary[1:]}."
    description += _in_words(series)
    grid = Markup('<path class="grid" d="M0 0H100M0 50H100"/>')
    lines = _lines(series.values, top)
    # The first line has the chart's own style; the others are numbered for the style sheet.
    for number, line in enumerate(series.more, 2):
        lines += _line(line.values, top, number)
    plot = _svg("plot", series.title, description, grid + lines + _marks(series))
    labels = Markup("")
    for number in range(X_LABELS):
        at = series.start + (series.end - series.start) * number // (X_LABELS - 1)
        labels += Markup('<span data-at="{}">{}</span>').format(at, moment(series, at))
    # Labels are hidden from screen readers, which read the description instead.
    return Markup(
        '<figure class="chart"><figcaption>{} <span class="unit">{}</span>{}</figcaption>'
        '<div class="y" aria-hidden="true"><span>{}</span><span>{}</span><span>0</span></div>{}'
        '<div class="x" aria-hidden="true">{}</div></figure>'
    ).format(
        series.title,
        series.unit,
        _legend(series),
        count(top),
        count(top / 2),
        plot,
        labels,
    )


def known(values: Sequence[float | None]) -> list[float]:
    """The values without those that are not known."""
    return [value for value in values if value is not None]


def ceiling(highest: float) -> float:
    """The smallest round number that is not below `highest`; 1 for next to nothing."""
    if highest < 1e-9:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(highest))
    # A round number may be stored as a little more than it is.
    least = highest * (1 - 1e-9)
    for step in STEPS:
        if step * unit >= least:
            return step * unit
    return 20 * unit


def clock(epoch_seconds: float) -> str:
    """A time of day in UTC."""
    return f"{datetime.fromtimestamp(epoch_seconds, UTC):%H:%M}"


def moment(series: Series, epoch_seconds: int) -> str:
    """A time of a chart in UTC, with its date if the chart spans more than two days."""
    if series.end - series.start <= 2 * 86_400:
        return clock(epoch_seconds)
    return formatting.moment(epoch_seconds)


def _marks(series: Series) -> Markup:
    drawn = Markup("")
    for mark in series.marks:
        x = round(100 * (mark.at - series.start) / max(1, series.end - series.start), 2)
        when, what = moment(series, mark.at), WORDS.get(mark.kind, mark.kind)
        # The line itself is too narrow to point at: an invisible, wider one lies over it.
        drawn += Markup(
            '<g class="mark {}" data-mark="{}"><path d="M{} 0V100"/><path class="near" '
            'd="M{} 0V100"/><title>{}</title></g>'
        ).format(
            mark.kind,
            mark.number,
            f"{x:g}",
            f"{x:g}",
            f"{when} UTC, {what}: {mark.sentence}",
        )
    return drawn


def _in_words(series: Series) -> str:
    """What happened and when. Many marks of a kind are only counted: a list beside the charts has
    all of them."""
    by_kind: dict[str, list[str]] = {}
    for mark in series.marks:
        by_kind.setdefault(mark.kind, []).append(moment(series, mark.at))
    words = ""
    for kind, times in by_kind.items():
        name = WORDS.get(kind, kind).capitalize()
        if len(times) > SPOKEN_MARKS:
            words += f" {name} {len(times)} times, last at {times[-1]}."
        else:
            words += f" {name} at {', '.join(times)}."
    return words


def _legend(series: Series) -> Markup:
    """Which line is what, where there are several."""
    if not series.more:
        return Markup("")
    legend = Markup("")
    for number, line in enumerate(series.lines, 1):
        legend += Markup(
            '<span><svg class="key line{}" viewBox="0 0 24 8" aria-hidden="true">'
            '<path d="M0 4H24"/></svg>{}</span>'
        ).format(number, line.name)
    return Markup('<span class="legend">{}</span>').format(legend)


def runs(values: Sequence[float | None], top: float) -> Iterator[list[Point]]:
    """The points of neighbouring known values, y from the top. A gap separates two runs."""
    width = 100 / max(1, len(values) - 1)
    run: list[Point] = []
    for number, value in enumerate(values):
        if value is not None:
            # y counts from the top.
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
        path = _path(run)
        drawn += Markup('<polygon points="{},100 {} {},100"/><polyline points="{}"/>').format(
            f"{first:g}", path, f"{last:g}", path
        )
    return drawn


def _line(values: Sequence[float | None], top: float, number: int) -> Markup:
    """One more line, without an area."""
    drawn = Markup("")
    for run in runs(values, top):
        drawn += Markup('<polyline class="line{}" points="{}"/>').format(number, _path(run))
    return drawn


def _path(run: list[Point]) -> str:
    if len(run) == 1:  # a line of one point would not be visible
        x, y = run[0]
        run = [(x, y), (x + 0.01, y)]
    return " ".join(f"{x:g},{y:g}" for x, y in run)


def _svg(kind: str, title: str, description: str, inner: Markup) -> Markup:
    words = Markup("<title>{}</title>").format(title)
    label = escape(title)
    if description:
        words += Markup("<desc>{}</desc>").format(description)
        label = escape(f"{title}. {description}")
    return Markup(
        '<svg class="{}" viewBox="0 0 100 100" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}{}</svg>'
    ).format(kind, label, words, inner)


def _summary(values: Sequence[float | None], unit: str) -> str:
    if not known(values):
        return "nothing is known yet"
    ending = f" {unit}" if unit else ""
    highest = count(max(known(values))) + ending
    last = "not known"
    if values[-1] is not None:
        last = count(values[-1]) + ending
    return f"highest {highest}, last {last}"
