"""How long a server keeps its binlog. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RETENTION: Final = ("binlog_expire_logs_seconds", "expire_logs_days")
DAY_SECONDS: Final = 86_400


def binlog_retention(variables: Mapping[str, str]) -> float | None:
    """How many seconds a server keeps its binlog; None: forever."""
    # MySQL since 8.0 and MariaDB since 10.6 count in seconds; where set, these override days.
    if seconds := float(variables.get("binlog_expire_logs_seconds") or 0):
        return seconds
    days = float(variables.get("expire_logs_days") or 0)
    return days * DAY_SECONDS or None
