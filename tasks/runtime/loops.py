"""Which loop runs a task."""

from __future__ import annotations

from collections.abc import Callable

from cdcbus.producer.config import FetchTask


def fetch_loop(task: FetchTask) -> Callable[..., None]:
    """`run` of what reads the task's source; imported here, as it takes a while."""
    if task.source.added is not None:
        from cdcbus.producer.added import run as added

        return added.run
    from cdcbus.producer import run as producer

    return producer.run
