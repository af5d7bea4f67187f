"""What a running task tells ZooKeeper of itself, and what is read of it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from threading import Event
from time import time

import pytest
from kazoo.client import KazooClient

from cdcbus.plugins.errors import DataError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.task_status import State
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.progress import Progress
from cdcbus.tasks.runtime import status_reporter
from cdcbus.tasks.runtime.lag import Lag
from cdcbus.tasks.runtime.table_counts import add_to_porters_nodes
from cdcbus.tasks.runtime.throughput_history import ThroughputHistory
from cdcbus.tasks.zookeeper import znode
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.stat import Percentiles, Stat, TableCounts
from cdcbus.tasks.zookeeper.tasks import Failure, Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import get_node
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ORDERS = TableId("shop", "orders")


@pytest.fixture
def nodes(zookeeper: str, name: str) -> Iterator[TaskNodes]:
    client: KazooClient = connect(f"{zookeeper}/{name}")
    yield TaskNodes(client)
    client.stop()
    client.close()


@pytest.fixture(autouse=True)
def without_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_reporter, "REPORT_SECONDS", 0.0)
    measured = Lag(None, 3.5, 1_800_000_000_000, 700, 0.25, 86_400.0)
    monkeypatch.setattr(status_reporter, "lag_meter", lambda _: lambda _: measured)


@pytest.fixture
def task(publish: object) -> FetchTask:
    return FetchTask("7", "shop", SourceConfig((("127.0.0.1", 1),), "u"), FilterConfig(), publish)  # type: ignore[arg-type]


@pytest.fixture
def publish() -> object:
    from cdcbus.plugins.kafka.config import PublishConfig

    return PublishConfig("127.0.0.1:1", "t", "canalRow")


def run(task: FetchTask, nodes: TaskNodes, rows: int, reason: str = "") -> None:
    """A task that sends `rows` inserts, fails once if there is a reason, and is over once it has
    told of them."""
    stop, reporter = Event(), status_reporter.StatusReporter(task, nodes, "n1")
    with reporter.reporting(stop):
        progress = Progress()
        reporter(progress)  # reading begins
        progress.stages.published.record(0.3, rows)
        place = BinlogPosition("bin.1", 4 + rows, timestamp_ms=int(time() * 1000))
        tables = {ORDERS: Counter({Op.INSERT: rows})}
        reporter(Progress(rows, 1, place, tables=tables, stages=progress.stages))
        wait_until(lambda: (stat := nodes.stat("7")) is not None and stat.rows == rows, "the rows")
        if reason:
            reporter.status.retrying(f"{reason}; trying again in 0.5 s")
            wait_until(lambda: bool(nodes.errors("7")), "the failure")
        stop.set()


def test_a_task_tells_of_lag_delays_tables_and_minutes_and_goes_on_where_another_process_stopped(
    nodes: TaskNodes, task: FetchTask
) -> None:
    seen: list[Stat] = []
    put = nodes.put_stat
    nodes.put_stat = lambda task_id, stat: (seen.append(stat), put(task_id, stat))[1]  # type: ignore[method-assign, func-returns-value]
    run(task, nodes, 5)
    run(task, nodes, 3)
    told = next(stat for stat in seen if stat.rows == 5)
    assert (told.lag_seconds, told.lag_bytes, told.skew_seconds, told.retention_seconds) == (
        3.5,
        700,
        0.25,
        86_400.0,
    )
    assert told.tables == (TableCounts("shop", "shop.orders", 5, 5),)
    assert told.delays["source_to_kafka"] == Percentiles(0.3, 0.3, 0.3)
    last = nodes.stat("7")
    assert last is not None and (last.state, last.tables[0].rows) == (State.STOPPED, 3)
    minutes = ThroughputHistory(nodes.client).read("7")
    assert (sum(minute.rows for minute in minutes), minutes[-1].state) == (8, "STOPPED")
    porters = get_node(nodes.client, "/datas/task/7/stat/shop/SHOP.ORDERS")
    assert porters is not None and (porters.fields["insertRow"], porters.fields["schema"]) == (
        8,
        "SHOP",
    )


def test_what_was_done_with_many_tables_is_told_without_waiting_for_each_answer(
    nodes: TaskNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10,000 tables a task would tell for 15 s, once a minute and before it ends."""
    counts = [TableCounts("shop", f"shop.t{number}", number, number) for number in range(450)]
    add_to_porters_nodes(nodes.client, "7", "n1", dict.fromkeys(counts[:100]))
    asked: list[int] = []
    answered, take = [0], znode.answer

    def answer(request: object) -> object:
        answered[0] += 1
        return take(request)

    def counted(ask: Callable[..., object]) -> Callable[..., object]:
        def request(*arguments: object, **keywords: object) -> object:
            asked.append(len(asked) + 1 - answered[0])
            return ask(*arguments, **keywords)

        return request

    monkeypatch.setattr(znode, "answer", answer)
    for name in ("get_async", "set_async", "create_async"):
        monkeypatch.setattr(nodes.client, name, counted(getattr(nodes.client, name)))
    add_to_porters_nodes(nodes.client, "7", "n1", dict.fromkeys(counts))
    assert max(asked) == znode.AT_ONCE
    for number, rows in ((0, 0), (99, 198), (100, 100), (449, 449)):
        told = get_node(nodes.client, f"/datas/task/7/stat/shop/SHOP.T{number}")
        assert told is not None and told.fields["insertRow"] == rows


