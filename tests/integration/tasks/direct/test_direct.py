"""`cdcbus snapshot run --direct`, and the task that follows it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.tasks.direct.run import BEGUN_VARIABLE
from cdcbus.tasks.process_restart import RESTARTED_VARIABLE
from tests.integration.tasks.preflight.test_check import user
from tests.integration.tasks.verify.verifying import source_of, verify, verify_still
from tests.support.changes.shop import Shop
from tests.support.clusters.python_workers import python_workers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ROWS = 3_000
MANY = 18_000
"""Of wide rows: as much as two chunks have, and more."""
ORDERS = "id INT PRIMARY KEY, customer INT NOT NULL, note VARCHAR(1000), amount DECIMAL(10,2)"


@dataclass
class Answer:
    code: int
    found: dict[str, Any]
    told: str


def words(load: TaskProcess, fetch: TaskProcess, *options: str) -> list[str]:
    start = [sys.executable, "-m", "cdcbus", "snapshot", "run", str(load.file), "--direct"]
    return [*start, "--source", str(fetch.file), "--json", *options]


def run(load: TaskProcess, fetch: TaskProcess, *options: str) -> Answer:
    done = subprocess.run(
        words(load, fetch, *options), env=load.environment, capture_output=True, text=True
    )
    found = json.loads(done.stdout) if done.stdout else {}
    return Answer(done.returncode, found, done.stdout + done.stderr)


def fill(shop: Shop, rows: int = ROWS, width: int = 1) -> None:
    shop.create("orders", ORDERS)
    shop.cursor.executemany(
        "INSERT INTO orders VALUES (%s, %s, %s, %s)",
        [
            (number, number % 7, f"note ü {number}" + "." * width, number / 4)
            for number in range(rows)
        ],
    )
    shop.cursor.execute("ANALYZE TABLE orders")  # chunks are cut by the size of its rows
    shop.cursor.fetchall()


def alive(*processes: TaskProcess) -> bool:
    """Raises what one says that has ended."""
    for process in processes:
        process.check()
    return True


def followed(shop: Shop, **keys: str) -> TaskProcess:
    """The fetch task, once it has a position: what was written before is in no record."""
    fetch = shop.fetch(source_of(shop), **keys)
    fetch.start()
    wait_until(lambda: alive(fetch) and shop.position(fetch) is not None, "a position")
    return fetch


@contextmanager
def writing(shop: Shop) -> Iterator[None]:
    """Changes all the time, those of keys and deletes among them."""
    source, is_over = source_of(shop), threading.Event()

    def write() -> None:
        choose = random.Random(7)
        with (
            MysqlConnection(
                host=source.host,
                port=source.port,
                user=source.user,
                password=source.password,
                database=shop.name,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            number = 0
            while not is_over.wait(0.002):
                number += 1
                row = choose.randrange(ROWS)
                cursor.execute("UPDATE orders SET amount = amount + 1 WHERE id = %s", (row,))
                cursor.execute("INSERT INTO orders VALUES (%s, 1, 'new', 0)", (10**6 + number,))
                cursor.execute("DELETE FROM orders WHERE id = %s", (choose.randrange(ROWS),))
                cursor.execute(
                    "UPDATE IGNORE orders SET id = %s WHERE id = %s",
                    (-number, choose.randrange(ROWS)),
                )

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def becomes_equal(shop: Shop, load: TaskProcess, fetch: TaskProcess, target: str) -> None:
    """Nobody writes any more."""

    def is_equal() -> bool:
        rows = shop.rows("orders")
        return alive(load, fetch) and rows[target] == rows["source"]

    wait_until(is_equal, "the target to be equal")
    proof = verify(shop, target)
    assert proof.code == 0, proof.output


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_copy_and_the_task_after_it_give_what_the_source_has_while_writes_go_on(
    shop: Shop, target: str
) -> None:
    fill(shop)
    fetch = followed(shop)
    load = shop.load(target)
    with writing(shop):
        answer = run(load, fetch)
        assert answer.code == 0, answer.told
        [table] = answer.found["tables"]
        assert (table["table"], table["state"]) == ("orders", "done")
        assert table["rows"] > ROWS / 2
        load.start()
        before = shop.ends()
        wait_until(lambda: alive(load, fetch) and shop.ends() != before, "changes in Kafka")
    becomes_equal(shop, load, fetch, target)


def test_a_source_whose_binlog_has_a_new_file_and_nothing_in_it_is_not_waited_for(
    shop: Shop,
) -> None:
    """The fetch task's position stays in the old one."""
    fill(shop)
    fetch, load = followed(shop), shop.load("postgresql")
    shop.cursor.execute("FLUSH BINARY LOGS")
    process = started(load, fetch)
    try:
        told, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert json.loads(told)["tables"][0]["rows"] == ROWS


