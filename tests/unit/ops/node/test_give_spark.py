"""How the process of a node's consumer tasks gives Spark to those who ask for it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import orjson
import pytest

from cdcbus.ops.node.spark_tasks import _Channel, _Logs, _obey, _Tasks
from cdcbus.plugins.errors import CdcError
from tests.support.processes.no_threads import without_threads


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


def test_a_task_without_a_thread_ends_and_the_next_orders_are_obeyed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as told:
        nothing: Any = None
        node = _Tasks(nothing, nothing, nothing, _Channel(theirs), _Logs())
        without_threads(monkeypatch, "task-")
        ours.sendall(b"".join(b'{"start":%d,"task":"x","log":"x.log"}\n' % each for each in (1, 2)))
        ours.shutdown(socket.SHUT_WR)
        monkeypatch.chdir(tmp_path)
        stop = Event()
        _obey(_Channel(theirs), node, stop)
        assert stop.is_set()
        node.stop_all()
        ends = [orjson.loads(told.readline()) for _ in range(2)]
    assert [(each["ended"], each["code"]) for each in ends] == [(1, 1), (2, 1)]
    assert "check its limits of threads" in ends[0]["sentence"]


def test_an_end_of_spark_is_reported_with_its_cause_and_the_tasks_that_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def open_spark(*_: object) -> Iterator[str]:
        yield "a session"

    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda *given: killed.append(given))
    nothing: Any = None
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as told:
        node = _Tasks(nothing, nothing, nothing, _Channel(theirs), nothing)
        given: Any = node.spark
        given.set_result(open_spark)
        with node._open_session(8, nothing, Event()):
            pass
        with node._open_session(7, nothing, Event()):
            node.end_with_spark("the JVM of Spark has ended")
        assert orjson.loads(told.readline()) == {
            "crash": "the JVM of Spark has ended",
            "tasks": [7],
        }
    assert killed == [(0, signal.SIGKILL)]


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
