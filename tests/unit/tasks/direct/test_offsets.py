"""Whether Kafka still holds what a direct load is followed by, without servers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.plugins.contracts import AppliedOffset, Details
from cdcbus.plugins.errors import ConfigError, PositionLost, TargetUnavailable
from cdcbus.tasks.direct import offsets
from cdcbus.tasks.local.memory import MemoryPositions
from cdcbus.tasks.snapshots.direct import DirectLoad
from tests.unit.tasks.direct.stand_ins import LOAD, ONE, Logs


@pytest.fixture(autouse=True)
def kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "TopicLogs", Logs)
    monkeypatch.setattr(offsets, "topic_ids", lambda _: {"shop": "new"})


@pytest.mark.parametrize("offset", [100, 150, 200])
def test_a_load_whose_offsets_kafka_still_holds_goes_on(offset: int) -> None:
    offsets.check_held(LOAD, DirectLoad({ONE: offset}, {"shop": "new"}, {}))
    offsets.check_held(LOAD, DirectLoad({ONE: offset}, {}, {}))  # of a Kafka without ids


@pytest.mark.parametrize("offset", [99, 201])
def test_a_load_whose_offsets_are_gone_is_given_up(offset: int) -> None:
    with pytest.raises(PositionLost, match="what was written meanwhile is lost"):
        offsets.check_held(LOAD, DirectLoad({ONE: offset}, {"shop": "new"}, {}))


def test_an_id_that_kafka_leaves_out_once_is_no_other_topic() -> None:
    offsets.check_held(LOAD, DirectLoad({ONE: 150}, {"shop": "new", "orders": "its"}, {}))


def test_a_load_whose_topic_was_made_anew_is_given_up() -> None:
    with pytest.raises(PositionLost, match="were recreated while it was loaded"):
        offsets.check_held(LOAD, DirectLoad({ONE: 150}, {"shop": "old"}, {}))


def test_executors_of_a_cluster_need_a_target_that_keeps_offsets() -> None:
    """Nothing else there stops one that was wrongly thought to be lost."""

    def check(master: str, *, keeps_offsets: bool) -> None:
        load = replace(LOAD, spark_options={"spark.master": master})
        applier = SimpleNamespace(keeps_offsets=keeps_offsets)
        opened: Any = SimpleNamespace(applier=applier, load=load)
        offsets.check_fence(opened)

    check("local[2]", keeps_offsets=False)
    check("spark://h:7077", keeps_offsets=True)
    with pytest.raises(ConfigError, match="create table cdcbus_position"):
        check("spark://h:7077", keeps_offsets=False)


def test_the_target_notes_that_a_load_is_not_finished() -> None:
    taken: list[AppliedOffset] = []
    applier = SimpleNamespace(take_over=taken.extend, keeps_offsets=False)
    opened: Any = SimpleNamespace(applier=applier)
    offsets.fence(opened, DirectLoad({ONE: 150}, {"shop": "id"}))
    assert taken == [AppliedOffset(*ONE, 150, 0, details=Details("id", loading_from=150))]


def test_a_load_that_zookeeper_has_lost_is_no_run_of_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets, "ZooKeeperPositions", lambda *_, **__: MemoryPositions())
    opened: Any = SimpleNamespace(client=None, load=LOAD, stop=SimpleNamespace(is_lost=False))
    of_load = AppliedOffset(*ONE, 150, 0, details=Details(loading_from=150))
    offsets.stored_positions(opened, is_fresh=True, applied=[of_load])
    for applied in ([AppliedOffset(*ONE, 150, 0)], [of_load, AppliedOffset("shop", 1, 0, 0)]):
        with pytest.raises(ConfigError, match="has run already"):
            offsets.stored_positions(opened, is_fresh=True, applied=applied)


def test_a_load_is_done_although_its_counts_cannot_be_deleted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever repeated the command would be told that the task has run already."""
    stored: list[DirectLoad] = []

    def refused(_: object) -> None:
        raise TargetUnavailable("DELETE command denied")

    monkeypatch.setattr(offsets, "committed", lambda _: {0: 3})
    monkeypatch.setattr(offsets, "take_over", lambda *_: None)
    monkeypatch.setattr(offsets, "put_direct_load", lambda _, __, load: stored.append(load))
    monkeypatch.setattr(offsets, "forget_counts", refused)
    applier = SimpleNamespace(applied_offsets=list)
    opened: Any = SimpleNamespace(applier=applier, load=LOAD, client=None)
    positions: Any = None
    offsets.finish(opened, DirectLoad({ONE: 150}), positions, {0: 3})
    assert [load.is_done for load in stored] == [True]
    assert "DELETE command denied" in caplog.text
    with pytest.raises(ConfigError, match="lacks rows that its direct load had committed"):
        offsets.finish(opened, DirectLoad({ONE: 150}), positions, {0: 4})
    assert len(stored) == 1
