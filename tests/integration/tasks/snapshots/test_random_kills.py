"""Any tables, anybody who writes, kills at any moment: source, topic and target are equal."""

import random

import pytest

from tests.support.changes.shop import Shop
from tests.support.changes.snapshot_story import play, seed_of_this_run

pytestmark = pytest.mark.integration


def test_after_a_snapshot_with_writers_and_kills_all_are_equal(shop: Shop) -> None:
    """tests/chaos has the same for longer."""
    seed = seed_of_this_run()
    target = random.Random(seed).choice(("postgresql", "mariadb"))
    play(shop, target, seed, tables=5, rows=5000, kills=1)
