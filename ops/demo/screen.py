"""What the running demo shows: a live table on a terminal, lines elsewhere, with events above
it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cdcbus.ops.demo.fresh import TOPIC
from cdcbus.ops.demo.measure import Offsets, Rates, Sample
from cdcbus.ops.demo.task_files import FETCH
from cdcbus.plugins.positions import BinlogPosition

LINE_SECONDS = 3.0  # between two lines where there is no terminal
WIDTH = 80


class State(StrEnum):
    """The state of a task process."""

    STARTING = "starting"
    WORKING = "working"
    KILLED = "killed"


_DOTS = {State.STARTING: "[yellow]◌[/]", State.WORKING: "[green]●[/]", State.KILLED: "[red]✗[/]"}


@dataclass(frozen=True, slots=True)
class Phase:
    """What is happening, for how long already, and its duration where that is known."""

    title: str
    elapsed: float
    seconds: float | None = None


class Screen:
    """Shows samples and events. A context manager: within it the table is on the terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.events: list[Text] = []
        self._started = self._line_at = time.monotonic()
        self._live = None
        if console.is_terminal:
            # Drawn with each sample: in between nothing changes.
            self._live = Live(console=console, auto_refresh=False)
        self._rates = Rates()

    def __enter__(self) -> Screen:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def elapsed(self) -> float:
        """Seconds since the screen was made."""
        return time.monotonic() - self._started

    def event(self, sign: str, style: str, sentence: str) -> None:
        """Prints a line that stays: when, and what has happened."""
        event = Text.assemble((f"{self.elapsed:5.1f} s  ", "dim"), (f"{sign} ", style), sentence)
        self.events.append(event)
        self.console.print(event, soft_wrap=True)

    def show(self, phase: Phase, sample: Sample, states: Mapping[str, State]) -> RenderableType:
        """Shows the current state, and returns what a terminal shows."""
        self._rates.add(sample.at, sample.counts)
        picture = Group(_header(phase), _table(sample, self._rates, states))
        if self._live:
            self._live.update(picture, refresh=True)
        elif sample.at - self._line_at >= LINE_SECONDS:
            self._line_at = sample.at
            line = plain_line(phase, sample, self._rates, states)
            at = f"{sample.at - self._started:5.1f} s  "
            self.console.print(at + line, highlight=False, soft_wrap=True)
        return picture


def _header(phase: Phase) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(justify="right", width=30)
    grid.add_column(justify="right", width=12)
    title = Text(phase.title, "bold")
    if phase.seconds is None:
        grid.add_row(title, "", f"{phase.elapsed:.0f} s")
        return grid
    elapsed = min(phase.elapsed, phase.seconds)
    bar = ProgressBar(phase.seconds, elapsed, width=30, complete_style="green")
    grid.add_row(title, bar, f"{elapsed:.0f} of {phase.seconds:.0f} s")
    return grid


def _table(sample: Sample, rates: Rates, states: Mapping[str, State]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True, padding=(0, 1, 0, 0))
    table.add_column("")
    for title in ("rows/s", "rows", "behind", "lag"):
        table.add_column(title, justify="right")
    table.add_column("position")
    table.add_row(
        *_flow("MariaDB binlog", "source", sample, rates), "", "", _place(sample.binlog_end)
    )
    table.add_row(
        _name(FETCH, states), "", "", _binlog_behind(sample), "", _position(FETCH, sample, states)
    )
    table.add_row(*_flow(f"Kafka {TOPIC}", "kafka", sample, rates), "", "", _offsets(sample.ends))
    for task_id in sample.consumed:
        behind, lag = f"{sample.lag_records(task_id):,}", _lag(sample, task_id)
        table.add_row(
            _name(task_id, states),
            *_numbers(task_id, sample, rates),
            behind,
            lag,
            _position(task_id, sample, states),
        )
    return table


def _flow(label: str, name: str, sample: Sample, rates: Rates) -> Sequence[str]:
    return f"  {label}", *_numbers(name, sample, rates)


def _numbers(name: str, sample: Sample, rates: Rates) -> tuple[str, str]:
    return f"{rates.per_second(name):,.0f}", f"{sample.counts[name]:,}"


def _name(task_id: str, states: Mapping[str, State]) -> str:
    return f"{_DOTS[states[task_id]]} {task_id}"


def _binlog_behind(sample: Sample) -> str:
    # Across files the distance is not known.
    if sample.fetched is None or sample.fetched.file != sample.binlog_end.file:
        return "?"
    return f"{(sample.binlog_end.pos - sample.fetched.pos) / 1000:,.0f} kB"


def _lag(sample: Sample, task_id: str) -> str:
    seconds = sample.consumed[task_id].lag_seconds
    if seconds is None:
        return ""
    return f"{seconds:.1f} s"


def _position(task_id: str, sample: Sample, states: Mapping[str, State]) -> Text:
    state = states[task_id]
    if state is not State.WORKING:
        return Text(f"{state} …", "yellow" if state is State.STARTING else "red")
    position = sample.position_of(task_id)
    if isinstance(position, BinlogPosition):
        return _place(position)
    return _offsets(position or ())


def _place(position: BinlogPosition) -> Text:
    return Text(str(position), "cyan")


def _offsets(offsets: Offsets) -> Text:
    return Text("  ".join(f"{offset:,}" for offset in offsets), "cyan")


def plain_line(phase: Phase, sample: Sample, rates: Rates, states: Mapping[str, State]) -> str:
    """The table in one line, for output without a terminal."""
    parts = [
        f"{phase.title}: {rates.per_second('source'):,.0f} rows/s changed, "
        f"{rates.per_second('kafka'):,.0f} out"
    ]
    for task_id in sample.consumed:
        if states[task_id] is not State.WORKING:
            parts.append(f"{task_id} {states[task_id]}")
            continue
        rate, behind = rates.per_second(task_id), sample.lag_records(task_id)
        part = f"{task_id} {rate:,.0f} in, {behind:,} behind"
        lag = _lag(sample, task_id)
        if lag:
            part += f", {lag}"
        parts.append(part)
    return "; ".join(parts)
