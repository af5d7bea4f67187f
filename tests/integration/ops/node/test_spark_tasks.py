"""Consumer tasks of a node on real servers: they share one Spark application, and nothing else."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cdcbus.ops.stack.addresses import Addresses
from cdcbus.plugins.task_status import State
from tests.support.processes.bus import Bus, Run, load_text, open_bus, postgresql_schema
from tests.support.servers.line import Line
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PATIENCE_SECONDS = 300.0  # a start of Spark on a busy machine


@pytest.fixture
def run(stack: Addresses, name: str) -> Iterator[Run]:
    with postgresql_schema(stack, name) as run:
        yield run


@pytest.fixture
def bus(zookeeper: str, stack: Addresses, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path, TARGET_PASSWORD=stack.postgresql.password) as opened:
        yield opened


class Feed:
    """Rows for the consumer task of each table: in a topic of its own."""

    def __init__(
        self, bus: Bus, stack: Addresses, name: str, make_topic: Callable[..., str], run: Run
    ) -> None:
        self._bus, self._stack, self._name, self._make_topic, self._run = (
            bus,
            stack,
            name,
            make_topic,
            run,
        )
        self._producer = kafka_producer(stack.kafka)
        self._rows: dict[str, list[int]] = {}

    def task(self, task_id: str, **keys: str) -> None:
        """A consumer task in ZooKeeper; table and topic are called after it."""
        topic = self._make_topic(f"{self._name}-{task_id}")
        self._run(f"CREATE TABLE {self._name}.{task_id} (id INT PRIMARY KEY)")
        self._bus.load(load_text(task_id, self._stack, topic, **keys))
        self._rows[task_id] = []

    def insert(self, task_id: str) -> None:
        """One more row."""
        rows = self._rows[task_id]
        rows.append(len(rows))
        record = {
            "database": self._name,
            "table": task_id,
            "type": "INSERT",
            "isDdl": False,
            "es": 1,
            "ts": 1,
            "pkNames": ["id"],
        }
        value = json.dumps(
            {
                **record,
                "data": [{"id": str(rows[-1])}],
                "mysqlType": {"id": "int"},
                "sqlType": {"id": 4},
            }
        )
        self._producer.produce(f"{self._name}-{task_id}", value.encode())
        assert self._producer.flush(60) == 0

    def is_applied(self, task_id: str) -> bool:
        return self._ids(task_id) == self._rows[task_id]

    def wait_applied(self, *task_ids: str) -> None:
        for task_id in task_ids:
            wait_until(lambda: self.is_applied(task_id), f"the rows of {task_id}", PATIENCE_SECONDS)

    def _ids(self, task_id: str) -> list[int]:
        return [
            row[0]
            for row in self._run(f"SELECT id FROM {self._name}.{task_id} ORDER BY id").fetchall()
        ]


@pytest.fixture
def feed(bus: Bus, stack: Addresses, name: str, make_topic: Callable[..., str], run: Run) -> Feed:
    return Feed(bus, stack, name, make_topic, run)


def working(bus: Bus, *task_ids: str) -> bool:
    return all(bus.status(task_id).state is State.WORKING for task_id in task_ids)


def jvms(pid: int) -> list[int]:
    """Those of Spark that a process has started."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in children if b"pyspark-shell" in _command(child)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:  # it has just ended
        return b""


UP = "Spark is up"
ONE_BY_ONE = {"consumer.source.maxRecordsPerBatch": "1"}  # so that a few rows are a backlog


def await_jvm(bus: Bus, feed: Feed, task_id: str) -> int:
    """Has Spark started by a backlog of the task. Its process."""
    shared, log = bus.runner(task_id), bus.folder / "logs" / f"{task_id}.log"
    starts = log.read_text().count(UP)

    def is_up() -> bool:
        if feed.is_applied(task_id):
            for _ in range(20):
                feed.insert(task_id)
        return log.read_text().count(UP) > starts

    wait_until(is_up, "Spark to start", PATIENCE_SECONDS)
    feed.wait_applied(task_id)
    (jvm,) = jvms(shared)
    return jvm


