"""The loop that runs a fetch task."""

from __future__ import annotations

from collections.abc import Callable

from cdcbus.producer.config import FetchTask


def fetch_loop(task: FetchTask) -> Callable[..., None]:
    """The `run` function for the task's source; imported on demand, as the import is slow."""
    if task.source.added is not None:
        from cdcbus.producer.added import run as added

        return added.run
    from cdcbus.producer import run as producer

    return producer.run
