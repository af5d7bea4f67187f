"""Nodes on real servers: who runs what, what happens when one is killed, paused, drained, and
what the commands say."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.node.task_process import start_task
from cdcbus.ops.stack.addresses import Database, free_port
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.tasks import Run
from tests.support.processes.bus import Bus, fetch_text, open_bus, published
from tests.support.servers.line import Line
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(zookeeper: str, name: str, source: Database, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path, SOURCE_PASSWORD=source.password) as opened:
        yield opened


@pytest.fixture
def fetch(
    bus: Bus,
    kafka: str,
    source: Database,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
) -> str:
    """A fetch task in ZooKeeper, not started; its table is `t`."""
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    bus.load(fetch_text("1084", source, kafka, name))
    return "1084"


@contextmanager
def inserting(source: Database, schema: str) -> Iterator[Callable[[], int]]:
    """Inserts rows all the time, one after the other; gives how many there are."""
    over, count = threading.Event(), [0]
    connection = MysqlConnection(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        autocommit=True,
    )

    def insert() -> None:
        with connection.cursor() as cursor:
            while not over.wait(0.005):
                cursor.execute(f"INSERT INTO {schema}.t VALUES (%s, 0)", (count[0],))
                count[0] += 1

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield lambda: count[0]
    finally:
        over.set()
        thread.join()
        connection.close()


def ids(kafka: str, topic: str) -> list[int]:
    return [int(record["data"][0]["id"]) for record in published(kafka, topic)]


def test_a_task_is_started_looked_at_and_stopped(
    bus: Bus, fetch: str, kafka: str, name: str, source_cursor: Cursor
) -> None:
    assert bus.status(fetch).state is State.NEW
    missing = bus("task", "start", fetch, "--timeout", "0.5", code=1)
    assert missing.stderr.startswith("no node runs, waiting up to 0.5 s for one: cdcbus node run\n")
    assert (
        "task 1084 is STARTING: no node runs; start one: cdcbus node run. It stays "
        "started" in missing.stderr
    )
    (told,) = json.loads(bus("task", "start", fetch, "--timeout", "0.5", "--json", code=1).stdout)
    assert (told["task_id"], told["state"], told["ok"]) == ("1084", "STARTING", False)
    assert told["missing"].startswith("no node runs")
    assert bus.json("task", "list")[0]["reason"] == "no node runs; start one: cdcbus node run"
    bus.node("n1")
    assert "task 1084 is WORKING on node n1" in bus("task", "start", fetch).stdout
    source_cursor.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    wait_until(lambda: ids(kafka, name) == [1, 2], "the rows in Kafka")
    wait_until(lambda: bus.json("task", "list")[0]["progress"]["rows"] == 2, "the rows in the list")
    wait_until(
        lambda: bus.json("task", "list")[0]["progress"]["lag_seconds"] == 0,
        "the end of the binlog to be reached",
    )
    (listed,) = bus.json("task", "list")
    assert (listed["state"], listed["node_id"]) == ("WORKING", "n1")
    status = bus("task", "status", fetch).stdout
    assert "2 rows since its start" in status
    (table,) = bus.json("task", "status", fetch)["progress"]["tables"]
    assert (table["swimlane"], table["table"], table["rows"], table["inserted"]) == (
        name,
        f"{name}.t",
        2,
        2,
    )
    assert f"{name}: process {bus.runner(fetch)} on " in status
    assert "reads the binlog from" in bus("task", "logs", fetch).stdout
    node = bus.json("node", "info", "n1")
    assert (node["state"], node["tasks"], node["work_limit"]) == ("working", {fetch: [name]}, 10)
    before = bus.runner(fetch)
    assert bus("task", "restart", fetch).stdout == "task 1084 is WORKING on node n1\n"
    assert bus.runner(fetch) not in (0, before)
    before = bus.runner(fetch)
    os.kill(before, signal.SIGTERM)  # not by its node, so it is not to stay away
    wait_until(
        lambda: bus.runner(fetch) not in (0, before) and bus.status(fetch).state is State.WORKING,
        "its node to start it again",
    )
    assert "task 1084 is running" in bus("task", "rm", fetch, "--yes", code=1).stderr
    assert bus("task", "stop", fetch).stdout == "task 1084 is STOPPED\n"
    assert bus.runner(fetch) == 0
    assert ids(kafka, name) == [1, 2]
    stored = bus.text(f"/datas/task/{fetch}/position/{name}")
    bus("task", "clone", fetch, "2084", "--to-node", "n2")
    assert bus.text(f"/datas/task/2084/position/{name}") == stored
    exported = bus("task", "export", "2084").stdout
    assert "taskId=2084\n" in exported and "nodeId=n2\n" in exported
    assert (
        "none of its nodes (nodeId=n2) runs"
        in bus("task", "start", "2084", "--timeout", "3", code=1).stderr
    )
    # No node has it, but one may take it at any moment.
    assert "task 2084 was started" in bus("task", "rm", "2084", "--yes", code=1).stderr
    bus("task", "stop", "2084")
    for task_id in (fetch, "2084"):
        bus("task", "rm", task_id, "--yes")
        assert bus.text(f"/datas/task/{task_id}") is None


def test_a_killed_nodes_task_goes_on_elsewhere_and_no_row_is_missing(
    bus: Bus, fetch: str, kafka: str, name: str, source: Database
) -> None:
    for node_id in ("n1", "n2"):
        bus.node(node_id)
    bus("task", "start", fetch)
    with inserting(source, name) as inserted:
        wait_until(lambda: inserted() > 100, "load")
        first, child = bus.status(fetch).node_id, bus.runner(fetch)
        os.kill(bus.nodes[first].pid, signal.SIGKILL)
        killed = time.monotonic()
        bus.nodes[first].wait()
        wait_until(
            lambda: not Path(f"/proc/{child}").exists(),
            "the task of the killed node to end with it",
        )
        wait_until(
            lambda: bus.status(fetch).state is State.WORKING and bus.status(fetch).node_id != first,
            "another node to have it",
        )
        count = inserted()
        wait_until(lambda: len(set(ids(kafka, name))) > count, "rows of after the takeover")
    print(f"taken over after {time.monotonic() - killed:.1f} s")
    wait_until(lambda: set(ids(kafka, name)) == set(range(inserted())), "all rows in Kafka")
    bus("task", "stop", fetch)


@pytest.mark.parametrize("transaction", ["true", "false"])
def test_a_paused_holder_does_not_work_when_it_goes_on(
    bus: Bus, fetch: str, kafka: str, name: str, source: Database, transaction: str
) -> None:
    """The node and its task are stopped for longer than their sessions last, under load; another
    node works meanwhile. In transactions each row is there exactly once, and in order; without,
    what the task had given to Kafka's client before the pause may come late."""
    bus.load(
        fetch_text(fetch, source, kafka, name, **{"loader.source.transaction": transaction}),
        "--force",
    )
    for node_id in ("n1", "n2"):
        bus.node(node_id)
    bus("task", "start", fetch)
    with inserting(source, name) as inserted:
        wait_until(lambda: inserted() > 100, "load")
        first, child = bus.status(fetch).node_id, bus.runner(fetch)
        second = {"n1": "n2", "n2": "n1"}[first]
        for pid in (bus.nodes[first].pid, child):
            os.kill(pid, signal.SIGSTOP)
        wait_until(
            lambda: (
                bus.status(fetch).node_id == second and bus.status(fetch).state is State.WORKING
            ),
            "the other node to have it",
        )
        holder = bus.runner(fetch)
        for pid in (bus.nodes[first].pid, child):
            os.kill(pid, signal.SIGCONT)
        wait_until(
            lambda: not Path(f"/proc/{child}").exists(),
            "the first node to end what it has no claim for any more",
        )
        assert (bus.runner(fetch), bus.status(fetch).node_id) == (holder, second)
        count = inserted()
        wait_until(lambda: max(ids(kafka, name)) > count, "rows of after the pause")
    wait_until(lambda: set(ids(kafka, name)) == set(range(inserted())), "all rows in Kafka")
    if transaction == "true":
        assert ids(kafka, name) == list(range(inserted()))
    seen = ids(kafka, name)
    late = [number for before, number in pairwise(seen) if number < before]
    print(f"starts again at {late}, {len(seen) - inserted()} rows twice")
    assert "was taken by another node" in bus.said() or "is no longer this node" in bus.said()
    bus("task", "stop", fetch)