@pytest.mark.parametrize("is_isolated", ["true", "false"])
def test_a_target_that_is_away_when_a_node_starts_a_task_is_waited_for(
    bus: Bus, stack: Addresses, feed: Feed, is_isolated: str
) -> None:
    target = stack.postgresql
    with closing(Line(f"{target.host}:{target.port}")) as line:
        line.cut()
        url = f"jdbc:postgresql://{line.address}/{target.database}"
        feed.task("late", **{"loader.source.url": url, "spark.isolated": is_isolated})
        feed.insert("late")
        bus.node("n1")
        started = bus("task", "start", "late", "--timeout", PATIENCE_SECONDS, code=1).stderr
        assert "task late is RETRYING: " in started and line.address in started
        line.mend()
        feed.wait_applied("late")
        wait_until(lambda: working(bus, "late"), "the task to say that it works")
        run = bus.status("late").run
        assert run is not None and run.restarts == 0
        bus("task", "stop", "late")


def test_a_task_whose_topic_is_not_there_works_once_it_is_made(
    bus: Bus, stack: Addresses, make_topic: Callable[..., str], name: str
) -> None:
    bus.load(load_text("8", stack, name, restartIncreaseBySecond="1"))
    bus.node("n1")
    started = bus("task", "start", "8", "--timeout", PATIENCE_SECONDS, code=1).stderr
    assert f"task 8 is RETRYING: Kafka topic {name} at " in started
    make_topic(name)
    wait_until(lambda: working(bus, "8"), "the task to find its topic", PATIENCE_SECONDS)


def test_a_task_whose_user_the_target_refuses_waits_for_a_person_at_once(
    bus: Bus, stack: Addresses, feed: Feed
) -> None:
    bus.environment["TARGET_PASSWORD"] = "another"
    feed.task("refused")
    bus.node("n1")
    bus("task", "start", "refused", "--timeout", PATIENCE_SECONDS, code=1)
    status = bus.status("refused")
    assert (status.state, stack.postgresql.user in status.reason) == (State.ERROR, True), status
    assert status.reason.endswith("; once that is done: cdcbus task start refused")


def test_tasks_share_one_application_and_nothing_else(
    bus: Bus, stack: Addresses, feed: Feed
) -> None:
    """More than 20 s: a node with four tasks, of which two wait for a start of Spark."""
    for task_id in ("a", "b"):
        feed.task(task_id, **ONE_BY_ONE)
    feed.task("alone", **{"spark.isolated": "true"})
    target = stack.postgresql
    feed.task(
        "bad",
        **{
            "restartRetries": "0",
            "loader.source.url": f"jdbc:postgresql://{target.host}:{target.port}/no_such_database",
        },
    )
    node = bus.node("n1")
    bus("task", "start", "a", "b", "alone", "--timeout", PATIENCE_SECONDS)
    shared = bus.runner("a")
    assert (bus.runner("b"), jvms(shared)) == (shared, [])
    await_jvm(bus, feed, "a")
    await_jvm(bus, feed, "b")
    assert bus.runner("alone") not in (0, shared)
    bus("task", "stop", "alone")
    bus("task", "start", "bad", "--timeout", PATIENCE_SECONDS, code=1)
    wait_until(
        lambda: bus.status("bad").state is State.ERROR, "the node to give up", PATIENCE_SECONDS
    )
    assert "no_such_database" in bus.status("bad").reason
    assert "no_such_database" in bus("task", "logs", "bad", "--lines", 100_000).stdout
    for task_id in ("a", "b"):
        feed.insert(task_id)
    feed.wait_applied("a", "b")
    log = bus("task", "logs", "a", "--lines", 100_000).stdout
    assert ("task a reads" in log, "no_such_database" in log, "task b" in log) == (
        True,
        False,
        False,
    )
    assert (bus.runner("a"), bus.runner("b"), bus.runner("bad")) == (shared, shared, 0)
    bus("task", "stop", "a")
    assert (bus.runner("a"), bus.runner("b")) == (0, shared)
    for task_id in ("a", "b"):
        feed.insert(task_id)
    feed.wait_applied("b")
    bus("task", "start", "a", "--timeout", PATIENCE_SECONDS)
    feed.wait_applied("a")
    assert bus.runner("a") == shared
    os.kill(shared, signal.SIGKILL)
    for task_id in ("a", "b"):
        feed.insert(task_id)
    feed.wait_applied("a", "b")
    wait_until(lambda: working(bus, "a", "b"), "both to work again", PATIENCE_SECONDS)
    after = bus.runner("a")
    assert after not in (0, shared)
    assert bus.runner("b") == after
    os.kill(await_jvm(bus, feed, "a"), signal.SIGKILL)
    feed.insert("a")
    feed.wait_applied("a")
    wait_until(
        lambda: working(bus, "a", "b") and bus.runner("a") not in (0, after),
        "both to work again",
        PATIENCE_SECONDS,
    )
    for task_id in ("a", "b"):
        said = [failure.sentence for failure in bus.tasks.errors(task_id)]
        assert any("the JVM of Spark has ended (killed by SIGKILL" in each for each in said)
    last = bus.runner("b")
    node.terminate()
    assert node.wait(PATIENCE_SECONDS) == 0
    assert not Path(f"/proc/{last}").exists()
    assert (bus.runner("a"), bus.runner("b")) == (0, 0)


