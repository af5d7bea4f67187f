"""The curves of a soak as one SVG: a small chart for each series."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tests.soak.samples import Series

WIDTH, HEIGHT, COLUMNS, GAP = 260, 96, 3, 24
STYLE = """
svg { font: 12px system-ui, sans-serif; fill: #24292f; background: #fff }
.line { fill: none; stroke: #0b6e99; stroke-width: 1.5 }
.axis { stroke: #d0d7de }
.small { fill: #57606a; font-size: 10px }
.kill { stroke: #cf222e; stroke-opacity: .25 }
"""


def chart(series: Series, kills: Sequence[float], seconds: float) -> str:
    """One chart, from 0 up."""
    top = max((value for _, value in series.values), default=1.0) * 1.15 or 1.0
    points = " ".join(
        f"{at / seconds * WIDTH:.1f},{HEIGHT - value / top * HEIGHT:.1f}"
        for at, value in series.values
    )
    marks = "".join(
        f'<line class="kill" x1="{at / seconds * WIDTH:.1f}" x2="{at / seconds * WIDTH:.1f}" '
        f'y1="{HEIGHT - 4}" y2="{HEIGHT}"/>'
        for at in kills
    )
    last = series.values[-1][1] if series.values else 0.0
    return (
        f'<text x="0" y="-6">{escape(series.name)}</text>'
        f'<text class="small" x="{WIDTH}" y="-6" text-anchor="end">'
        f"{last:,.0f} {escape(series.unit)}</text>"
        f'<line class="axis" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
        f'{marks}<polyline class="line" points="{points}"/>'
    )


def svg(all_series: Sequence[Series], kills: Sequence[float], seconds: float) -> str:
    """All charts; short red lines are kills."""
    rows = -(-len(all_series) // COLUMNS)
    width, height = COLUMNS * (WIDTH + GAP) + GAP, rows * (HEIGHT + 2 * GAP) + GAP
    charts = "".join(
        f'<g transform="translate({GAP + number % COLUMNS * (WIDTH + GAP)} '
        f'{2 * GAP + number // COLUMNS * (HEIGHT + 2 * GAP)})">{chart(each, kills, seconds)}</g>'
        for number, each in enumerate(all_series)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Curves of a soak of {seconds / 3600:.1f} hours"><style>{STYLE}</style>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{charts}</svg>\n'
    )
