"""A process that is killed before one of its writes to ZooKeeper, from the first to the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient, TransactionRequest

MOST_WRITES = 100


class Killed(Exception):
    """Instead of the end of the process."""


def killed_at_each_write(run: Callable[[], bool]) -> Iterator[bool]:
    """Calls `run`, which says whether it succeeded, until it does: first it is killed before its
    first write, then before its second. Yields what it said."""
    for allowed in range(MOST_WRITES):
        with pytest.MonkeyPatch.context() as patch:
            left = [allowed]
            for holder, name in (
                (KazooClient, "create_async"),
                (KazooClient, "set_async"),
                (KazooClient, "delete_async"),
                (TransactionRequest, "commit_async"),
            ):
                patch.setattr(holder, name, _counted(getattr(holder, name), left))
            is_done = run()
        yield is_done
        if is_done:
            return
    raise AssertionError(f"it has not succeeded with {MOST_WRITES} writes")


def _counted(write: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def counted(*args: Any, **options: Any) -> Any:
        # Nothing is written after a kill either.
        if left[0] <= 0:
            raise Killed
        left[0] -= 1
        return write(*args, **options)

    return counted