def test_a_task_alone_that_is_paused_starts_anew_and_waits_for_the_lock(
    bus: Bus, fetch: str, kafka: str, name: str
) -> None:
    """Two `task run` of one task: the second waits, has the lock while the first is paused, and
    keeps it."""
    words = [sys.executable, "-m", "cdcbus", "task", "run", fetch]
    runs = []
    try:
        for number in range(2):
            with (bus.folder / f"run{number}.log").open("wb") as log:
                runs.append(
                    subprocess.Popen(
                        words,
                        env=bus.environment,
                        stderr=log,
                        cwd=bus.folder,
                        start_new_session=True,
                    )
                )
            wait_until(lambda: bus.status(fetch).state is State.WORKING, "the first to work")
        first, second = runs
        waiting = f"/datas/task/{fetch}/lock/{name} is held by process {first.pid} on "
        wait_until(lambda: waiting in (bus.folder / "run1.log").read_text(), "the second to wait")
        refusal = f"process {first.pid} on "
        assert refusal in bus("task", "start", fetch, code=1).stderr
        # Neither waits for what it cannot bring about.
        stopped = bus("task", "stop", fetch, "--timeout", "600", code=1).stderr
        assert refusal in stopped and "runs it by hand; end that process" in stopped
        place = '{"logfileName":"mysql-bin.000001","offset":4}'
        refused = bus("offset", "set", fetch, place, "--yes", code=1).stderr
        assert "end that process first" in refused and "task stop" not in refused
        first.send_signal(signal.SIGSTOP)
        wait_until(lambda: bus.runner(fetch) == second.pid, "the second to have it")
        first.send_signal(signal.SIGCONT)
        wait_until(
            lambda: f"held by process {second.pid} on " in (bus.folder / "run0.log").read_text(),
            "the first to wait",
        )
        assert (first.poll(), bus.runner(fetch)) == (None, second.pid)
        for run in reversed(runs):
            run.terminate()
            assert run.wait(30) == 0
    finally:
        for run in runs:
            run.kill()
            run.wait()


