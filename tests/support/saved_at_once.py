"""Saves that are done when they have been begun, for tests that look right behind them."""

from __future__ import annotations

from collections.abc import Callable

from cdcbus.plugins.saved_aside import SavedAside


class SavedAtOnce(SavedAside):
    """Still on a thread of its own, which is waited for."""

    def save(self, write: Callable[[], None]) -> None:
        super().save(write)
        assert self._thread is not None
        self._thread.join()
