"""Writers of records under one clock."""

from __future__ import annotations

import pytest


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways write the time at which they are made."""
    monkeypatch.setattr("time.time", lambda: 1_700_000_001.5)
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_001_500_000_000)
