"""The znodes of a task's positions, and what they hold for those who only read."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.tasks.zookeeper.connection import ASK_SECONDS, LOST, REFUSED, ROOT, unanswered


def position_path(task_id: str, swimlane: str = "") -> str:
    """The znode of a swimlane, or the parent of all positions of a task."""
    directory = f"{ROOT}/task/{task_id}/position"
    return f"{directory}/{swimlane}" if swimlane else directory


def written_path(task_id: str, swimlane: str = "") -> str:
    """The znode that records what the task itself last wrote to `position_path`."""
    directory = f"{ROOT}/task/{task_id}/written"
    return f"{directory}/{swimlane}" if swimlane else directory


def stored_positions(client: KazooClient, task_id: str) -> dict[str, str]:
    """The stored text of each swimlane of a task, by path; changes nothing. Raises PositionError
    and PositionUnavailable."""
    directory = position_path(task_id)
    texts = {}
    try:
        for swimlane in sorted(client.get_children_async(directory).get(timeout=ASK_SECONDS)):
            path = f"{directory}/{swimlane}"
            data, _ = client.get_async(path).get(timeout=ASK_SECONDS)
            texts[path] = data.decode("utf-8", "replace")
        return texts
    except NoNodeError:
        return {}
    except (*LOST, *REFUSED) as error:
        raise unanswered(error, directory) from error