def test_tasks_go_on_in_their_application_when_zookeeper_was_silent_and_when_its_session_is_lost(
    bus: Bus, feed: Feed, zookeeper: str, name: str
) -> None:
    """More than 20 s: ZooKeeper is away until leases of 3 s, and then a session of 20 s, are
    over."""
    for task_id in ("a", "b"):
        feed.task(task_id, **ONE_BY_ONE)
    with closing(Line(zookeeper)) as line:
        bus.environment["CDCBUS_ZOOKEEPER"] = f"{line.address}/{name}"
        bus.node("n1", CDCBUS_ZOOKEEPER_SESSIONSECONDS="20", CDCBUS_ZOOKEEPER_LEASESECONDS="3")
        bus("task", "start", "a", "b", "--timeout", PATIENCE_SECONDS)
        shared = bus.runner("a")
        jvm = await_jvm(bus, feed, "a")
        for number in (1, 2):
            line.cut()
            wait_until(lambda: _ends(bus, "a") == _ends(bus, "b") == number, "work to end")
            is_lost = number == 2
            if is_lost:
                wait_until(lambda: bus.runner("a") == 0, "ZooKeeper to give the locks away")
            for task_id in ("a", "b"):
                feed.insert(task_id)
            line.mend()
            feed.wait_applied("a", "b")
            wait_until(lambda: working(bus, "a", "b"), "both to work", PATIENCE_SECONDS)
            assert (bus.runner("a"), bus.runner("b"), jvms(shared)) == (shared, shared, [jvm])


def _ends(bus: Bus, task_id: str) -> int:
    """How often the task has ended its work for want of a lock."""
    log = (bus.folder / "logs" / f"{task_id}.log").read_text()
    return log.count("as another process may have its locks, and waits")


def test_a_paused_application_ends_when_it_goes_on_and_its_tasks_go_on_elsewhere(
    bus: Bus, feed: Feed
) -> None:
    """Node and application are stopped for longer than their sessions last; another node works
    meanwhile."""
    for task_id in ("a", "b"):
        feed.task(task_id)
    first = bus.node("n1")
    bus("task", "start", "a", "b", "--timeout", PATIENCE_SECONDS)
    shared = bus.runner("a")
    bus.node("n2")
    for pid in (first.pid, shared):
        os.kill(pid, signal.SIGSTOP)
    wait_until(
        lambda: bus.status("a").node_id == bus.status("b").node_id == "n2",
        "the other node to have them",
        PATIENCE_SECONDS,
    )
    for task_id in ("a", "b"):
        feed.insert(task_id)
    feed.wait_applied("a", "b")
    wait_until(lambda: working(bus, "a", "b"), "both to work", PATIENCE_SECONDS)
    holder = bus.runner("a")
    for pid in (first.pid, shared):
        os.kill(pid, signal.SIGCONT)
    wait_until(
        lambda: not Path(f"/proc/{shared}").exists(),
        "the first application to end",
        PATIENCE_SECONDS,
    )
    for task_id in ("a", "b"):
        feed.insert(task_id)
    feed.wait_applied("a", "b")
    assert holder not in (0, shared)
    assert (bus.runner("a"), bus.runner("b")) == (holder, holder)
