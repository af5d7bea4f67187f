"""Heartbeats at the end of their way: rows that a fetch task writes at the source, so that their
way can be timed."""

from __future__ import annotations

from datetime import UTC, datetime

from cdcbus.plugins.rowchange import RowChange


def read_beat(change: RowChange) -> tuple[str, float] | None:
    """Which source has written a heartbeat, by its server id, and when, in epoch seconds by the
    source's clock; None for a row that does not say it."""
    cells = {name.lower(): cell for name, cell in (change.after or {}).items()}
    try:
        seconds = datetime.fromisoformat(cells.get("beat_at") or "").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return cells.get("server_id") or "", seconds
