"""Runs one cell of the fault matrix, and judges how it has ended."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from tests.matrix.cells import Cell, Load
from tests.matrix.documented import PASSING, TASKS, lasting, undocumented
from tests.matrix.outcomes import Outcome
from tests.matrix.watch import raised, watching
from tests.matrix.world import IDLE_SECONDS, PATIENCE_SECONDS, World
from tests.support.waiting import wait_until


def outcome(world: World, cell: Cell, seconds: float, chance: random.Random) -> Outcome:
    """Runs a cell. Raises nothing: what goes wrong is a sentence."""
    wrong = []
    starts = world.starts()
    ended = time.monotonic()
    took_seconds = None
    must, may = lasting(cell)
    late, world.may = world.may, may
    try:
        world.prepare(cell)
        start, bulk_reads = world.end(), world.bulk_reads()
        with watching(world.bus.tasks, TASKS) as seen:
            with world.writer.writing(cell.load):
                wait_until(
                    lambda: world.is_under_way(cell.load, bulk_reads),
                    f"{cell.load} to be under way",
                    PATIENCE_SECONDS,
                )
                time.sleep(1 + 2 * chance.random())  # the random moment itself
                if not world.is_under_way(cell.load, bulk_reads):
                    wrong.append(f"{cell.load} was over before the fault")
                if said := world.hurt(cell, seconds):
                    wrong.append(said)
                ended = time.monotonic()
            wrong += _differences(world, start, starts)
            took_seconds = time.monotonic() - ended
            wait_until(
                lambda: must <= seen.alarms and not _passing(world),
                "alarms to come and to end",
                IDLE_SECONDS,
            )
        wrong += undocumented(cell, seconds, seen, late)
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")
    if took_seconds is None:
        took_seconds = time.monotonic() - ended
    return Outcome(cell, took_seconds, tuple(wrong), seconds)


def _differences(world: World, start: int, starts: int) -> Iterator[str]:
    """Waits for source and target to be equal, and both tasks at work. A sentence for each promise
    that is broken by then. `start`: the end of the topic, `starts`: how often the fetch task had
    begun, both before the cell."""
    world.writer.write(Load.STEADY)
    world.wait_working()
    differs = [""]

    def is_equal() -> bool:
        differs[0] = world.verified()
        return not differs[0]

    try:
        wait_until(is_equal, "source and target to be equal", PATIENCE_SECONDS)
    except AssertionError:
        yield differs[0]
    try:
        wait_until(lambda: len(set(world.offsets())) == 1, "equal offsets", IDLE_SECONDS)
    except AssertionError:
        own, target = world.offsets()
        yield f"ZooKeeper stays at offset {own}, the target at {target}"
    back = world.went_back(start)
    # Counted after the topic was read: a task that has just begun again may send rows twice.
    if back and world.starts() == starts:
        yield f"{len(back)} rows went back in time, as {back[0]}"


def _passing(world: World) -> frozenset[str]:
    """The raised alarms that end by themselves."""
    return PASSING & {alarm for _, alarm in raised(world.bus.tasks, TASKS)}
