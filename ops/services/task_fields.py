"""A task's status as JSON: what `cdcbus task list --json` prints and the API answers."""

from __future__ import annotations

from dataclasses import asdict

from cdcbus.tasks.zookeeper.status import Status


def as_fields(status: Status) -> dict[str, object]:
    """The fields of one task. `progress` is None until the task has reported."""
    run, stat = status.run, status.stat
    return {
        "task_id": status.task_id,
        "state": status.state,
        "reason": status.reason,
        "node_id": status.node_id,
        "is_by_hand": status.is_by_hand,
        "since": run.since if run else "",
        "restarts": run.all_restarts if run else 0,
        "open_letters": status.open_dead_letters,
        "progress": asdict(stat) if stat else None,
    }
