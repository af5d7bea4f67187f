"""The way of rows as a diagram: source table, fetch task, topic, consumer task, and on through
further topics and tasks to the last target, left to right. Pure: positions and sizes only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cdcbus.tasks.lineage.ways import Way

SOURCE, TASK, TOPIC, TARGET = "source", "task", "topic", "target"
# Columns that a way goes past, or that come after its end.
PASSED, ENDED = "passed", "ended"
HEADINGS = {SOURCE: "Source", TASK: "Consumer task", TOPIC: "Topic", TARGET: "Target"}
FETCH_COLUMN = 1
GAP_X, GAP_Y, HEIGHT, TOP = 64, 12, 42, 26
LINE = 10  # the height that a line takes where it passes a column
# The widths of letters in the page's style, rather too wide than too small.
NARROW, LOWER, UPPER, WIDE = 4.6, 8.0, 9.6, 12.8
NARROWS, WIDES = frozenset("ijl.,:;|!'()[]"), frozenset("MW@%mw—")
FIRST_WIDE = 0x2E80  # from here on: Chinese, Japanese, Korean
SMALL = 0.86  # of the letters below a name
LEAST, MOST, PADDING = 110, 300, 20


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task. `level`: `good`, `warn`, `bad`, or empty where it is unknown."""

    words: str
    level: str = ""


UNKNOWN = TaskState("")


@dataclass(frozen=True, slots=True)
class Station:
    """A thing on a way; the small text distinguishes unknown ones by their neighbours."""

    kind: str
    name: str
    under: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """`name`, `under`: fitted to its width; `whole`: the name as it is. `is_missing`: no task or
    table is known there."""

    kind: str
    name: str
    whole: str
    under: str
    x: float
    y: float
    width: float
    is_missing: bool
    level: str = ""

    @property
    def height(self) -> int:
        return HEIGHT


@dataclass(frozen=True, slots=True)
class Edge:
    """`path`: SVG. `level`: that of the task at one of its ends."""

    path: str
    is_missing: bool
    level: str = ""


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


Path = tuple[Station, ...]
Columns = Sequence[dict[Station, float]]


def graph(ways: Iterable[Way], states: Mapping[str, TaskState] | None = None) -> Graph:
    """Shows each thing once, an unknown one as a dashed box. The boxes of a column are in the order
    of the ways, near the boxes that they are connected with. `states`: of tasks, by id."""
    known = states or {}
    # Tables of one task often share a way: each is drawn once.
    paths = _full(list(dict.fromkeys(map(stations, ways))))
    if not paths:
        return Graph(0, TOP + 2, (), (), ())
    columns: list[dict[Station, float]] = [{} for _ in paths[0]]
    for path in paths:
        for column, station in zip(columns, path, strict=True):
            column.setdefault(station, 0.0)
    _place(columns, paths)
    # A column is as wide as its widest box, and begins after the one before.
    widths = []
    lefts = []
    left = 0.0
    for column in columns:
        width = max(_width(station, known) for station in column)
        widths.append(width)
        lefts.append(left)
        left += width + GAP_X
    headings = []
    boxes = []
    lowest: float = TOP
    for number, column in enumerate(columns):
        headings.append(Heading(_heading(number, column), lefts[number]))
        for station, y in column.items():
            # Lines past a column have no box, but take height.
            lowest = max(lowest, y + _height(station))
            if station.kind not in (PASSED, ENDED):
                boxes.append(_box(station, lefts[number], y, widths[number], known))
    edges = _edges(paths, columns, lefts, widths, known)
    return Graph(lefts[-1] + widths[-1], lowest + 2, headings, boxes, edges)


def stations(way: Way) -> Path:
    """A way from its source to its last target. One that comes back to where it was ends there."""
    found = [Station(SOURCE, way.source, way.server), _task(way.fetch_task, "writer", way)]
    hop: Way | None = way
    while hop is not None:
        for station in (Station(TOPIC, hop.topic), _task(hop.load_task, "reader", hop)):
            if station in found:  # a ring: its rows come back to where they were
                return tuple(found)
            found.append(station)
        if hop.onward is None:
            found.append(_target(hop))
        hop = hop.onward
    return tuple(found)


def _task(task_id: str, role: str, way: Way) -> Station:
    """An unknown task is distinguished from others by its topic."""
    if task_id:
        return Station(TASK, task_id)
    return Station(TASK, "", f"{role} of {way.topic}")


def _target(way: Way) -> Station:
    if way.load_task:
        return Station(TARGET, way.target, way.database)
    return Station(TARGET, "", f"of {way.topic}")


def text_width(text: str) -> float:
    """The largest width that a text has in the page's style."""
    width = 0.0
    for letter in text:
        if letter in NARROWS:
            width += NARROW
        elif letter in WIDES or ord(letter) >= FIRST_WIDE:
            width += WIDE
        elif letter.isupper() or letter in "_0123456789":
            width += UPPER
        else:
            width += LOWER
    return width


def fitted(text: str, width: float) -> str:
    """The text, shortened in its middle to a width."""
    if text_width(text) <= width:
        return text
    kept = len(text) - 1
    while kept > 2:
        kept -= 1
        shorter = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
        if text_width(shorter) <= width:
            return shorter
    return f"{text[:1]}…{text[-1:]}"


