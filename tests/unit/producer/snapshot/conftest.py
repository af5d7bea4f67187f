"""What the tests of snapshots share."""

from __future__ import annotations

import pytest

from tests.unit.producer.snapshot.world import ORDERS, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture
def keyless(world: World) -> World:
    world.without_key = {ORDERS}
    return world