def started(load: TaskProcess, fetch: TaskProcess) -> subprocess.Popen[str]:
    """In a session of its own."""
    return subprocess.Popen(
        words(load, fetch),
        env=load.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def held_up(shop: Shop, key: int) -> Iterator[None]:
    """Whoever writes this row of orders to PostgreSQL waits, until the block ends."""
    database = shop.addresses.postgresql
    with psycopg.connect(
        host=database.host,
        port=database.port,
        user=database.user,
        password=database.password,
        dbname=database.database,
    ) as connection:
        connection.execute(f'INSERT INTO {shop.name}."orders" VALUES ({key}, 0)'.encode())
        yield
        connection.rollback()


def kill_in_the_middle(shop: Shop, load: TaskProcess, fetch: TaskProcess) -> None:
    """Starts a load of orders, which has MANY rows, and kills it once a chunk is loaded."""
    with held_up(shop, MANY - 1):
        process = started(load, fetch)
        try:
            wait_until(lambda: progress(shop, load).get("chunks", 0) > 0, "a chunk")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def progress(shop: Shop, load: TaskProcess) -> dict[str, Any]:
    """Of the one table; nothing before it is begun."""
    path = f"/datas/task/{load.task_id}/snapshot/direct/tables"
    names = shop.zookeeper.get_children(path) if shop.zookeeper.exists(path) else []
    found: dict[str, Any] = {}
    for name in names:
        found = json.loads(shop.zookeeper.get(f"{path}/{name}")[0])
    return found


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_load_that_is_interrupted_goes_on_with_what_is_left(
    shop: Shop, ending: signal.Signals
) -> None:
    """More than 20 s: Spark starts twice, for rows that the first one must not be through with."""
    rows = MANY
    fill(shop, rows, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    with held_up(shop, rows - 1):
        process = started(load, fetch)
        try:
            wait_until(lambda: progress(shop, load).get("chunks", 0) > 0, "a chunk")
        finally:
            if ending is signal.SIGKILL:
                os.killpg(process.pid, ending)
            else:
                process.send_signal(ending)
            _, told = process.communicate()
    assert process.returncode == (-ending if ending is signal.SIGKILL else 130), told
    done = progress(shop, load)
    assert (done["state"], 0 < done["rows"] < rows) == ("running", True)
    refused = subprocess.run(
        [sys.executable, "-m", "cdcbus", "task", "run", str(load.file)],
        env=load.environment,
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1
    assert f"the direct load of task {load.task_id} is not finished" in refused.stderr
    status = subprocess.run(
        [sys.executable, "-m", "cdcbus", "snapshot", "status", load.task_id, "--json"],
        env=load.environment,
        capture_output=True,
        text=True,
    )
    assert json.loads(status.stdout)["tables"][0]["rows"] == done["rows"], status.stderr
    shop.cursor.execute("UPDATE orders SET note = 'later' WHERE id < 10")
    # rows that are there are not read again: this one is not the source's
    shop.postgresql(f"UPDATE {shop.name}.orders SET note = 'mine' WHERE id = 20")
    answer = run(load, fetch)
    assert answer.code == 0, answer.told
    [table] = answer.found["tables"]
    assert (table["state"], table["rows"]) == ("done", rows)
    assert shop.postgresql(f"SELECT note FROM {shop.name}.orders WHERE id = 20") == [("mine",)]
    shop.cursor.execute("UPDATE orders SET note = 'last' WHERE id = 20")
    load.start()
    becomes_equal(shop, load, fetch, "postgresql")


def test_a_task_whose_load_was_given_up_starts_only_from_a_new_load_or_a_set_position(
    shop: Shop,
) -> None:
    """The target has the offsets of the load, and some of the rows."""

    def cdcbus(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cdcbus", *words]
        return subprocess.run(command, env=load.environment, capture_output=True, text=True)

    fill(shop, MANY, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    with held_up(shop, MANY - 1):
        process = started(load, fetch)
        try:
            wait_until(lambda: progress(shop, load).get("chunks", 0) > 0, "a chunk")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()
    why = f"the direct load of task {load.task_id} was given up"
    assert why in cdcbus("snapshot", "stop", load.task_id, "--yes").stdout
    assert cdcbus("snapshot", "status", load.task_id).stdout.startswith(why)
    refused = cdcbus("task", "run", str(load.file))
    assert (refused.returncode, why in refused.stderr) == (1, True)
    assert "has rows already" in run(load, fetch).told
    shop.postgresql(f"TRUNCATE {shop.name}.orders")
    answer = run(load, fetch)
    assert answer.code == 0, answer.told
    load.start()
    becomes_equal(shop, load, fetch, "postgresql")


def test_a_task_whose_load_is_lost_with_zookeeper_does_not_start(
    shop: Shop, tmp_path: Path
) -> None:
    fill(shop, MANY, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    kill_in_the_middle(shop, load, fetch)
    shop.zookeeper.delete(f"/datas/task/{load.task_id}", recursive=True)
    for option in ((), ("--positions", str(tmp_path / "positions.json"))):
        refused = subprocess.run(
            [sys.executable, "-m", "cdcbus", "task", "run", str(load.file), *option],
            env=load.environment,
            capture_output=True,
            text=True,
        )
        assert refused.returncode == 1
        assert f"snapshot run {load.task_id} --direct; if that says" in refused.stderr
    assert "has rows already" in run(load, fetch).told
    shop.postgresql(f"TRUNCATE {shop.name}.orders")
    answer = run(load, fetch)
    assert answer.code == 0, answer.told
    load.start()
    becomes_equal(shop, load, fetch, "postgresql")


@pytest.mark.parametrize(
    "change",
    [
        "MODIFY amount DECIMAL(10,2) NOT NULL, DROP PRIMARY KEY, ADD UNIQUE (id), "
        "ADD PRIMARY KEY (amount)",
        "MODIFY note VARCHAR(1000) CHARACTER SET latin1",
    ],
    ids=["another key", "another character set"],
)
def test_a_load_does_not_go_on_with_an_altered_table(shop: Shop, change: str) -> None:
    fill(shop, MANY, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    kill_in_the_middle(shop, load, fetch)
    assert progress(shop, load)["key"] == ["id"]
    shop.cursor.execute(f"ALTER TABLE orders {change}")
    answer = run(load, fetch)
    assert answer.code == 1
    assert f"table {shop.name}.orders was altered while it was loaded" in answer.told


def test_a_load_does_not_go_on_into_another_target_or_by_another_task_file(shop: Shop) -> None:
    """Its other rows would be missing, or as the former file made them. More than 20 s: the command,
    with Spark, starts several times."""
    fill(shop, MANY, width=900)
    shop.create("items", "id INT PRIMARY KEY")
    tables = f"{shop.name}.orders"
    fetch, load = followed(shop), shop.load("postgresql", consumer__includes=tables)
    text = load.file.read_text()
    kill_in_the_middle(shop, load, fetch)
    other = shop.load("mariadb", consumer__includes=tables).file.read_text()
    task_id = f"{shop.name}-postgresql"
    for changed, reason in (
        (
            other.replace(f"{shop.name}-mariadb", task_id),
            f"the target of task {task_id} is another",
        ),
        (
            text.replace(tables, f"{tables},{shop.name}.items"),
            "another value of consumer.includes ",
        ),
        (f"{text}\nmapper[0].mask.note=fixed:x\n", "another value of mapper[i] than"),
    ):
        load.file.write_text(changed)
        answer = run(load, fetch)
        assert answer.code == 1, answer.told
        assert reason in answer.told
    assert shop.mariadb(f"SELECT * FROM {shop.name}.orders") == []
    load.file.write_text(text)
    answer = run(load, fetch)
    assert answer.code == 0, answer.told
    assert shop.rows("orders")["postgresql"] == shop.rows("orders")["source"]


def test_a_load_does_not_go_on_into_a_target_that_lost_what_it_had(shop: Shop) -> None:
    """More than 20 s: the command, with Spark, starts several times."""
    fill(shop, MANY, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    kill_in_the_middle(shop, load, fetch)
    counted = "topic = 'commits of a direct load'"
    of_task = f"FROM cdcbus_position WHERE task = '{load.task_id}' AND {counted}"
    assert shop.postgresql(f"SELECT sum(next_offset) > 0 {of_task}") == [(True,)]
    # As after the failover to a standby that lags behind: the last commits are not there.
    shop.postgresql(f"DELETE {of_task}")
    answer = run(load, fetch)
    assert answer.code == 1, answer.told
    assert "lacks rows that its direct load had committed" in answer.told
    shop.postgresql(f"TRUNCATE {shop.name}.orders")
    answer = run(load, fetch)
    assert answer.code == 1, answer.told
    assert "has no rows any more, and the direct load" in answer.told
    answer = run(load, fetch, "--anew")
    assert answer.code == 0, answer.told
    assert shop.rows("orders")["postgresql"] == shop.rows("orders")["source"]
    assert shop.postgresql(f"SELECT count(*) {of_task}") == [(0,)]


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_load_begins_anew_once_however_often_its_process_is_restarted(
    shop: Shop, is_begun: bool
) -> None:
    """As one is that was paused for longer than ZooKeeper keeps its locks. If that was before it
    had begun it must not continue the former load, into tables that were emptied since.
    More than 20 s: the command, with Spark, starts twice."""
    fill(shop, MANY, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    kill_in_the_middle(shop, load, fetch)
    load.environment[RESTARTED_VARIABLE] = "1"
    if is_begun:
        load.environment[BEGUN_VARIABLE] = load.task_id
    else:
        shop.postgresql(f"TRUNCATE {shop.name}.orders")
    answer = run(load, fetch, "--anew")
    assert answer.code == 0, answer.told
    [table] = answer.found["tables"]
    assert (table["state"], table["rows"]) == ("done", MANY)
    kept = shop.rows("orders")
    assert kept["postgresql"] == kept["source"]


def test_a_load_that_ends_before_it_begins_anew_does_not_go_on_with_the_former_one(
    shop: Shop,
) -> None:
    """What that one had loaded is no longer there. More than 20 s: the command, with Spark, starts
    three times."""
    fill(shop, MANY, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    kill_in_the_middle(shop, load, fetch)
    fetch.ask_to_stop()
    fetch.await_stop()
    shop.postgresql(f"TRUNCATE {shop.name}.orders")
    shop.cursor.execute("UPDATE orders SET note = 'later' WHERE id = 1")
    answer = run(load, fetch, "--anew")
    assert (answer.code, "is not running" in answer.told) == (1, True), answer.told
    fetch.start()
    answer = run(load, fetch)
    assert answer.code == 0, answer.told
    assert answer.found["tables"][0]["rows"] == MANY
    kept = shop.rows("orders")
    assert kept["postgresql"] == kept["source"]


def test_chunks_of_lost_workers_are_loaded_again(shop: Shop) -> None:
    rows = MANY
    fill(shop, rows, width=900)
    fetch, load = followed(shop), shop.load("postgresql")
    with held_up(shop, rows - 1):
        process = started(load, fetch)
        wait_until(lambda: progress(shop, load).get("chunks", 0) > 0, "a chunk")
        workers = python_workers(process.pid)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
    assert workers
    found, told = process.communicate()
    assert process.returncode == 0, told
    [table] = json.loads(found)["tables"]
    assert (table["state"], table["rows"]) == ("done", rows)
    kept = shop.rows("orders")
    assert kept["postgresql"] == kept["source"]


def test_rows_go_where_the_mapper_says(shop: Shop) -> None:
    fill(shop)
    shop.postgresql(
        f"CREATE TABLE {shop.name}.bought (number int PRIMARY KEY, customer int, note text)"
    )
    fetch = followed(shop)
    load = shop.load(
        "postgresql",
        **{
            "mapper[0]__schema": f"{shop.name},{shop.name}",
            "mapper[0]__table": "orders,bought",
            "mapper[0]__column__id": "number",
            "mapper[0]__ignore": "amount",
        },
    )
    answer = run(load, fetch)
    assert answer.code == 0, answer.told
    shop.cursor.execute("SELECT id, customer, note FROM orders ORDER BY id")
    found = shop.postgresql(f"SELECT * FROM {shop.name}.bought ORDER BY number")
    assert found == list(shop.cursor.fetchall())


def test_a_table_of_two_targets_is_loaded_into_both_and_only_if_both_are_empty(
    shop: Shop,
) -> None:
    """Whichever of them is named: chunks are written to both."""
    fill(shop)
    names = ("bought", "sold")
    rules = {}
    for number, name in enumerate(names):
        shop.postgresql(f"CREATE TABLE {shop.name}.{name} (id int PRIMARY KEY, customer int)")
        rules[f"mapper[{number}]__schema"] = f"{shop.name},{shop.name}"
        rules[f"mapper[{number}]__table"] = f"orders,{name}"
        rules[f"mapper[{number}]__ignore"] = "note,amount"
    fetch, load = followed(shop), shop.load("postgresql", **rules)
    for full, named in (names, names[::-1]):
        shop.postgresql(f"INSERT INTO {shop.name}.{full} VALUES (-1, 1)")
        answer = run(load, fetch, "--table", f"{shop.name}.{named}")
        assert answer.code == 1, answer.told
        assert f"target table {shop.name}.{full} has rows already" in answer.found["error"]
        shop.postgresql(f"TRUNCATE {shop.name}.{full}")
    answer = run(load, fetch, "--table", f"{shop.name}.bought")
    assert answer.code == 0, answer.told
    assert f"{shop.name}.bought, {shop.name}.sold" in answer.told
    shop.cursor.execute("SELECT id, customer FROM orders ORDER BY id")
    rows = list(shop.cursor.fetchall())
    for name in names:
        assert shop.postgresql(f"SELECT * FROM {shop.name}.{name} ORDER BY id") == rows


def test_what_cannot_be_loaded_directly_is_refused_with_what_to_do(shop: Shop) -> None:
    shop.create("orders", ORDERS)
    shop.create("words", "word VARCHAR(10)")
    fetch, load = shop.fetch(shop.addresses.source), shop.load("postgresql")

    def refusal(*options: str) -> str:
        answer = run(load, fetch, *options)
        assert answer.code == 1, answer.told
        return str(answer.found["error"])

    keyless = refusal()
    assert f"table {shop.name}.words has no primary key" in keyless
    assert "through Kafka" in keyless
    assert "has never run: start it first" in refusal("--table", "orders")
    shop.postgresql(f"INSERT INTO {shop.name}.orders VALUES (1, 1)")
    assert f"{shop.name}.orders has rows already" in refusal("--table", "orders")
    shop.postgresql(f"DROP TABLE {shop.name}.orders")
    assert "cdcbus schema apply makes it" in refusal("--table", "orders")
    assert "has no such table" in refusal("--table", "nothing")


def test_a_task_that_reads_some_partitions_of_its_topic_is_refused(shop: Shop) -> None:
    shop.create("orders", ORDERS)
    fetch = followed(shop, loader__source__createTopic="2:1")
    answer = run(shop.load("postgresql", consumer__source__partition="1"), fetch)
    assert answer.code == 1, answer.told
    assert f"leaves out partition 0 of topic {shop.name} " in answer.found["error"]


def test_a_table_that_the_user_may_not_read_is_not_left_out(shop: Shop) -> None:
    shop.create("orders", "id INT PRIMARY KEY")
    shop.create("parts", "id INT PRIMARY KEY")
    grants = (
        "REPLICATION SLAVE, REPLICATION CLIENT ON *.*",
        f"SELECT ON {shop.name}.orders",
        f"INSERT ON {shop.name}.parts",
    )
    with user(shop, *grants) as keys:
        fetch, load = shop.fetch(source_of(shop), **keys), shop.load("postgresql")
        whole = run(load, fetch)
        assert whole.code == 1
        assert f"source table {shop.name}.parts is there and belongs" in whole.found["error"]
        assert "has never run" in run(load, fetch, "--table", "orders").found["error"]
        compared = verify_still(shop, "postgresql")
        assert compared.code == 2
        results = {each["table"]: each["result"] for each in compared.tables}
        assert results == {f"{shop.name}.orders": "equal", f"{shop.name}.parts": "error"}
        shop.cursor.execute("DROP TABLE parts")
        assert verify_still(shop, "postgresql").code == 0
