"""Alarms with a real ZooKeeper: raised, told of, silenced, over; and what remains of them when
another node takes over."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.alarms import rules
from cdcbus.ops.alarms import watch as watches
from cdcbus.ops.alarms.store import AlarmNodes
from cdcbus.ops.alarms.watch import Watch
from cdcbus.ops.stack.addresses import Database, free_port
from cdcbus.plugins.task_status import State
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import now, put_node
from tests.support.processes.bus import Bus, fetch_text, open_bus
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
TASK = "7"
LAG = "lag-records"


class Watched:
    """A task that only ZooKeeper believes in, taken by node n1, and what people were told of it."""

    def __init__(self, bus: Bus, told: Path) -> None:
        self.bus, self._told = bus, told
        self.gate = told.with_name("gate")  # while it is there, the command accepts
        self.gate.touch()
        self.nodes: TaskNodes = bus.tasks
        self.alarms = AlarmNodes(bus.client)
        bus.client.create(
            f"/datas/task/{TASK}/dist/t",
            b'{"positionCheckInterval":1,"alarm.stuckSeconds":1000}',
            makepath=True,
        )
        self.nodes.want(TASK, True, "somebody")
        self.nodes.claim(TASK, "n1")
        put_node(
            bus.client, f"/datas/task/{TASK}/lock/t", {"processId": os.getpid(), "nodeId": "n1"}
        )
        self.is_in(State.WORKING)
        self.tells()

    def also(self, task_id: str, state: State, reason: str = "") -> None:
        """Another task of the node."""
        self.bus.client.create(f"/datas/task/{task_id}/dist/t", b"{}", makepath=True)
        self.nodes.want(task_id, True, "somebody")
        self.nodes.claim(task_id, "n1")
        self.is_in(state, reason, task_id)
        self.tells(task_id)

    def is_in(
        self, state: State, reason: str = "", task_id: str = TASK, node_id: str = "n1"
    ) -> None:
        wanted = self.nodes.wanted(task_id)
        assert wanted is not None
        self.nodes.put_run(task_id, Run(state, reason, wanted.order, node_id))

    def tells(self, task_id: str = TASK, **fields: Any) -> None:
        self.nodes.put_stat(
            task_id,
            replace(
                Stat(State.WORKING, at=now(), node_id="n1", process_id=os.getpid(), lag_records=0),
                **fields,
            ),
        )

    def watch(self, node_id: str = "n1", **settings: str) -> Watch:
        command = (
            "import pathlib,sys; text = sys.stdin.read(); "
            f"pathlib.Path({str(self.gate)!r}).exists() or sys.exit(9); open({str(self._told)!r}, "
            "'a').write(text)"
        )
        given = {
            "CDCBUS_ALARM_HOLDSECONDS": "0",
            "CDCBUS_ALARM_DIGESTSECONDS": "0",
            "CDCBUS_ALARM_EXEC_COMMAND": f"{sys.executable} -c {shlex.quote(command)}",
            **settings,
        }
        return Watch(self.bus.client, read_bus_settings({}, None, given, self.bus.folder), node_id)

    @property
    def messages(self) -> list[dict[str, Any]]:
        lines = self._told.read_text().splitlines() if self._told.exists() else []
        return [*map(json.loads, lines)]

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(notice["rule"], notice["kind"]) for notice in self.messages]


@pytest.fixture
def watched(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Watched]:
    with open_bus(zookeeper, name, tmp_path) as bus:
        yield Watched(bus, tmp_path / "told")


def looks_until(watch: Watch, holds: Callable[[], bool], what: str) -> None:
    def look() -> bool:
        watch.look()
        return holds()

    wait_until(look, what)


def test_a_lag_is_raised_once_also_over_a_take_over_and_over_once(watched: Watched) -> None:
    watch = watched.watch()
    watch.look()
    assert watched.told == []
    watched.tells(lag_records=20_000)
    looks_until(watch, lambda: watched.told == [(LAG, "raised")], "the alarm")
    (listed,) = watched.bus.json("alarm", "list")
    assert (listed["task_id"], listed["alarms"][0]["rule"], listed["sent"][0]["by"]) == (
        TASK,
        LAG,
        "exec",
    )
    assert "20,000 records behind" in watched.bus("alarm", "list").stdout
    assert "alarm lag-records: 20,000 records behind" in watched.bus("task", "status", TASK).stdout
    watched.nodes.release(TASK)
    watched.nodes.claim(TASK, "n2")
    watched.is_in(State.WORKING, node_id="n2")
    other = watched.watch("n2")
    for node in (watch, other, other):
        node.look()
    assert watched.told == [(LAG, "raised")]
    watched.tells()
    looks_until(other, lambda: len(watched.told) == 2, "the end")
    other.look()
    assert watched.told == [(LAG, "raised"), (LAG, "cleared")]
    assert "no alarm is raised" in watched.bus("alarm", "list").stderr
    assert (
        f"task {TASK}: {LAG} cleared, accepted by exec"
        in watched.bus("alarm", "list", "--sent").stdout
    )


def test_what_nobody_accepts_is_sent_again_in_order(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watches, "AGAIN_SECONDS", 0.0)
    watched.gate.unlink()
    watch = watched.watch()
    watched.tells(lag_records=20_000)
    looks_until(watch, lambda: "was not accepted" in caplog.text, "the refusal in the log")
    assert "alarm.exec.command has ended with code 9" in caplog.text
    assert "nobody yet" in watched.bus("alarm", "list").stdout
    watched.tells()
    watch.look()
    watched.gate.touch()
    watch.look()
    assert watched.told == [(LAG, "raised"), (LAG, "cleared")]
    assert watched.alarms.get(TASK)[0].waiting == ()


def test_tasks_whose_server_is_away_are_one_message_and_what_follows_from_it_is_none(
    watched: Watched,
) -> None:
    reason = "task {0}: no Kafka broker answers at k:9092: timed out; trying again in {0} s"
    watched.is_in(State.RETRYING, reason.format(TASK))
    for task_id in ("8", "9"):
        watched.also(task_id, State.RETRYING, reason.format(task_id))
    watch = watched.watch()
    watch.look()
    (message,) = watched.messages
    assert message["subject"] == "Kafka k:9092 is away: 3 tasks (7, 8, 9)"
    assert (message["severity"], message["cause"]) == ("warning", "Kafka k:9092")
    assert [each["task"] for each in message["tasks"]] == ["7", "8", "9"]
    for task_id in ("7", "8", "9"):
        watched.tells(task_id, lag_records=20_000, lag_seconds=1000.0, still_seconds=1000.0)
    watch.look()
    assert len(watched.messages) == 1
    for task_id in ("7", "8", "9"):
        watched.is_in(State.WORKING, task_id=task_id)
        watched.tells(task_id)
    looks_until(watch, lambda: len(watched.messages) > 1, "the end")
    assert watched.messages[1]["subject"] == "Kafka k:9092 is back: 3 tasks (7, 8, 9)"
    assert len(watched.messages) == 2


def test_each_channel_hears_of_what_is_bad_enough_for_it_until_it_accepts(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "AGAIN_SECONDS", 0.0)
    hook = {"CDCBUS_ALARM_WEBHOOK_URL": f"http://127.0.0.1:{free_port(())}/"}
    both = watched.watch(**hook)
    watched.tells(lag_records=20_000)
    looks_until(both, lambda: watched.told == [(LAG, "raised")], "the alarm")
    both.look()
    assert watched.told == [(LAG, "raised")]  # it is not told again of what it has accepted
    (waiting,) = watched.alarms.get(TASK)[0].waiting
    assert waiting.told == ("exec",)
    critical = watched.watch(**hook, CDCBUS_ALARM_WEBHOOK_SEVERITY="critical")
    critical.look()
    assert watched.alarms.get(TASK)[0].waiting == ()
    watched.is_in(State.ERROR, "no topic t")
    critical.look()
    assert ("error", "raised") in watched.told
    (waiting,) = (each for each in watched.alarms.get(TASK)[0].waiting if each.rule == "error")
    assert waiting.told == ("exec",)


def test_what_is_not_critical_waits_for_others_of_its_cause(watched: Watched) -> None:
    watch = watched.watch(CDCBUS_ALARM_DIGESTSECONDS="3600")
    watched.tells(lag_records=20_000)
    watched.also("8", State.ERROR, "no topic t")
    looks_until(watch, lambda: bool(watched.alarms.get(TASK)[0].waiting), "the lag to be an alarm")
    watch.look()
    assert watched.told == [("error", "raised")]


def test_a_silent_task_is_told_of_when_the_silence_is_over(watched: Watched) -> None:
    watch = watched.watch()
    assert "is silent until" in watched.bus("alarm", "silence", TASK, "--for", "2h").stdout
    watched.tells(lag_records=20_000)
    looks_until(watch, lambda: LAG in watched.alarms.get(TASK)[0].alarms, "the lag to be seen")
    watch.look()
    assert watched.told == []
    assert f"task {TASK} is silent until" in watched.bus("alarm", "list").stdout
    assert watched.bus.json("alarm", "silence", "--all", "--off") == [
        {"task_id": TASK, "silent_until": None}
    ]
    looks_until(watch, lambda: watched.told == [(LAG, "raised")], "the alarm after the silence")
    assert "there is no task 8" in watched.bus("alarm", "silence", "8", code=1).stderr
    watched.bus("alarm", "silence", code=2)
    watched.bus("alarm", "silence", TASK, "--for", "soon", code=2)


def test_what_waits_when_a_silence_begins_is_sent_after_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watches, "AGAIN_SECONDS", 0.0)
    watched.gate.unlink()
    watch = watched.watch()
    watched.tells(lag_records=20_000)
    looks_until(watch, lambda: "was not accepted" in caplog.text, "the refusal in the log")
    watched.bus("alarm", "silence", TASK, "--for", "2h")
    watched.gate.touch()
    watch.look()
    assert watched.told == []
    assert len(watched.alarms.get(TASK)[0].waiting) == 1
    watched.bus("alarm", "silence", TASK, "--off")
    looks_until(watch, lambda: watched.told == [(LAG, "raised")], "the alarm after the silence")


def test_a_task_that_was_given_up_is_watched_by_the_first_node_alone(watched: Watched) -> None:
    for node_id in ("n2", "n3"):
        BusNodes(watched.bus.client).register(node_id)
    watched.is_in(State.ERROR, "no topic t")
    watched.nodes.release(TASK)
    watched.watch("n3").look()
    watched.watch("n1").look()
    assert watched.told == []
    watched.watch("n2").look()
    assert watched.told == [("error", "raised")]


def test_a_stuck_task_is_started_again_as_often_as_allowed(watched: Watched) -> None:
    watch = watched.watch(CDCBUS_ALARM_RECOVERIES="1", CDCBUS_ALARM_INTERVALTIME="1")
    watched.tells(lag_records=5, still_seconds=1000.0)
    before = watched.nodes.wanted(TASK)
    looks_until(watch, lambda: watched.told == [("position", "raised")], "the alarm")
    after = watched.nodes.wanted(TASK)
    assert before is not None and after is not None and after.order > before.order
    watched.is_in(State.WORKING)
    looks_until(watch, lambda: ("position", "repeated") in watched.told, "the alarm again")
    assert watched.nodes.wanted(TASK) == after
    assert len(watched.alarms.get(TASK)[0].restarts) == 1


def test_a_stuck_task_is_started_again_in_a_silence(watched: Watched) -> None:
    watch = watched.watch(CDCBUS_ALARM_RECOVERIES="2", CDCBUS_ALARM_INTERVALTIME="3600")
    watched.bus("alarm", "silence", TASK, "--for", "2h")
    watched.tells(lag_records=5, still_seconds=1000.0)
    watched.is_in(State.RETRYING, "no Kafka broker answers at k:9092")
    before = watched.nodes.wanted(TASK)
    watch.look()
    assert watched.nodes.wanted(TASK) == before
    watched.tells()
    watch.look()
    watched.is_in(State.WORKING)
    watched.tells(lag_records=5, still_seconds=1000.0)

    def is_restarted() -> bool:
        after = watched.nodes.wanted(TASK)
        return before is not None and after is not None and after.order > before.order

    looks_until(watch, is_restarted, "the restart")
    watched.is_in(State.WORKING)
    watch.look()
    # Once, as people would be told once.
    assert len(watched.alarms.get(TASK)[0].restarts) == 1
    assert watched.told == []


def test_damaged_alarms_and_limits_harm_nobody(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.bus.client.create(f"/datas/task/{TASK}/alarm", b'{"alarms":{"lag-records":7}}')
    watched.bus.client.set(f"/datas/task/{TASK}/dist/t", b'{"alarmPositionCount":"many"}')
    watched.is_in(State.ERROR, "no topic t")
    watched.watch().look()
    assert watched.told == [("error", "raised")]
    assert "alarmPositionCount: wrong value" in caplog.text
    assert "error" in watched.bus("alarm", "list").stdout


def test_a_task_whose_text_is_damaged_is_told_of_all_the_more(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.bus.client.set(f"/datas/task/{TASK}/dist/t", b"{")
    watched.is_in(State.ERROR, "the text of the task is no JSON")
    watched.watch().look()
    assert watched.told == [("error", "raised")]
    assert "the alarm limits of the settings apply" in caplog.text


def test_a_node_tells_of_a_task_that_cannot_work_and_of_its_end(
    zookeeper: str,
    kafka: str,
    source: Database,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """More than 20 s: a task starts twice, and nodes look at alarms every few seconds."""
    told = tmp_path / "told"
    script = f"import sys; open({str(told)!r}, 'a').write(sys.stdin.read())"
    with open_bus(zookeeper, name, tmp_path, SOURCE_PASSWORD=source.password) as bus:
        # there is no such topic
        bus.load(fetch_text(TASK, source, kafka, name, restartRetries="0"))
        settings = {
            "CDCBUS_ALARM_EXEC_COMMAND": f"{sys.executable} -c {shlex.quote(script)}",
            "CDCBUS_ALARM_HOLDSECONDS": "0",
        }
        bus.node("n1", CDCBUS_HTTP_BIND="off", **settings)
        bus("task", "start", TASK, code=1)
        wait_until(lambda: told.exists() and '"rule":"error"' in told.read_text(), "the alarm")
        assert name in told.read_text()
        make_topic(name)
        bus("task", "start", TASK, "--timeout", "120")
        wait_until(lambda: '"kind":"cleared"' in told.read_text(), "its end")
        assert "alarm: task 7: error: " in bus.said()
        bus("task", "stop", TASK)


def test_the_ways_to_people_are_tried(zookeeper: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "cdcbus.properties"
    with open_bus(zookeeper, name, tmp_path) as bus:
        file.write_text("")
        assert "alarms go to the log only" in bus("alarm", "test", "--config", file, code=1).stderr
        file.write_text("alarm.exec.command=cat\n")
        assert bus("alarm", "test", "--config", file).stdout == "exec: accepted\n"
        file.write_text(
            "alarm.exec.command=cat\nalarm.smtp.host=127.0.0.1\nalarm.smtp.port=1\nalarm.smtp.to=a@example.com\n"
        )
        tried = bus("alarm", "test", "--config", file, code=1)
        assert (
            tried.stdout,
            "mail: not accepted: mail server 127.0.0.1:1 cannot be reached" in tried.stderr,
        ) == ("exec: accepted\n", True)
        mail, command = json.loads(bus("alarm", "test", "--config", file, "--json", code=1).stdout)
        assert (mail["channel"], mail["is_accepted"]) == ("mail", False)
        assert "cannot be reached" in mail["refused"]
        assert command == {"channel": "exec", "is_accepted": True, "refused": ""}


def test_a_report_by_another_clock_is_not_taken_for_a_silence(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that was started by hand can be on another machine, and clocks are put forward."""
    watch = watched.watch()
    watched.tells(at="2020-01-01 00:00:00", lag_records=10**6)
    looks_until(watch, lambda: bool(watched.told), "the lag")
    assert watched.told == [(LAG, "raised")]
    # Only from now on, as a report that has just come is the time until the next look old.
    monkeypatch.setattr(rules, "SILENT_SECONDS", 0.5)
    looks_until(watch, lambda: ("silent", "raised") in watched.told, "the silence")