def test_a_node_that_is_drained_or_ends_gives_its_tasks_to_others(
    bus: Bus, fetch: str, name: str
) -> None:
    """More than 20 s: a task is started five times, wherever it is to be."""
    bus.node("n1")
    bus("task", "start", fetch)
    bus.node("n2")
    wait_until(
        lambda: [node["state"] for node in bus.json("node", "list")] == ["working", "working"],
        "both nodes",
    )
    assert (
        "node n1 takes no tasks until: cdcbus node resume n1" in bus("node", "drain", "n1").stdout
    )
    assert bus.json("task", "start", fetch) == [
        {"task_id": "1084", "state": "WORKING", "node_id": "n2", "ok": True, "missing": ""}
    ]
    assert [node["state"] for node in bus.json("node", "list")] == ["drained", "working"]
    assert bus.json("node", "resume", "n1")["state"] == "working"
    bus.nodes["n2"].terminate()
    assert bus.nodes["n2"].wait(30) == 0
    wait_until(
        lambda: bus.status(fetch).node_id == "n1" and bus.status(fetch).state is State.WORKING,
        "n1 to have it again",
    )
    bus("node", "limit", "n1", "0")
    wait_until(lambda: bus.runner(fetch) == 0, "n1 to give it back")
    wait_until(
        lambda: (
            "are full, it needs 1 swimlanes"
            in bus("task", "start", fetch, "--timeout", "0", code=1).stderr
        ),
        "the reason",
    )
    bus("node", "limit", "n1", "1")
    assert bus("task", "start", fetch).stdout == "task 1084 is WORKING on node n1\n"
    assert "no node is called n3" in bus("node", "info", "n3", code=1).stderr
    other = subprocess.run(
        [sys.executable, "-m", "cdcbus", "node", "run"],
        env={**bus.environment, "CDCBUS_NODE_ID": "n1"},
        cwd=bus.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (other.returncode, f"node n1 is process {bus.nodes['n1'].pid} on " in other.stderr) == (
        1,
        True,
    )


def test_a_task_that_ends_again_and_again_waits_for_a_person_in_the_end(
    bus: Bus, fetch: str, kafka: str, source: Database, name: str
) -> None:
    keys = {"restartRetries": "1", "restartIncreaseBySecond": "1"}
    bus.load(fetch_text(fetch, source, kafka, name, **keys), "--force")
    bus.node("n1")
    bus("task", "start", fetch)
    first = bus.runner(fetch)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: bus.runner(fetch) not in (0, first), "it to be started again")
    os.kill(bus.runner(fetch), signal.SIGKILL)
    wait_until(lambda: bus.status(fetch).state is State.ERROR, "the node to give up")
    wait_until(lambda: [each.times for each in bus.tasks.errors(fetch)] == [2], "both to count")
    run = bus.status(fetch).run
    assert run is not None and run.all_restarts == 1
    wait_until(lambda: bus.runner(fetch) == 0, "its lock to go")
    bus("task", "start", fetch)
    bus("task", "stop", fetch)


