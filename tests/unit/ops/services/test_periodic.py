"""What a node does periodically, whatever one of its turns raises."""

from __future__ import annotations

import logging

import pytest

from cdcbus.ops.services.periodic import repeating
from tests.support.waiting import wait_until


def test_a_turn_that_fails_is_logged_once_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns: list[int] = []

    def act() -> None:
        turns.append(len(turns))
        if len(turns) <= 3:
            raise ValueError("a cell")

    with caplog.at_level(logging.INFO), repeating("letters", 0.001, act):
        wait_until(lambda: len(turns) > 5, "turns after those that failed", 10)
    assert caplog.messages == [
        "letters: unexpected ValueError, please report it; tried again every 0.001 s"
    ]
