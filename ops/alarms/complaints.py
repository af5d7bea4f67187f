"""Troubles that last, logged once each."""

from __future__ import annotations

import logging

LOG = logging.getLogger(__name__)


class Complaints:
    """Logs a trouble once, until it is another one or over."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def complain(self, about: str, sentence: str) -> None:
        """An empty sentence: the trouble is over."""
        if sentence and self._logged.get(about, "") != sentence:
            LOG.warning("%s", sentence)
        self._logged[about] = sentence
