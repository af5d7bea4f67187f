"""Saves that are done when they return, for tests that look immediately afterwards."""

from __future__ import annotations

from collections.abc import Callable

from cdcbus.plugins.saved_aside import SavedAside


class SavedAtOnce(SavedAside):
    """Saves on a thread of its own, as always, but waits for it."""

    def save(self, write: Callable[[], None]) -> None:
        super().save(write)
        assert self._thread is not None
        self._thread.join()
