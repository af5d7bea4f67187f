"""Heartbeats at the end of their way: rows that a fetch task writes at the source, so that their way can be timed."""

from __future__ import annotations

from datetime import UTC, datetime

from cdcbus.plugins.rowchange import RowChange


def beat_seconds(change: RowChange) -> float:
    """When a heartbeat was written, in epoch seconds by the source's clock; 0 for a row that does not say it."""
    text = next((cell for name, cell in (change.after or {}).items() if name.lower() == "beat_at"), None)
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
