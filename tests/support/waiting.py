"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 5.0


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
    """Returns as soon as `holds()`; fails, saying what was awaited, when it does not within
    `seconds`. A look that takes long is repeated less often: what is awaited needs the processor,
    too."""
    deadline = time.monotonic() + seconds
    began = time.monotonic()
    while not holds():
        looked = time.monotonic()
        assert looked < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(min(max(PAUSE_SECONDS, 2 * (looked - began)), LONGEST_PAUSE_SECONDS))
        began = time.monotonic()
