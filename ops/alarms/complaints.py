"""Lasting problems, each logged once."""

from __future__ import annotations

import logging

LOG = logging.getLogger(__name__)


class Complaints:
    """Logs a problem once, until it changes or is over."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def complain(self, about: str, sentence: str) -> None:
        """Logs a sentence about a problem; an empty one says that it is over."""
        if sentence and self._logged.get(about, "") != sentence:
            LOG.warning("%s", sentence)
        self._logged[about] = sentence