def _full(paths: Sequence[Path]) -> list[Path]:
    """The same paths, each thing in one column only, targets in the last one; a path goes past the
    columns in which it has nothing."""
    column = _columns_of(paths)
    last = max(column.values(), default=0)
    found = []
    for path in paths:
        full: list[Station] = []
        for station in path:
            place = column[station]
            if station.kind == TARGET:
                place = last
            while len(full) < place:
                # A name of its own, so that each line past a column has its own place.
                full.append(Station(PASSED, f"{full[-1].name}→{station.name}", station.under))
            # A ring can have put it before the column that the path has reached: then it is left
            # out.
            if len(full) == place:
                full.append(station)
        while len(full) <= last:  # a way that came back
            full.append(Station(ENDED, full[-1].name))
        found.append(tuple(full))
    return found


def _columns_of(paths: Sequence[Path]) -> dict[Station, int]:
    """The column of each station: after those of all stations that come before it on a path."""
    column: dict[Station, int] = {}
    longest = max(map(len, paths), default=0)
    # A station moves right as often as there are stations before it. A ring would move its stations
    # forever, so both the rounds and the columns have an end.
    for _ in range(longest + 1):
        for path in paths:
            before = -1
            for station in path:
                column[station] = min(max(column.get(station, 0), before + 1), 2 * longest)
                before = column[station]
    return column


def _place(columns: Columns, paths: Sequence[Path]) -> None:
    """The tallest column has no gaps; every other box is at the middle of the boxes that it is
    connected with, or as near as the box above it allows."""
    heights = [_column_height(column) for column in columns]
    tallest = heights.index(max(heights))
    y = float(TOP)
    for station in columns[tallest]:
        columns[tallest][station] = y
        y += _height(station) + GAP_Y
    # From the tallest column outwards, so that the column beside is always placed already.
    for number in range(tallest - 1, -1, -1):
        _place_beside(columns, paths, number, number + 1)
    for number in range(tallest + 1, len(columns)):
        _place_beside(columns, paths, number, number - 1)


def _column_height(column: Iterable[Station]) -> int:
    return sum(_height(station) + GAP_Y for station in column)


def _place_beside(columns: Columns, paths: Sequence[Path], number: int, beside: int) -> None:
    """Places a column by the one beside it."""
    middles: dict[Station, set[float]] = {}
    for path in paths:
        other = path[beside]
        middle = columns[beside][other] + _height(other) / 2
        middles.setdefault(path[number], set()).add(middle)
    wished = {}
    for station, found in middles.items():
        wished[station] = sum(found) / len(found) - _height(station) / 2
    y = float(TOP)
    for station in sorted(wished, key=wished.__getitem__):
        y = max(y, wished[station])
        columns[number][station] = y
        y += _height(station) + GAP_Y


def _edges(
    paths: Sequence[Path],
    columns: Columns,
    lefts: Sequence[float],
    widths: Sequence[float],
    known: Mapping[str, TaskState],
) -> list[Edge]:
    """Each once: a curve between two columns, and a line past a column."""
    ends: dict[tuple[int, Station, Station], str] = {}
    for path in paths:
        task = ""
        for number, (left, right) in enumerate(pairwise(path)):
            if right.kind == ENDED:
                break
            # A line has the level of the task that it leads to, else of the one it comes from.
            if right.kind == TASK:
                task = right.name
            elif left.kind == TASK:
                task = left.name
            ends.setdefault((number, left, right), task)
    found = []
    for (number, left, right), task in ends.items():
        x1, x2 = lefts[number] + widths[number], lefts[number + 1]
        y1 = columns[number][left] + _height(left) / 2
        y2 = columns[number + 1][right] + _height(right) / 2
        curve = _curve(x1, y1, x2, y2)
        if right.kind == PASSED:
            curve += f"H{x2 + widths[number + 1]:.1f}"
        is_missing = not (left.name and right.name)
        found.append(Edge(curve, is_missing, known.get(task, UNKNOWN).level))
    return found


def _box(station: Station, x: float, y: float, width: float, known: Mapping[str, TaskState]) -> Box:
    state = _state(station, known)
    room = width - PADDING
    return Box(
        kind=station.kind,
        name=fitted(station.name, room),
        whole=station.name,
        under=fitted(state.words, room / SMALL),
        x=x,
        y=y,
        width=width,
        is_missing=not station.name,
        level=state.level,
    )


def _state(station: Station, known: Mapping[str, TaskState]) -> TaskState:
    """The small text of a station and its level: of a known task its state."""
    if station.kind == TASK and station.name in known:
        return known[station.name]
    return TaskState(station.under)


def _width(station: Station, known: Mapping[str, TaskState]) -> float:
    if station.kind in (PASSED, ENDED):
        return LEAST
    under = _state(station, known).words
    wished = max(text_width(station.name), text_width(under) * SMALL) + PADDING + 4
    return min(MOST, max(LEAST, wished))


def _height(station: Station) -> int:
    if station.kind in (PASSED, ENDED):
        return LINE
    return HEIGHT


def _heading(number: int, column: Iterable[Station]) -> str:
    if number == FETCH_COLUMN:
        return "Fetch task"
    for station in column:
        if station.kind in HEADINGS:
            return HEADINGS[station.kind]
    return ""


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
