"""Snapshots of random tables, with writers, whose tasks are killed at random moments.

CDCBUS_TEST_KILLS says how often each; the default is what has time in every run.
"""

import os

import pytest

from tests.support.changes.shop import Shop
from tests.support.changes.snapshot_story import play, seed_of_this_run

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KILLS = int(os.environ.get("CDCBUS_TEST_KILLS", "1"))


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_all_copies_are_equal_after_a_snapshot_whose_tasks_were_killed(
    shop: Shop, target: str
) -> None:
    """More than 20 s: a snapshot with writers beside it, whose tasks start again."""
    play(shop, target, seed_of_this_run(), tables=6 + KILLS, rows=5000, kills=KILLS)
