"""`cdcbus task run --until`: tasks that end by themselves, on the real servers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses, Database
from tests.integration.producer.reading import connect, position
from tests.support.changes.changing import changing
from tests.support.changes.shop import Shop, open_shop
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.topics.forward import open_forward
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
of_the_source = pytest.mark.source  # the others ask nothing that servers answer differently
ORDERS = "id INT PRIMARY KEY, name VARCHAR(20)"
SECONDS = 240.0
NOT_THERE = ("0-1-99999999999", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")


@pytest.fixture
def shop(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Shop]:
    make_topic(name, 3)
    with open_shop(name, stack, source_cursor, tmp_path) as opened:
        opened.create("orders", ORDERS)
        yield opened


@contextmanager
def running(task: TaskProcess, until: str) -> Iterator["subprocess.Popen[str]"]:
    # Where the tests run under nohup, the task would ignore a closed terminal, too.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(
        [sys.executable, "-m", "cdcbus", "task", "run", str(task.file), "--until", until],
        env=task.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGHUP, before)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def run(task: TaskProcess, until: str = "now", code: int = 0) -> str:
    """All that it has said."""
    with running(task, until) as process:
        said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == code, said
    return said


def fetch_of(shop: Shop, source: Database, **keys: str) -> TaskProcess:
    """A fetch task whose position is the end of the binlog."""
    fetch = shop.fetch(source, **keys)
    run(fetch)
    assert shop.position(fetch) is not None
    return fetch


def insert(shop: Shop, *ids: int) -> None:
    for number in ids:
        shop.cursor.execute("INSERT INTO orders VALUES (%s, 'x')", (number,))


def place(shop: Shop) -> tuple[str, str]:
    """file:pos and GTIDs of the source's end."""
    end = position(shop.cursor)
    variable = "gtid_executed" if is_mysql(shop) else "gtid_current_pos"
    shop.cursor.execute(f"SELECT @@GLOBAL.{variable}")
    return str(end), re.sub(r"\s", "", str(shop.cursor.fetchall()[0][0]))


def is_mysql(shop: Shop) -> bool:
    shop.cursor.execute("SELECT VERSION()")
    return "MariaDB" not in str(shop.cursor.fetchall()[0][0])


def count(shop: Shop) -> int:
    return sum(shop.ends().values())


def in_target(shop: Shop) -> list[int]:
    return [row[0] for row in shop.rows("orders")["postgresql"]]


@pytest.mark.parametrize("keys", [{}, {"loader__source__transaction": "true"}])
def test_all_that_was_there_at_the_start_is_at_the_far_side(
    shop: Shop, source: Database, keys: dict[str, str]
) -> None:
    fetch, load = fetch_of(shop, source, **keys), shop.load("postgresql")
    insert(shop, *range(20))
    run(fetch)
    assert count(shop) >= 20
    run(load)
    assert in_target(shop) == list(range(20))
    assert shop.is_applied(load)


def test_spark_ends_with_the_run_too(shop: Shop, source: Database) -> None:
    fetch = fetch_of(shop, source)
    load = with_eager_spark(shop.load("postgresql", consumer__source__maxRecordsPerBatch="100"))
    rows = [(number, "x") for number in range(1000)]
    shop.cursor.executemany("INSERT INTO orders VALUES (%s, %s)", rows)
    run(fetch)
    assert "Spark reads a backlog" in run(load)
    assert in_target(shop) == list(range(1000))


@of_the_source
def test_an_idle_source_and_an_idle_topic_end_at_once(shop: Shop, source: Database) -> None:
    fetch, load = fetch_of(shop, source), shop.load("postgresql")
    run(fetch)
    run(load)
    run(load)
    assert count(shop) == 0


@of_the_source
@pytest.mark.parametrize("keys", [{}, {"loader__source__transaction": "true"}])
def test_rows_that_are_there_are_at_the_far_side_too_though_nothing_is_new(
    shop: Shop, source: Database, keys: dict[str, str]
) -> None:
    insert(shop, *range(2000))
    fetch = shop.fetch(source, consumer__snapshot="initial", **keys)
    run(fetch)
    load = shop.load("postgresql")
    run(load)
    assert in_target(shop) == list(range(2000))
    ends = shop.ends()
    run(fetch)
    assert shop.ends() == ends


@of_the_source
def test_a_binlog_that_ends_with_no_transaction_is_an_end_too(shop: Shop, source: Database) -> None:
    fetch = fetch_of(shop, source)
    insert(shop, 1)
    shop.cursor.execute("FLUSH BINARY LOGS")
    run(fetch)
    assert count(shop) == 1


@of_the_source
def test_a_fetch_task_ends_at_a_place_a_gtid_or_a_time(shop: Shop, source: Database) -> None:
    fetch = fetch_of(shop, source)
    insert(shop, 1)
    file_pos, _ = place(shop)
    insert(shop, 2)
    _, gtid = place(shop)
    for until in (file_pos, gtid, datetime.now(UTC).isoformat()):
        run(fetch, until)
        assert 1 <= count(shop) <= 2
    assert count(shop) == 2


