"""What a node does periodically besides its work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

LOG = logging.getLogger(__name__)
END_SECONDS = 5.0


@contextmanager
def repeating(name: str, seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Calls `act` every `seconds` while the block runs, on a thread of its own. A call that waits
    for a server does not keep the process from ending. What a call raises is logged, and the next
    one is made: for hours nobody would miss what a thread that has ended should do."""
    over = Event()

    def act_on() -> None:
        logged = ""
        while not over.wait(seconds):
            reason = ""
            try:
                act()
            except Exception as error:
                reason = type(error).__name__
            # Once for each reason.
            if reason and reason != logged:
                LOG.error(
                    "%s: unexpected %s, please report it; tried again every %g s",
                    name,
                    reason,
                    seconds,
                )
            logged = reason

    thread = Thread(target=act_on, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        # Not longer: the thread is a daemon, and may be waiting for a server.
        thread.join(END_SECONDS)
