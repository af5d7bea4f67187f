"""Tells Ctrl-C from an error, and keeps it from what must be finished."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 130
"""As a shell's exit code of SIGINT."""


def is_interrupted(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or was raised while one propagated: a library that is interrupted
    halfway often raises an error of its own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__context__
    return False


@contextmanager
def uninterrupted() -> Iterator[None]:
    """During the block Ctrl-C has no effect, nor has any signal that a command treats as Ctrl-C.
    For removals that take a moment: whoever presses it again and again means to leave nothing."""
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.default_int_handler:
            before[number] = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
