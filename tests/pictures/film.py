"""Frames of a terminal as one SVG file that moves by itself: CSS alone, nothing loaded, no script.

Frames stand side by side and are pushed through the window step by step. A line that several frames
share is stored once. Who wants no motion (`prefers-reduced-motion`) sees the last frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Text

CELL, LINE, PAD, BAR = 8.4, 18, 14, 34  # a cell's width, a line's height, the frame, the title
BACK, EDGE, PLAIN, DIM = "#0d1117", "#57606a", "#c9d1d9", "#8b949e"
# A terminal's eight colours, by number.
COLOURS = ("#484f58", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", PLAIN)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a terminal shows for some seconds: its lines, with their escape sequences."""

    lines: tuple[str, ...]
    seconds: float


def film(frames: Sequence[Frame], columns: int, rows: int, title: str) -> str:
    """The SVG text. `title`: what it shows, for who cannot see it."""
    width, height = columns * CELL + 2 * PAD, rows * LINE + PAD + BAR
    stored: dict[str, int] = {}
    shown = []
    for number, frame in enumerate(frames):
        uses = [
            f'<use href="#l{stored.setdefault(line, len(stored))}" y="{row * LINE}"/>'
            for row, line in enumerate(_lines(frame))
            if line
        ]
        shown.append(f'<g transform="translate({number * width:g} 0)">{"".join(uses)}</g>')
    defs = "\n".join(f'<g id="l{number}">{line}</g>' for line, number in stored.items())
    dots = "".join(
        f'<circle cx="{PAD + 6 + 18 * at}" cy="17" r="5.5" fill="{fill}"/>'
        for at, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    newline = "\n"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" \
width="{width:g}" height="{height:g}" role="img" aria-label={quoteattr(title)}>
<title>{escape(title)}</title>
<style>
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", \
"Liberation Mono", monospace; fill: {PLAIN}; white-space: pre }}
.b {{ font-weight: bold }}
.film {{ animation: film {sum(frame.seconds for frame in frames):.2f}s steps(1, end) infinite }}
@keyframes film {{ {_steps(frames, width)} }}
@media (prefers-reduced-motion: reduce) {{ .film {{ animation: none; \
transform: translateX({-width * (len(frames) - 1):g}px) }} }}
</style>
<defs>
{defs}
<clipPath id="window"><rect width="{width - 2:g}" height="{height:g}" x="1"/></clipPath>
</defs>
<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="8" \
fill="{BACK}" stroke="{EDGE}"/>
{dots}
<g clip-path="url(#window)"><g transform="translate({PAD} {BAR + 13})"><g class="film">
{newline.join(shown)}
</g></g></g>
</svg>
"""


def _steps(frames: Sequence[Frame], width: float) -> str:
    total, at, steps = sum(frame.seconds for frame in frames), 0.0, []
    for number, frame in enumerate(frames):
        steps.append(f"{at / total:.3%} {{ transform: translateX({-number * width:g}px) }}")
        at += frame.seconds
    return " ".join(steps)


def _lines(frame: Frame) -> list[str]:
    """Decoded together: a colour lasts into the next line."""
    return [_line(line) for line in AnsiDecoder().decode("\n".join(frame.lines))]


def _line(text: Text) -> str:
    """Each run of one style is a text of its own, of a given length: columns stay in their places
    whatever the font."""
    bounds = {0, len(text), *(edge for span in text.spans for edge in (span.start, span.end))}
    parts = []
    for start, end in pairwise(sorted(bounds)):
        run = text.plain[start:end]
        words = run.strip()
        if not words:
            continue
        start += len(run) - len(run.lstrip())
        style = Style()
        for span in text.spans:
            if span.start < end and span.end > start and isinstance(span.style, Style):
                style += span.style
        parts.append(
            f'<text x="{start * CELL:g}" textLength="{len(words) * CELL:g}"{_attributes(style)}>'
            f"{escape(words)}</text>"
        )
    return "".join(parts)


def _attributes(style: Style) -> str:
    fill = _fill(style)
    return (f' style="fill:{fill}"' if fill != PLAIN else "") + (' class="b"' if style.bold else "")


def _fill(style: Style) -> str:
    if style.color is None or style.color.is_default:
        return DIM if style.dim else PLAIN
    number = style.color.number
    if number is not None and number < 2 * len(COLOURS):
        return COLOURS[number % len(COLOURS)]
    return style.color.get_truecolor().hex
