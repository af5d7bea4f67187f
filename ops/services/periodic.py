"""What a node does again and again beside its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

END_SECONDS = 5.0


@contextmanager
def repeating(name: str, seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """As long as the block lasts, each so many seconds, on a thread of its own. One that is held
    up, by a server that does not answer, does not keep the process."""
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
        thread.join(END_SECONDS)
