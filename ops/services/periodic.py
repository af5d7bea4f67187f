"""What a node does periodically besides its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

END_SECONDS = 5.0


@contextmanager
def repeating(name: str, seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Calls `act` every `seconds` while the block runs, on a thread of its own. A call that waits
    for a server does not keep the process from ending."""
    over = Event()

    def act_on() -> None:
        while not over.wait(seconds):
            act()

    thread = Thread(target=act_on, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        # Not longer: the thread is a daemon, and may be waiting for a server.
        thread.join(END_SECONDS)
