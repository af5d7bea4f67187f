"""What counts as headway between the attempts of a fetch task."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from threading import Event
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from cdcbus.plugins.error_policy import keep_trying
from cdcbus.plugins.errors import SourceUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.producer import run
from cdcbus.producer.added import run as added_run
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.progress import Progress
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.schema.schema_reader import UnopenedTable
from cdcbus.producer.server.failover import Addresses, pause_seconds
from tests.support.waiting import wait_until

TASK = FetchTask(
    "1", "s", SourceConfig((("h", 1),), "u"), FilterConfig(), PublishConfig("k", "t", "canalRow")
)


def pauses(
    monkeypatch: pytest.MonkeyPatch, error: type[SourceUnavailable], stored: list[int]
) -> list[float]:
    """The pauses of a task, each of whose attempts sends a row, stores this many positions, and
    ends in the error."""
    progress, stop = Progress(), Event()
    found: list[float] = []
    for name in ("BinlogSource", "beating"):
        monkeypatch.setattr(run, name, lambda *_, **__: nullcontext(MagicMock()))
    monkeypatch.setattr(run, "has_sent_live", lambda *_, **__: False)
    monkeypatch.setattr(run, "start_position", lambda *_: (BinlogPosition("bin.1", 4), True))
    monkeypatch.setattr(run, "warn_of_changes", lambda *_: None)

    def copy(*_: Any, **__: Any) -> None:
        progress.sent(1)
        progress.stored += stored.pop(0)
        if not stored:
            stop.set()
        raise error("x")

    monkeypatch.setattr(run._Fetch, "_copy", copy)
    addresses = Addresses(TASK, lambda: progress.headway)
    other = cast(Any, MagicMock(cluster_id="c"))
    fetch = run._Fetch(
        other, other, other, other, other, addresses, progress, other, other, stop, ""
    )

    def pause(failures: int) -> float:
        found.append(pause_seconds(failures))
        return 0.0

    keep_trying(other, fetch.attempt, addresses.done, stop, pause)
    return found


def test_rows_sent_again_before_a_table_that_cannot_be_opened_are_no_headway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of a transaction that is read in several batches."""
    assert pauses(monkeypatch, UnopenedTable, [1, 0, 0, 0]) == [2, 4, 6, 8]
    assert pauses(monkeypatch, SourceUnavailable, [1, 0, 0]) == [2, 2, 2]


@pytest.mark.parametrize("module", [run, added_run])
def test_attempts_that_fail_at_the_source_leave_no_statistics_in_memory(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    """They go on for as long as the source is away."""

    def refuse(*_: Any) -> Any:
        raise SourceUnavailable("away")

    monkeypatch.setattr(module, "BinlogSource" if module is run else "OpenSource", refuse)
    options = {"test.mock.num.brokers": "1", "statistics.interval.ms": "200"}
    config = PublishConfig("127.0.0.1:1", "t", "canalRow", kafka_options=options)
    progress, other = Progress(), cast(Any, MagicMock())
    publisher = KafkaPublisher(
        config, make_converter("canalRow"), Event(), on_queued=progress.queued
    )
    fetch = module._Fetch(
        **dict.fromkeys(module._Fetch.__match_args__, other) | {"publisher": publisher}
    )
    for _ in range(2):
        wait_until(lambda: len(publisher.client) > 3, "statistics")
        with pytest.raises(SourceUnavailable):
            fetch.attempt()
        assert len(publisher.client) < 3


def test_a_task_that_is_stopped_while_it_looks_for_its_place_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = Event()

    def search(task: FetchTask, *_: Any, proceed: Callable[[], None]) -> Any:
        proceed()
        stop.set()
        proceed()

    monkeypatch.setattr(run, "BinlogSource", search)
    for name in ("KafkaPublisher", "make_converter", "deliveries", "noted_logs"):
        monkeypatch.setattr(run, name, MagicMock())
    other = cast(Any, MagicMock())
    run.run(TASK, other, other, stop, other, other)
    assert not other.retrying.called