def test_a_consumer_task_ends_at_an_offset_or_a_time(shop: Shop, source: Database) -> None:
    fetch, load = fetch_of(shop, source), shop.load("postgresql", consumer__source__partition="0")
    insert(shop, *range(40))
    run(fetch)
    last = shop.ends()[0] - 1
    assert last > 1
    run(load, "1")
    assert len(in_target(shop)) >= 2
    run(load, datetime.now(UTC).isoformat())
    assert len(in_target(shop)) == last + 1


@pytest.mark.parametrize("until", ["now", "a time"])
def test_a_run_ends_behind_an_open_transaction_of_another_writer(
    shop: Shop, source: Database, until: str
) -> None:
    fetch, load = fetch_of(shop, source), shop.load("postgresql")
    other = kafka_producer(shop.addresses.kafka, {"transactional.id": shop.name})
    other.init_transactions(60)
    other.begin_transaction()
    other.produce(shop.name, None, partition=0)
    assert other.flush(60) == 0
    insert(shop, *range(20))
    run(fetch)
    ends = shop.ends()
    if until == "a time":
        until = datetime.now(UTC).isoformat()
    with running(load, until) as process:
        # What is in the other partitions.
        wait_until(lambda: len(in_target(shop)) == ends[1] + ends[2], "rows of others")
        other.abort_transaction(60)
        said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert in_target(shop) == list(range(20))


@of_the_source
def test_what_is_no_end_or_has_not_come_yet_is_refused(shop: Shop, source: Database) -> None:
    fetch = fetch_of(shop, source)
    for until, sentence in {
        "mysql-bin.999999:4": "does not hold mysql-bin.999999:4",
        NOT_THERE[is_mysql(shop)]: "has not executed all of that",
        "2999-01-01T00:00:00": "has not come yet",
        "1-2": "cannot be the end of a run",
    }.items():
        assert sentence in run(fetch, until, code=1).strip().splitlines()[-1]
    load = shop.load("postgresql")
    for until, sentence in {
        "999999": "ends before it, at 0",
        "2999-01-01": "has not come yet",
        "1-2": "is a replay",
        "earliest": "cannot be the end of a run",
    }.items():
        assert sentence in run(load, until, code=1).strip().splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_stopped_before_its_end_says_so_by_its_exit_code(
    shop: Shop, source: Database, number: signal.Signals
) -> None:
    fetch = fetch_of(shop, source)
    insert(shop, 1)
    run(fetch)
    load = shop.load("postgresql")
    shop.postgresql(f"ALTER TABLE {shop.name}.orders RENAME TO away")
    with running(load, "now") as process:
        wait_until(lambda: shop.position(load) is not None, "the consumer task to begin")
        process.send_signal(number)
        process.communicate(timeout=SECONDS)
        assert process.returncode == 130
    shop.postgresql(f"ALTER TABLE {shop.name}.away RENAME TO orders")
    run(load)
    assert in_target(shop) == [1]


def test_rows_that_come_meanwhile_are_left_to_the_next_run(shop: Shop, source: Database) -> None:
    """While a writer never rests, it ends all the same."""
    fetch, load = fetch_of(shop, source), shop.load("postgresql")
    shop.cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    shop.postgresql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, n INT)")
    with changing(source, shop.name):
        insert(shop, 7)
        run(fetch)
        run(load)
        assert in_target(shop) == [7]


@pytest.mark.parametrize("keys", [{}, {"loader__source__transaction": "true"}])
def test_a_task_from_kafka_to_kafka_ends_too(
    name: str,
    kafka: str,
    zookeeper: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
    keys: dict[str, str],
) -> None:
    make_topic(name, 2)
    make_topic(f"{name}-out", 2)
    with open_forward(name, kafka, zookeeper, tmp_path) as forward:
        forward.put(range(30), partitions=2)
        task = forward.task(**keys)
        run(task)
        assert len(forward.sent()) == 30
        run(task)
        assert len(forward.sent()) == 30


def test_a_killed_run_is_ended_by_the_next_one(shop: Shop, source: Database) -> None:
    fetch, load = fetch_of(shop, source), shop.load("postgresql")
    rows = [(number, "x") for number in range(2000)]
    shop.cursor.executemany("INSERT INTO orders VALUES (%s, %s)", rows)
    for task, has_begun in (
        (fetch, lambda: count(shop) > 0),
        (load, lambda: shop.position(load) is not None),
    ):
        with running(task, "now"):
            wait_until(has_begun, "the run to begin")
        run(task)
    assert in_target(shop) == list(range(2000))
    assert shop.is_applied(load)


@of_the_source
def test_an_open_xa_transaction_does_not_hold_up_the_end(shop: Shop, source: Database) -> None:
    fetch = fetch_of(shop, source)
    insert(shop, 1)
    statements = ("XA START %s", "INSERT INTO orders VALUES (9, 'x')", "XA END %s", "XA PREPARE %s")
    with connect(source) as connection, connection.cursor() as cursor:
        for sql in statements:
            sql = sql.replace("INTO orders", f"INTO {shop.name}.orders")
            cursor.execute(sql.replace("%s", f"'{shop.name}'"))
    try:
        insert(shop, 2)
        run(fetch)
        assert count(shop) == 2
    finally:
        shop.cursor.execute(f"XA COMMIT '{shop.name}'")
    run(fetch)
    assert count(shop) == 3
