"""Tells Ctrl-C from an error."""

from __future__ import annotations


def is_interrupted(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or was raised while one propagated: a library that is interrupted
    halfway often raises an error of its own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__context__
    return False
