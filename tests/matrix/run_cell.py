"""Runs one cell of the fault matrix, and judges how it has ended."""

from __future__ import annotations

import random
import time

from tests.matrix.cells import Cell, Load, Outcome
from tests.matrix.world import PATIENCE_SECONDS, World
from tests.support.waiting import wait_until


def outcome(world: World, cell: Cell, seconds: float, chance: random.Random) -> Outcome:
    """Runs a cell. Raises nothing: what goes wrong is a sentence."""
    wrong = []
    starts = world.starts()
    ended = time.monotonic()
    try:
        world.prepare(cell.victim, cell.load)
        start = world.end()
        with world.writer.writing(cell.load):
            time.sleep(1 + 2 * chance.random())  # the random moment itself
            if said := world.hurt(cell.victim, cell.fault, seconds):
                wrong.append(said)
            ended = time.monotonic()
        world.writer.write(Load.STEADY)
        world.wait_working()
        differs = [""]

        def is_equal() -> bool:
            differs[0] = world.verified()
            return not differs[0]

        try:
            wait_until(is_equal, "source and target to be equal", PATIENCE_SECONDS)
        except AssertionError:
            wrong.append(differs[0])
        back = world.went_back(start)
        # Counted after the topic was read: a task that has just begun again may send rows twice.
        if back and world.starts() == starts:
            wrong.append(f"{len(back)} rows went back in time, as {back[0]}")
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")
    return Outcome(cell, time.monotonic() - ended, tuple(wrong))