def test_what_only_a_person_can_change_waits_for_one_at_once(
    bus: Bus,
    kafka: str,
    source: Database,
    name: str,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
) -> None:
    bus.load(fetch_text("7", source, kafka, name))  # there is no such topic
    bus.node("n1")
    assert "task 7 is ERROR: " in bus("task", "start", "7", code=1).stderr
    status = bus.status("7")
    assert status.reason.startswith(f"Kafka topic {name} at "), status.reason
    assert status.reason.endswith("once that is done: cdcbus task start 7")
    make_topic(name)
    bus("task", "start", "7")


def test_a_task_that_waits_for_a_person_starts_by_itself_once_it_is_given_what_it_lacks(
    bus: Bus,
    fetch: str,
    kafka: str,
    source: Database,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)  # of `offset reset`
    text = fetch_text(fetch, source, kafka, name)
    without = text.replace("consumer.offset=latest\n", "")
    assert without != text
    bus.load(without, "--force")
    bus.node("n1")
    bus("task", "start", fetch, code=1)
    assert bus.status(fetch).state is State.ERROR
    assert f"cdcbus offset reset {fetch} --to PLACE" in bus.status(fetch).reason
    bus("offset", "reset", fetch, "--to", "latest", "--yes")
    wait_until(lambda: bus.status(fetch).state is State.WORKING, "the task to start by itself")
    # and so by another text
    bus("task", "stop", fetch)
    bus.load(text.replace("{env:SOURCE_PASSWORD}", "{env:NO_SUCH_PASSWORD}"), "--force")
    bus("task", "start", fetch, code=1)
    assert "cdcbus task import FILE --force" in bus.status(fetch).reason
    bus.load(text, "--force")
    wait_until(lambda: bus.status(fetch).state is State.WORKING, "the task to start by itself")
    run = bus.status(fetch).run
    assert run is not None and run.restarts == 0


def test_junk_in_zookeeper_harms_no_other_task(bus: Bus, fetch: str) -> None:
    for task_id, path, data in [
        ("a", "wanted", b"{"),
        ("b", "wanted", b'{"status":"SLEEP"}'),
        ("c", "wanted", b"\xff\xfe"),
        ("d", "state", b"[]"),
        ("e", "stat", b'{"state":7}'),
        ("f", "dist/x", b"junk"),
        ("g", "lock/x", b"porter"),
        ("h", "claim", b"1"),
        ("i", "dist/x", b'{"nodeId":{"a":1},"restartRetries":"many","consumer":[]}'),
        ("j", "history/x", b'{"changes":[{"odd":1}]}'),
        ("k", "position/x", b"junk"),
    ]:
        bus.client.create(f"/datas/task/{task_id}/{path}", data, makepath=True)
    bus.client.create("/datas/node/old", b"", makepath=True)
    bus.client.create("/datas/node/junk/stat", b"junk", makepath=True)
    for task_id in "abcdefghijk":
        bus.client.ensure_path(f"/datas/task/{task_id}/dist")
    bus.tasks.want("f", is_working=True, by="x")
    bus.tasks.want("i", is_working=True, by="x")
    # Nor does a file with the name of a task in the node's working directory.
    (bus.folder / fetch).write_text("junk")
    bus.node("n1")
    assert bus("task", "start", fetch).stdout == "task 1084 is WORKING on node n1\n"
    listed = {task["task_id"]: (task["state"], task["reason"]) for task in bus.json("task", "list")}
    assert listed.keys() == {fetch, *"abcdefghijk"}
    for task_id in "abcde":
        state, reason = listed[task_id]
        assert (state, f"/datas/task/{task_id}/" in reason) == ("ERROR", True)
    for task_id in "fi":
        wait_until(
            lambda: bus.status(task_id).state is State.ERROR, f"the reason of task {task_id}"
        )
        assert bus.status(task_id).reason
    assert "do not look like" not in bus("task", "list").stdout
    assert {node["node_id"] for node in bus.json("node", "list")} >= {"n1", "junk"}
    assert "does not hold a history" in bus("offset", "history", "j", code=1).stderr
    assert "position" in bus("offset", "set", "k", "junk", code=1).stderr
    bus("task", "stop", "a", "b", "c")
    assert [bus.status(task_id).state for task_id in "abc"] == [State.STOPPED] * 3
    assert bus.nodes["n1"].poll() is None
    bus("task", "stop", fetch)


