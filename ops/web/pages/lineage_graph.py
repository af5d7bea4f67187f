"""The way of rows as a picture: source table, fetch task, topic, consumer task, target table,
left to right. Pure: places and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdcbus.tasks.control.lineage import Way

HEADINGS = ("Source", "Fetch task", "Topic", "Consumer task", "Target")
KINDS = ("source", "task", "topic", "task", "target")
GAP_X, GAP_Y, HEIGHT, TOP = 64, 12, 42, 26
LETTER = 7.4  # width of one at the size of the page's style
LEAST, MOST = 110, 250
NOBODY = ("", "")


@dataclass(frozen=True, slots=True)
class Box:
    """`under`: the small text. `is_missing`: nobody is known there."""

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
    """Each thing once; what is not known as a dashed box. Boxes of a column stand in the order
    of the ways, near what they hang on."""
    paths = [_steps(way) for way in ways]
    columns: list[dict[tuple[str, str], float]] = [{} for _ in HEADINGS]
    for column, rows in enumerate(columns):
        for path in paths:
            rows.setdefault(path[column], 0.0)
    _place(columns, paths)
    widths = [max((_width(step) for step in rows), default=LEAST) for rows in columns]
    lefts = [sum(widths[:column]) + column * GAP_X for column in range(len(columns))]
    boxes = [
        Box(
            KINDS[column],
            fitted(step[0], widths[column] - 20),
            fitted(step[1], widths[column] + 10),
            lefts[column],
            y,
            widths[column],
            not step[0],
        )
        for column, rows in enumerate(columns)
        for step, y in rows.items()
    ]
    joints = dict.fromkeys(
        (column, path[column], path[column + 1])
        for path in paths
        for column in range(len(columns) - 1)
    )
    edges = [
        Edge(
            _curve(
                lefts[column] + widths[column],
                columns[column][left],
                lefts[column + 1],
                columns[column + 1][right],
            ),
            not (left[0] and right[0]),
        )
        for column, left, right in joints
    ]
    height = max((y + HEIGHT for rows in columns for y in rows.values()), default=TOP) + 2
    return Graph(
        lefts[-1] + widths[-1],
        height,
        [Heading(text, x) for text, x in zip(HEADINGS, lefts, strict=True)],
        boxes,
        edges,
    )


def _steps(way: Way) -> tuple[tuple[str, str], ...]:
    """Name and small text, per column. Two unknown ones are told apart by what they hang on."""
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
    """The highest column stands tight; every other box at the middle of what it hangs on, or as
    near as the one above lets it."""
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
    return (
        text if len(text) <= room else f"{text[: room // 2]}…{text[len(text) - (room - 1) // 2 :]}"
    )


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle, start, end = (x1 + x2) / 2, y1 + HEIGHT / 2, y2 + HEIGHT / 2
    return (
        f"M{x1:.1f} {start:.1f}C{middle:.1f} {start:.1f} {middle:.1f} {end:.1f} {x2:.1f} {end:.1f}"
    )
