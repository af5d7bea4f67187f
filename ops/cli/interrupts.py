"""What Ctrl-C leads to."""

from __future__ import annotations


def is_interrupted(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or was raised while one was on its way out: what a library makes
    of being left in the middle is no fault of its own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__context__
    return False