@pytest.mark.parametrize(
    "words",
    [
        ["task", "list"],
        ["task", "start", "1"],
        ["task", "stop", "1"],
        ["node", "list"],
        ["offset", "undo", "1"],
    ],
)
def test_a_wrong_zookeeper_is_named_within_seconds(words: list[str]) -> None:
    address = f"127.0.0.1:{free_port(set())}"
    done = subprocess.run(
        [sys.executable, "-m", "cdcbus", *words, "--zookeeper", address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (
        done.returncode,
        f"ZooKeeper at {address} did not answer within 4 s" in done.stderr,
    ) == (1, True)


def test_a_node_task_that_starts_while_zookeeper_is_away_waits_for_it(
    bus: Bus, fetch: str, zookeeper: str, name: str, tmp_path: Path
) -> None:
    """Started by hand it says so and ends."""
    line, log = Line(zookeeper), tmp_path / "task.log"
    environment = {**bus.environment, "CDCBUS_ZOOKEEPER": f"{line.address}/{name}"}

    def said() -> str:
        return log.read_text() if log.exists() else ""

    try:
        line.cut()
        by_hand = [sys.executable, "-m", "cdcbus", "task", "run", fetch]
        done = subprocess.run(
            by_hand, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, "did not answer within 4 s" in done.stderr) == (1, True)
        process = start_task(fetch, "n1", environment, log, lambda: None)
        try:
            wait_until(
                lambda: process.ended() is not None or "the task waits for it" in said(),
                "the task to say that it waits",
            )
            assert process.ended() is None
            line.mend()
            wait_until(
                lambda: process.ended() is not None or "reads the binlog from" in said(),
                "the task to be at work",
            )
            assert process.ended() is None
            process.ask_to_stop()
            process.wait(60)
            assert process.ended() == 0
        finally:
            process.kill()
    finally:
        line.close()


def test_the_shell_completes_the_ids_of_tasks(bus: Bus, fetch: str) -> None:
    words = {
        "_CDCBUS_COMPLETE": "bash_complete",
        "COMP_WORDS": "cdcbus task start 10",
        "COMP_CWORD": "3",
    }
    command = [Path(sys.executable).with_name("cdcbus")]
    done = subprocess.run(
        command,
        env={**bus.environment, **words},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == f"plain,{fetch}\n"


def test_a_node_says_that_the_logs_of_its_tasks_are_lost(
    zookeeper: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with open_bus(zookeeper, name, tmp_path) as bus:
        bus.node("n1", CDCBUS_HTTP_BIND="off", CDCBUS_NODE_LOGDIRECTORY=str(tmp_path / "file/logs"))
        wait_until(lambda: "file is not a folder: the logs of tasks are lost" in bus.said(), "it")
        bus.client.create("/datas/task/7/dist/t", b"{}", makepath=True)
        log = str(tmp_path / "file/logs/7.log")
        bus.tasks.put_run("7", Run(State.WORKING, host=socket.gethostname(), log=log))
        assert f"{log} was removed, or its node cannot" in bus("task", "logs", "7", code=1).stderr
