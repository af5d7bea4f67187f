"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
    """Returns as soon as `holds()`; fails, saying what was awaited, when it does not within
    `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.05)