def test_a_task_that_waits_for_executors_says_so(nodes: TaskNodes, task: FetchTask) -> None:
    reporter = status_reporter.StatusReporter(task, nodes, "n1")
    with reporter.reporting(Event()):
        reporter.status.waiting("for executors")
        wait_until(
            lambda: told(nodes) == (State.RETRYING, "task 7 waits for executors"), "the reason"
        )
        reporter.status.resumed("executors are available again")
        reporter.status.observe(is_behind=False)
        wait_until(lambda: told(nodes) == (State.WORKING, ""), "its end")


def told(nodes: TaskNodes) -> tuple[State, str] | None:
    return (stat.state, stat.reason) if (stat := nodes.stat("7")) else None


def test_a_task_that_fails_each_time_it_has_begun_to_read_is_retrying_until_it_gets_on(
    nodes: TaskNodes, task: FetchTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, seen, put = [700], list[State](), nodes.put_stat
    monkeypatch.setattr(status_reporter, "lag_meter", lambda _: lambda _: Lag(bytes=ahead[0]))
    nodes.put_stat = lambda task_id, stat: (seen.append(stat.state), put(task_id, stat))[1]  # type: ignore[method-assign, func-returns-value]
    reporter = status_reporter.StatusReporter(task, nodes, "n1")

    def fail(reason: str) -> None:
        reporter.status.retrying(f"{reason}; trying again in 0.5 s")
        wait_until(
            lambda: told(nodes) == (State.RETRYING, f"task 7: {reason}; trying again in 0.5 s"),
            "the failure",
        )

    def read(progress: Progress) -> None:
        reporter.status.reading("the binlog")
        reporter(progress)

    def await_work(times: int) -> None:
        wait_until(lambda: told(nodes) == (State.WORKING, ""), "work")
        assert [state for state, _ in groupby(seen)].count(State.WORKING) == times

    with reporter.reporting(Event()):
        read(Progress())
        await_work(1)
        for reason in ("one", "two"):
            fail(reason)
            read(Progress())
            count = len(seen)
            wait_until(lambda: len(seen) > count + 1, "it to be told again")
        reporter(Progress(1))
        await_work(2)
        fail("three")
        read(Progress(1))
        ahead[0] = 0
        await_work(3)


def test_a_stat_is_read_as_it_was_told(nodes: TaskNodes) -> None:
    stat = Stat(
        State.WORKING,
        lag_records=4,
        idle_seconds=1.5,
        still_seconds=2.5,
        batch_seconds=0.5,
        beats={"1": 1_800_000_000.25},
        delays={"source_to_target": Percentiles(0.1, 0.2, 0.3)},
        stages_ms={"decode": 1.0},
        tables=(TableCounts("t", "S.T", 1),),
    )
    nodes.put_stat("8", stat)
    assert nodes.stat("8") == stat


def test_failures_are_counted_while_they_are_the_same_and_porters_error_node_lasts_until_the_next_start(
    nodes: TaskNodes, task: FetchTask
) -> None:
    nodes.client.create("/datas/task/7/dist/shop", b"{}", makepath=True)
    run(task, nodes, 1, "Kafka is away")
    nodes.add_failure("7", "node n1", "task 7: Kafka is away; trying again in 2 s")
    with (
        pytest.raises(DataError),
        status_reporter.StatusReporter(task, nodes, "n1").reporting(Event()),
    ):
        raise DataError("record t[0]@5 is no row")
    gone = Run(State.ERROR, "record t[0]@5 is no row", node_id="n1")
    nodes.put_run("7", gone)  # as its node does next
    assert [replace(failure, at="") for failure in nodes.errors("7")] == [
        Failure("", "node n1", "task 7: Kafka is away", 2),
        Failure("", "node n1", "record t[0]@5 is no row", 1),
    ]
    porters = get_node(nodes.client, "/datas/task/7/error/shop")
    assert porters is not None and (
        porters.fields["swimlaneId"],
        "no row" in porters.text("message"),
    ) == ("shop", True)
    nodes.want("7", True, "somebody")
    assert get_node(nodes.client, "/datas/task/7/error/shop") is None
    assert len(nodes.errors("7")) == 2
