"""Silencing the alarms of a task for a while: how long, in words, and the command for it."""

from __future__ import annotations

import re
import time

from kazoo.client import KazooClient

from cdcbus.ops.alarms.store import AlarmNodes, Silence
from cdcbus.tasks.zookeeper.audit import audited

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
EXPECTED = "expected a number and s, m, h or d, 366d at most; example: 2h"
LONGEST_SECONDS = 366 * 86_400


def duration_seconds(text: str) -> float:
    """The seconds of `90s`, `30m`, `2h` or `1d`. Raises ValueError."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if not found:
        raise ValueError(EXPECTED)
    seconds = int(found[1]) * UNITS[found[2]]
    if seconds > LONGEST_SECONDS:
        raise ValueError(EXPECTED)
    return float(seconds)


def silence(client: KazooClient, task_id: str, seconds: float, by: str) -> Silence:
    """Silences a task from now on; 0 seconds end its silence. Recorded in the audit. Raises what
    calls to ZooKeeper raise."""
    made = None
    what = "alarm silence off"
    if seconds:
        made = Silence(time.time() + seconds, by)
        what = f"alarm silence {seconds:g} s"
    with audited(client, by, what, f"task {task_id}"):
        AlarmNodes(client).put_silence(task_id, made)
    return made or Silence()
