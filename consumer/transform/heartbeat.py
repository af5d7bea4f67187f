"""Reads heartbeats: rows that a fetch task writes at the source so that their way to the target can
be timed."""

from __future__ import annotations

from datetime import UTC, datetime

from cdcbus.plugins.rowchange import RowChange


def read_beat(change: RowChange) -> tuple[str, float] | None:
    """The server id of the source that wrote a heartbeat, and the time of the write, in epoch
    seconds by the source's clock; None for a row without a valid time."""
    cells = {name.lower(): cell for name, cell in (change.after or {}).items()}
    try:
        beat_at = datetime.fromisoformat(cells.get("beat_at") or "")
    except ValueError:
        return None
    return cells.get("server_id") or "", beat_at.replace(tzinfo=UTC).timestamp()
