"""Alarms as ZooKeeper keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from cdcbus.ops.alarms.state import Alarm, Kind, Notice
from cdcbus.ops.alarms.store import NOBODY, AlarmNodes, Sent, Silence, TaskAlarms
from cdcbus.tasks.zookeeper.connection import ROOT
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

PATH = f"{ROOT}/task/7/alarm"
RAISED = Notice(Kind.RAISED, "lag", "it is behind", 100.0, 110.0)
ALARMS = TaskAlarms(
    {"lag": Alarm("it is behind", 100.0, raised_at=110.0)},
    (RAISED,),
    (Sent(RAISED, "mail"),),
    (90.0,),
)


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    zookeeper = MemoryZooKeeper()
    zookeeper.put(f"{ROOT}/task/7", "")
    return zookeeper


@pytest.fixture
def nodes(zookeeper: MemoryZooKeeper) -> AlarmNodes:
    client: Any = zookeeper
    return AlarmNodes(client)


def test_alarms_come_back_as_they_were_with_the_version_to_write_them(nodes: AlarmNodes) -> None:
    assert nodes.get("7") == (TaskAlarms(), -1)
    assert nodes.put("7", ALARMS, -1) == 0
    assert nodes.get("7") == (ALARMS, 0)
    assert nodes.put("7", TaskAlarms(), 0) == 1
    assert nodes.get("7") == (TaskAlarms(), 1)


def test_what_somebody_else_has_written_meanwhile_stays(nodes: AlarmNodes) -> None:
    nodes.put("7", ALARMS, -1)
    assert nodes.put("7", TaskAlarms(), -1) is None
    assert nodes.put("7", TaskAlarms(), 5) is None
    assert nodes.get("7") == (ALARMS, 0)


def test_alarms_of_a_newer_cdcbus_are_read_and_what_only_that_one_knows_stays(
    nodes: AlarmNodes, zookeeper: MemoryZooKeeper
) -> None:
    nodes.put("7", ALARMS, -1)
    stored = orjson.loads(zookeeper.nodes[PATH])
    stored["owner"] = "ann"
    stored["alarms"]["lag"]["runbook"] = "r1"
    stored["waiting"][0]["runbook"] = "r2"
    stored["sent"][0]["notice"]["runbook"] = "r3"
    zookeeper.put(PATH, stored)
    alarms, version = nodes.get("7")
    assert alarms == ALARMS
    accepted = replace(alarms, waiting=(), sent=(*alarms.sent, Sent(RAISED, "webhook")))
    assert nodes.put("7", accepted, version) is not None
    after = orjson.loads(zookeeper.nodes[PATH])
    assert (after["owner"], after["alarms"]["lag"]["runbook"]) == ("ann", "r1")
    assert [each["notice"]["runbook"] for each in after["sent"]] == ["r3", "r3"]
    assert nodes.get("7")[0] == accepted


def test_people_are_told_of_a_notice_whose_kind_only_a_newer_cdcbus_knows(
    nodes: AlarmNodes, zookeeper: MemoryZooKeeper
) -> None:
    nodes.put("7", ALARMS, -1)
    stored = orjson.loads(zookeeper.nodes[PATH])
    stored["waiting"][0]["kind"] = "acknowledged"
    zookeeper.put(PATH, stored)
    assert nodes.get("7")[0] == ALARMS


@pytest.mark.parametrize(
    "damage",
    [
        '{"alarms":7}',
        '{"waiting":[{"kind":"raised"}]}',
        '{"restarts":["soon"]}',
        '{"alarms":{"lag":{"sentence":5,"since":1}}}',
        '{"sent":[{"notice":{}}]}',
        "{",
    ],
)
def test_damaged_alarms_count_as_none(
    nodes: AlarmNodes, zookeeper: MemoryZooKeeper, damage: str
) -> None:
    zookeeper.put(PATH, damage)
    assert nodes.get("7")[0] == TaskAlarms()


def test_people_know_of_what_was_raised_and_by_whom_they_were_told() -> None:
    alarms = TaskAlarms(
        {
            "lag": Alarm("it is behind", 100.0, raised_at=110.0),
            "silent": Alarm("it says nothing", 100.0),
        },
        (),
        (Sent(RAISED, "mail"),),
    )
    assert list(alarms.raised) == ["lag"]
    assert alarms.reported_by("lag") == "mail"
    assert alarms.reported_by("silent") == ""
    assert ALARMS.reported_by("lag") == NOBODY  # a newer notice waits


def test_a_silence_lasts_until_it_is_over_or_taken_back(
    nodes: AlarmNodes, zookeeper: MemoryZooKeeper
) -> None:
    assert not nodes.silence("7").is_on(0.0)
    nodes.put_silence("7", Silence(200.0, "ann"))
    assert nodes.silence("7") == Silence(200.0, "ann")
    assert nodes.silence("7").is_on(199.0)
    assert not nodes.silence("7").is_on(200.0)
    nodes.put_silence("7", None)
    nodes.put_silence("7", None)
    assert nodes.silence("7") == Silence()
    zookeeper.put(f"{PATH}/silence", '{"until":-1}')
    assert nodes.silence("7") == Silence()
