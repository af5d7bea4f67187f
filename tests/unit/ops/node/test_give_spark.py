"""How the process of a node's consumer tasks gives Spark to those who ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from cdcbus.ops.node.spark_tasks import _Tasks
from cdcbus.plugins.errors import CdcError


def tasks() -> _Tasks:
    nothing: Any = None
    return _Tasks(nothing, nothing, nothing, nothing, nothing)


@contextmanager
def opening(found: object, *, is_refused: bool = False) -> Iterator[Any]:
    if is_refused:
        raise CdcError("Spark does not start")
    yield found


def test_who_has_asked_is_told_why_it_does_not_start_and_the_next_one_has_it_tried_again() -> None:
    """Else all tasks of the process would stand still with their locks."""
    node, stop = tasks(), Event()
    first: Future[Any] = node.spark
    node.is_spark_wanted.set()
    node.give_spark(opening(None, is_refused=True), stop)
    with pytest.raises(CdcError, match="does not start"):
        first.result(0)
    assert not node.is_spark_wanted.is_set()
    second: Future[Any] = node.spark
    assert second is not first and not second.done()
    node.is_spark_wanted.set()
    giving = Thread(target=node.give_spark, args=(opening("a session"), stop))
    giving.start()
    assert second.result(60) == "a session"
    stop.set()
    giving.join(60)
    assert not giving.is_alive()


def test_what_fails_once_it_is_there_is_no_matter_of_its_start() -> None:
    @contextmanager
    def breaking() -> Iterator[Any]:
        yield "a session"
        raise CdcError("its end")

    node, stop = tasks(), Event()
    stop.set()
    with pytest.raises(CdcError, match="its end"):
        node.give_spark(breaking(), stop)
    given: Future[Any] = node.spark
    assert given.result(0) == "a session"
