"""The ten cells of the fault matrix that are most likely to break; `make chaos` runs them all, with
longer faults."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.matrix.cells import LIKELY, Cell
from tests.matrix.run_cell import outcome
from tests.matrix.world import World

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

# Longer than a node's lease, so that others take over meanwhile.
FAULT_SECONDS = 8.0


@pytest.fixture(scope="module")
def world(killable_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One bus for all cells, as each would wait for its start otherwise."""
    with ExitStack() as stack:
        yield World(killable_home, tmp_path_factory.mktemp("cells"), 1, stack)


@pytest.mark.parametrize("cell", LIKELY, ids=str)
def test_source_and_target_are_equal_and_no_row_goes_back(world: World, cell: Cell) -> None:
    """More than 20 s for some: a fault must outlast a lease."""
    seed = time.time_ns() % 2**32
    found = outcome(world, cell, FAULT_SECONDS, random.Random(seed))
    assert found.wrong == (), f"seed {seed}\n{world.bus.said()}"
