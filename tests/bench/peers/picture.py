"""Figures of two programs side by side, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_STYLE = """
svg { font: 13px system-ui, sans-serif; fill: #24292f; background: #fff }
.title { font-weight: 600 } .note { fill: #57606a; font-size: 12px }
.bar0 { fill: #0969da } .bar1 { fill: #afb8c1 } .spread { stroke: #24292f; stroke-width: 1 }
"""
WIDTH, LEFT, BAR, GAP = 760, 270, 16, 26


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure: the values of all runs by the program's name."""

    name: str
    unit: str
    is_less_better: bool
    values: Mapping[str, Sequence[float]]


def middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def svg(figures: Sequence[Compared], note: str) -> str:
    """Bars as long as the median of each, within each figure; a line from least to most."""
    parts, top = list[str](), 20
    for figure in figures:
        most = max(max(values) for values in figure.values.values())
        better = "less is better" if figure.is_less_better else "more is better"
        parts.append(f'<text class="title" x="10" y="{top + 12}">{escape(figure.name)}</text>')
        parts.append(f'<text class="note" x="10" y="{top + 28}">{figure.unit}, {better}</text>')
        for number, (program, values) in enumerate(figure.values.items()):
            y, scale = top + number * (BAR + 4), (WIDTH - LEFT - 120) / most
            length, (least, highest) = middle(values) * scale, (min(values), max(values))
            parts.append(
                f'<rect class="bar{number}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}"/>'
                f'<line class="spread" x1="{LEFT + least * scale:.1f}" '
                f'x2="{LEFT + highest * scale:.1f}" y1="{y + BAR / 2}" y2="{y + BAR / 2}"/>'
                f'<text x="{LEFT + highest * scale + 6:.1f}" y="{y + 13}">'
                f"{shown(middle(values))} {escape(program)}</text>"
            )
        top += 2 * (BAR + 4) + GAP
    parts.append(f'<text class="note" x="10" y="{top + 6}">{escape(note)}</text>')
    height = top + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="cdcbus beside Debezium"><style>{_STYLE}</style>'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
