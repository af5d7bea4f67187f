"""The way of rows as a picture: source table, fetch task, topic, consumer task, target table, left
to right. Pure: positions and sizes only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cdcbus.tasks.control.lineage import Way

HEADINGS = ("Source", "Fetch task", "Topic", "Consumer task", "Target")
KINDS = ("source", "task", "topic", "task", "target")
GAP_X, GAP_Y, HEIGHT, TOP = 64, 12, 42, 26
LETTER = 7.4  # the width of a letter in the page's style
LEAST, MOST = 110, 250
NOBODY = ("", "")


@dataclass(frozen=True, slots=True)
class Box:
    """`under`: the small text. `is_missing`: no task or table is known there."""

    kind: str
    name: str
    under: str
    x: float
    y: float
    width: float
    is_missing: bool

    @property
    def height(self) -> int:
        return HEIGHT


@dataclass(frozen=True, slots=True)
class Edge:
    """`path`: SVG."""

    path: str
    is_missing: bool


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    x: float


@dataclass(frozen=True, slots=True)
class Graph:
    width: float
    height: float
    headings: Sequence[Heading]
    boxes: Sequence[Box]
    edges: Sequence[Edge]


def graph(ways: Iterable[Way]) -> Graph:
    """Shows each thing once, an unknown one as a dashed box. The boxes of a column are in the order
    of the ways, near the boxes that they are connected with."""
    paths = [_steps(way) for way in ways]
    columns: list[dict[tuple[str, str], float]] = [{} for _ in HEADINGS]
    for column, rows in enumerate(columns):
        for path in paths:
            rows.setdefault(path[column], 0.0)
    _place(columns, paths)
    widths = [max(map(_width, rows), default=LEAST) for rows in columns]
    lefts = [sum(widths[:column]) + column * GAP_X for column in range(len(columns))]
    boxes = []
    lowest: float = TOP
    for column, rows in enumerate(columns):
        width = widths[column]
        for (name, under), y in rows.items():
            name_shown = fitted(name, width - 20)
            under_shown = fitted(under, width + 10)  # its letters are smaller
            x = lefts[column]
            boxes.append(Box(KINDS[column], name_shown, under_shown, x, y, width, not name))
            lowest = max(lowest, y + HEIGHT)
    edges = []
    for column, left, right in _joints(paths):
        x1 = lefts[column] + widths[column]
        x2 = lefts[column + 1]
        curve = _curve(x1, columns[column][left], x2, columns[column + 1][right])
        edges.append(Edge(curve, not (left[0] and right[0])))
    headings = list(map(Heading, HEADINGS, lefts))
    return Graph(lefts[-1] + widths[-1], lowest + 2, headings, boxes, edges)


def _joints(
    paths: Sequence[tuple[tuple[str, str], ...]],
) -> list[tuple[int, tuple[str, str], tuple[str, str]]]:
    """The column and the two ends of each edge, once."""
    joints = {}
    for path in paths:
        for column, ends in enumerate(pairwise(path)):
            joints[column, *ends] = True
    return list(joints)


def _steps(way: Way) -> tuple[tuple[str, str], ...]:
    """Name and small text for each column. The small text tells unknown things apart by what they
    are connected with."""
    return (
        (way.source, way.server),
        (way.fetch_task, "" if way.fetch_task else f"writer of {way.topic}"),
        (way.topic, ""),
        (way.load_task, "" if way.load_task else f"reader of {way.topic}"),
        (way.target, way.database) if way.load_task else ("", f"of {way.topic}"),
    )


def _place(
    columns: Sequence[dict[tuple[str, str], float]], paths: Sequence[tuple[tuple[str, str], ...]]
) -> None:
    """The tallest column has no gaps; every other box is at the middle of the boxes that it is
    connected with, or as near as the box above it allows."""
    tallest = max(range(len(columns)), key=lambda column: len(columns[column]))
    for number, step in enumerate(columns[tallest]):
        columns[tallest][step] = TOP + number * (HEIGHT + GAP_Y)
    for column in [*range(tallest - 1, -1, -1), *range(tallest + 1, len(columns))]:
        beside = column + 1 if column < tallest else column - 1
        wished = {}
        for step in columns[column]:
            places = {columns[beside][path[beside]] for path in paths if path[column] == step}
            wished[step] = sum(places) / len(places)
        y = float(TOP)
        for step in sorted(wished, key=lambda step: wished[step]):
            columns[column][step] = y = max(y, wished[step])
            y += HEIGHT + GAP_Y


def _width(step: tuple[str, str]) -> float:
    return min(MOST, max(LEAST, len(step[0]) * LETTER + 24, len(step[1]) * LETTER * 0.86 + 24))


def fitted(text: str, width: float) -> str:
    """The text, shortened in its middle to a width."""
    room = max(3, int(width / LETTER))
    if len(text) <= room:
        return text
    end = len(text) - (room - 1) // 2
    return f"{text[: room // 2]}…{text[end:]}"


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle, start, end = (x1 + x2) / 2, y1 + HEIGHT / 2, y2 + HEIGHT / 2
    return (
        f"M{x1:.1f} {start:.1f}C{middle:.1f} {start:.1f} {middle:.1f} {end:.1f} {x2:.1f} {end:.1f}"
    )
