"""Whole tasks as an operator runs them: `cdcbus task run`, real servers on both ends."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.demo.measure import is_at_least
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.kafka.partitioner import partition_of
from cdcbus.plugins.positions import (
    BinlogPosition,
    KafkaPosition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from tests.support.changes.shop import Shop
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 3
LATEST = {"consumer__source__firstConsumeFrom": "latest"}


def start_fetch(shop: Shop, **keys: str) -> TaskProcess:
    fetch = shop.fetch(shop.addresses.source, **keys)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    return fetch


def wait_applied(shop: Shop, fetch: TaskProcess, *loads: TaskProcess) -> None:
    """Everything committed at the source so far is at the end of the topic, and everything there
    has been applied."""
    shop.cursor.execute("SHOW MASTER STATUS")
    [(file, end, *_)] = shop.cursor.fetchall()
    committed = BinlogPosition(file, end)
    wait_until(
        lambda: is_at_least(BinlogPosition.from_json(shop.position(fetch) or ""), committed),
        "the fetch task to read everything",
    )
    wait_until(lambda: all(map(shop.is_applied, loads)), "the consumer tasks to apply everything")


def change_rows(cursor: Cursor, seed: int) -> None:
    """Inserts, updates, key changes, deletes, in transactions of several rows."""
    choose = random.Random(seed)
    for number in range(60):
        cursor.execute("BEGIN")
        for row in range(choose.randint(1, 5)):
            cells = (number * 10 + row, f"n{number} 😀 '\"\\", row + 0.5)
            cursor.execute("INSERT INTO orders (id, name, amount) VALUES (%s, %s, %s)", cells)
        cursor.execute(
            "UPDATE orders SET amount = amount + 1, name = NULL WHERE id %% 7 = %s",
            (choose.randrange(7),),
        )
        cursor.execute(
            "UPDATE orders SET id = id + 100000 WHERE id = %s",
            (choose.randrange(number * 10 + 10),),
        )
        cursor.execute("DELETE FROM orders WHERE id = %s", (choose.randrange(number * 10 + 10),))
        cursor.execute("COMMIT")


def beginning(shop: Shop) -> bytes:
    """A position before everything."""
    return kafka_positions_to_json(
        KafkaPosition(shop.name, partition, -1) for partition in range(3)
    ).encode()


ORDERS = "id INT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(12,2)"


@pytest.mark.parametrize("ogg", ["false", "true"])
def test_changed_rows_arrive_in_both_targets(shop: Shop, ogg: str) -> None:
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop, loader__source__oggJson=ogg)
    converter = "oggJson" if ogg == "true" else "canalRow"
    loads = [
        shop.load(target, consumer__converter=converter) for target in ("postgresql", "mariadb")
    ]
    for load in loads:
        load.start()
    change_rows(shop.cursor, 1)
    wait_applied(shop, fetch, *loads)
    rows = shop.rows("orders")
    assert len(rows["source"]) > 50
    assert rows["mariadb"] == rows["source"]
    assert rows["postgresql"] == rows["source"]
    for task in (fetch, *loads):
        task.ask_to_stop()
    assert [task.await_stop() for task in (fetch, *loads)] == [0, 0, 0]
    assert not any("Traceback" in task.log.read_text() for task in (fetch, *loads))


def test_the_first_row_of_fifty_partitions_comes_long_before_five_minutes(
    shop: Shop, make_topic: Callable[..., str]
) -> None:
    """Within two, however busy the machine is: it takes seconds on one that is not."""
    shop.create("orders", ORDERS)
    topic = make_topic(f"{shop.name}-fifty", 50)
    fetch = start_fetch(shop, loader__source__topic=topic)
    shop.cursor.execute("INSERT INTO orders VALUES (1, 'first', 0.5)")
    wait_until(lambda: sum(shop.ends(topic).values()) == 1, "the row in Kafka")
    shop.load("postgresql", consumer__source__topics=topic).start()
    wait_until(lambda: len(shop.rows("orders")["postgresql"]) == 1, "the row at the target")
    fetch.check()


def test_a_stop_stores_the_position_and_one_set_by_hand_is_read_from_while_running_and_at_the_next_start(
    shop: Shop,
) -> None:
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    load = shop.load("postgresql")
    load.start()
    change_rows(shop.cursor, 2)
    wait_applied(shop, fetch, load)
    shop.postgresql(f"DELETE FROM {shop.name}.orders")
    shop.zookeeper.set(shop.path(load), beginning(shop))
    wait_until(
        lambda: "set by somebody else" in load.log.read_text(), "the task to notice the edit"
    )
    wait_until(lambda: shop.is_applied(load), "the replay while running")
    assert shop.rows("orders")["postgresql"] == shop.rows("orders")["source"]

    shop.cursor.execute("INSERT INTO orders (id, name) VALUES (-1, 'last')")
    wait_until(
        lambda: shop.postgresql(f"SELECT id FROM {shop.name}.orders WHERE id = -1") != [],
        "the last row",
    )
    load.ask_to_stop()
    assert load.await_stop() == 0
    assert shop.is_applied(load)
    shop.postgresql(f"DELETE FROM {shop.name}.orders")
    shop.zookeeper.set(shop.path(load), beginning(shop))
    load.start()
    wait_until(lambda: shop.is_applied(load), "the replay at the next start")
    assert shop.rows("orders")["postgresql"] == shop.rows("orders")["source"]


def replayed(shop: Shop, offsets: str, partition: int) -> tuple[int, TaskProcess]:
    """A task that replays these offsets, after its end, and its exit code."""
    load = shop.load(
        "postgresql", consumer__offset=offsets, consumer__source__partition=str(partition)
    )
    load.start()
    assert load._process is not None
    return load._process.wait(60), load


def test_a_bounded_replay_ends_by_itself(shop: Shop) -> None:
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    for number in range(40):
        shop.cursor.execute("INSERT INTO orders (id, name) VALUES (%s, 'x')", (number,))
    wait_applied(shop, fetch)
    partition, end = max(shop.ends().items(), key=lambda item: item[1])
    code, load = replayed(shop, f"2-{end - 3}", partition)
    assert code == 0
    assert f'"offset":{end - 3},"partition":{partition}' in (shop.position(load) or "")
    assert len(shop.rows("orders")["postgresql"]) == end - 4


def test_a_replay_of_records_before_or_beyond_the_position_is_refused(shop: Shop) -> None:
    """It would apply what it does not name, or nothing at all."""
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    for number in range(60):
        shop.cursor.execute("INSERT INTO orders (id, name) VALUES (%s, 'x')", (number,))
    wait_applied(shop, fetch)
    partition, _ = max(shop.ends().items(), key=lambda item: item[1])
    for offsets in ("2-5", "2-5", "4-8"):
        code, _ = replayed(shop, offsets, partition)
        assert code == 0
    for offsets in ("2-5", "11-13"):
        code, load = replayed(shop, offsets, partition)
        assert code == 1
        reason = f"is to replay {offsets} of {shop.name}[{partition}], and resumes at 9 there"
        assert reason in load.log.read_text()
    assert len(shop.rows("orders")["postgresql"]) == 7


def test_a_bounded_replay_goes_on_while_one_partition_has_reached_its_end_and_has_more(
    shop: Shop,
) -> None:
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    in_partition: list[list[int]] = [[], [], []]
    for number in range(40_000):
        in_partition[partition_of(f"{number}_".encode(), 3)].append(number)
    ids = [*in_partition[0][:10_000], *in_partition[1][:400], *in_partition[2][:400]]
    shop.cursor.executemany("INSERT INTO orders VALUES (%s, 'x', 1)", [(number,) for number in ids])
    wait_applied(shop, fetch)
    load = shop.load(
        "postgresql", consumer__offset="0-199", consumer__source__maxRecordsPerBatch="20"
    )
    load.start()
    assert load._process is not None
    assert load._process.wait(120) == 0, load.log.read_text()
    assert kafka_positions_from_json(shop.position(load) or "") == [
        KafkaPosition(shop.name, partition, 199) for partition in range(3)
    ]
    assert [row[0] for row in shop.rows("orders")["postgresql"]] == sorted(
        number for numbers in in_partition for number in numbers[:200]
    )


def test_chosen_partitions_are_read_and_no_others(shop: Shop) -> None:
    shop.create("orders", ORDERS)
    fetch, load = start_fetch(shop), shop.load("postgresql", consumer__source__partition=" 2, 0 ")

    def insert(begin: int, end: int) -> None:
        shop.cursor.executemany(
            "INSERT INTO orders (id, name) VALUES (%s, 'x')",
            [(number,) for number in range(begin, end)],
        )
        wait_applied(shop, fetch)

    def position_at_ends() -> str:
        ends = shop.ends()
        return kafka_positions_to_json(
            KafkaPosition(shop.name, partition, ends[partition] - 1) for partition in (0, 2)
        )

    def applied_in(*partitions: int) -> bool:
        rows = shop.rows("orders")
        ids = []
        for number, *_ in rows["source"]:
            if partition_of(f"{number}_".encode(), 3) in partitions:
                ids.append(number)
        return [number for number, *_ in rows["postgresql"]] == ids

    insert(0, 40)
    load.start()
    wait_until(lambda: shop.position(load) == position_at_ends(), "the first rows")
    assert applied_in(0, 2)
    shop.postgresql(f"DELETE FROM {shop.name}.orders")
    before = kafka_positions_to_json(
        KafkaPosition(shop.name, partition, -1) for partition in (0, 2)
    )
    shop.zookeeper.set(shop.path(load), before.encode())
    wait_until(
        lambda: "set by somebody else" in load.log.read_text(), "the task to notice the edit"
    )
    wait_until(lambda: shop.position(load) == position_at_ends(), "the replay")
    assert applied_in(0, 2)
    load.ask_to_stop()
    assert load.await_stop() == 0
    insert(40, 80)
    load.start()
    wait_until(lambda: shop.position(load) == position_at_ends(), "the rows that came meanwhile")
    assert applied_in(0, 2)
    bus = CliRunner(env={"CDCBUS_ZOOKEEPER": shop.addresses.zookeeper})
    lags = json.loads(bus.invoke(main, ["topic", "lag", str(load.file), "--json"]).stdout)
    assert [(lag["partition"], lag["records"]) for lag in lags] == [(0, 0), (2, 0)]

    other = shop.load("mariadb", consumer__source__partition="0,3,7")
    other.start()
    assert other._process is not None
    assert other._process.wait(60) == 1
    assert (
        f"consumer.source.partition: topic {shop.name} has no partition 3, 7, only 0 to 2"
        in other.log.read_text()
    )


def test_a_value_of_a_second_unique_key_may_move_between_rows_in_one_batch(shop: Shop) -> None:
    shop.create("places", "id INT PRIMARY KEY, place INT UNIQUE, note VARCHAR(10)")
    for number in range(10):
        shop.cursor.execute("INSERT INTO places VALUES (%s, %s, 'old')", (number, number))
        shop.mariadb(f"INSERT INTO {shop.name}.places VALUES ({number}, {number}, 'old')")
        shop.postgresql(f"INSERT INTO {shop.name}.places VALUES ({number}, {number}, 'old')")
    table = f"{shop.name}.places".upper()
    fetch = start_fetch(
        shop, **{f"loader__source__partitionKey__{table.replace('.', '__')}": "NOTE"}
    )
    shop.cursor.execute("BEGIN")
    for number in range(9):  # what row 0 had wanders to row 9, the others move up
        shop.cursor.execute("UPDATE places SET place = -1 WHERE id = %s", (number,))
        shop.cursor.execute("UPDATE places SET place = 0 WHERE id = %s", (number + 1,))
        shop.cursor.execute("UPDATE places SET place = %s WHERE id = %s", (number + 1, number))
    shop.cursor.execute("COMMIT")
    loads = [shop.load("postgresql"), shop.load("mariadb")]
    for load in loads:
        load.start()
    wait_applied(shop, fetch, *loads)
    rows = shop.rows("places")
    assert rows["mariadb"] == rows["postgresql"] == rows["source"]
    assert rows["source"][0] == (0, 1, "old")

    for load in loads:  # all of it once more: old rows ask for values that newer ones hold
        shop.zookeeper.set(shop.path(load), beginning(shop))
        wait_until(
            lambda load=load: "set by somebody else" in load.log.read_text(),  # type: ignore[misc]
            "the task to notice the edit",
        )
    wait_applied(shop, fetch, *loads)
    rows = shop.rows("places")
    assert rows["mariadb"] == rows["postgresql"] == rows["source"]


def test_broken_connections_to_the_target_cost_nothing(shop: Shop) -> None:
    shop.create("orders", ORDERS)
    fetch, load = start_fetch(shop), shop.load("postgresql")
    load.start()
    change_rows(shop.cursor, 3)
    wait_applied(shop, fetch, load)
    assert shop.postgresql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
        "usename = current_user"
    )
    shop.cursor.execute("INSERT INTO orders (id, name) VALUES (-1, 'after')")
    wait_applied(shop, fetch, load)
    assert shop.rows("orders")["postgresql"] == shop.rows("orders")["source"]


def test_the_one_row_among_twenty_thousand_that_the_target_refuses_becomes_a_letter(
    shop: Shop,
) -> None:
    shop.create("orders", ORDERS, ORDERS.replace("40", "5"))
    fetch = start_fetch(shop)
    names = ["long is wrong" if number == 7_777 else "short" for number in range(20_000)]
    shop.cursor.executemany("INSERT INTO orders VALUES (%s, %s, 1)", list(enumerate(names)))
    wait_applied(shop, fetch)
    load = shop.load(
        "postgresql", loader__onError="deadletter", loader__deadletterTopic=f"{shop.name}-dead"
    )
    load.start()
    wait_applied(shop, fetch, load)
    rows = shop.rows("orders")
    assert rows["postgresql"] == [row for row in rows["source"] if row[0] != 7_777]
    listed = CliRunner(env={"CDCBUS_ZOOKEEPER": shop.addresses.zookeeper}).invoke(
        main, ["dlq", "list", str(load.file), "--json"]
    )
    [dead_letter] = json.loads(listed.output)
    assert "value too long for type character varying(5)" in dead_letter["reason"]


def test_a_target_restored_to_an_older_state_has_all_rows_again_and_an_alarm_tells_of_it(
    shop: Shop,
) -> None:
    """Two starts of Spark take their time."""
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    load = shop.load("postgresql")
    load.start()
    for number in range(20):
        shop.cursor.execute("INSERT INTO orders (id, name) VALUES (%s, 'x')", (number,))
    wait_applied(shop, fetch, load)
    # which is in the schema public, where other tasks have theirs
    for table in ("orders", "cdcbus_position"):
        shop.postgresql(
            f"CREATE TABLE {shop.name}.kept_{table} AS SELECT * FROM "
            f"{shop.name if table == 'orders' else 'public'}.{table}"
        )
    for number in range(20, 60):
        shop.cursor.execute("INSERT INTO orders (id, name) VALUES (%s, 'x')", (number,))
    wait_applied(shop, fetch, load)
    load.ask_to_stop()
    assert load.await_stop() == 0
    shop.postgresql(
        f"DELETE FROM {shop.name}.orders WHERE id NOT IN (SELECT id FROM {shop.name}.kept_orders)"
    )
    own = f"task = '{load.task_id}'"
    shop.postgresql(f"DELETE FROM public.cdcbus_position WHERE {own}")
    shop.postgresql(
        f"INSERT INTO public.cdcbus_position SELECT * FROM {shop.name}.kept_cdcbus_position WHERE "
        f"{own}"
    )
    load.start()
    wait_until(lambda: len(shop.rows("orders")["postgresql"]) == 60, "the rows that were lost")
    assert "the target has lost commits, as after a restore" in load.log.read_text()
    stat = f"/datas/task/{load.task_id}/stat"
    wait_until(
        lambda: (
            "the task knows that it had"
            in json.loads(shop.zookeeper.get(stat)[0]).get("targetLost", "")
        ),
        "nodes to be told",
    )


def test_a_target_table_made_anew_between_two_runs_is_told_of(shop: Shop) -> None:
    """Rows that it had do not come again: the position is beyond them."""
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    load = shop.load("postgresql")
    for number in range(2):
        load.start()
        shop.cursor.execute("INSERT INTO orders (id, name) VALUES (%s, 'x')", (number,))
        wait_applied(shop, fetch, load)
        assert "made anew" not in load.log.read_text()
        load.ask_to_stop()
        assert load.await_stop() == 0
    shop.postgresql(f"DROP TABLE {shop.name}.orders")
    shop.postgresql(f"CREATE TABLE {shop.name}.orders ({ORDERS})")
    load.start()
    stat = f"/datas/task/{load.task_id}/stat"
    wait_until(
        lambda: (
            f"target table {shop.name}.orders is another one than before"
            in json.loads(shop.zookeeper.get(stat)[0]).get("targetLost", "")
        ),
        "nodes to be told",
    )
    assert f"compare by cdcbus verify {load.task_id}" in load.log.read_text()


def test_another_default_schema_stops_a_task_and_is_named_until_it_is_set_back(shop: Shop) -> None:
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    load = shop.load("postgresql")
    load.start()
    shop.cursor.execute("INSERT INTO orders (id, name) VALUES (1, 'x')")
    wait_applied(shop, fetch, load)
    load.ask_to_stop()
    assert load.await_stop() == 0
    at = shop.addresses.postgresql
    url = f"jdbc:postgresql://{at.host}:{at.port}/{at.database}"
    elsewhere = shop.load("postgresql", loader__source__url=f"{url}?currentSchema={shop.name}")
    elsewhere.start()
    assert elsewhere.await_stop() == 1
    assert "or is looked for in another schema, as the default one" in elsewhere.log.read_text()
    load = shop.load("postgresql")
    load.start()
    shop.cursor.execute("INSERT INTO orders (id, name) VALUES (2, 'x')")
    wait_applied(shop, fetch, load)
    assert len(shop.rows("orders")["postgresql"]) == 2


def test_partitions_that_are_left_out_and_topics_that_are_new_are_told_of(
    shop: Shop, make_topic: Callable[..., str]
) -> None:
    """Neither brings an error, and rows of both can be missing."""
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    insert = "INSERT INTO orders (id, name) VALUES (%s, 'x')"
    shop.cursor.executemany(insert, [(number,) for number in range(20)])
    load = shop.load("postgresql")
    load.start()
    wait_applied(shop, fetch, load)
    other = make_topic(f"{shop.name}-other")
    producer = kafka_producer(shop.addresses.kafka)
    producer.produce(other, b"it is not read")
    producer.flush()
    left_out = f"does not read {shop.name}[2] any more, by consumer.source.topics and"
    new = f"{other}[0] is new to it and begins at offset 1, by the rule for a first start"
    for keys, told in (
        ({"consumer__source__partition": "0,1"}, left_out),
        ({"consumer__source__topics": f"{shop.name},{other}"}, new),
    ):
        load.ask_to_stop()
        assert load.await_stop() == 0
        load = shop.load("postgresql", **{**LATEST, **keys})
        load.start()
        wait_until(lambda: told in load.log.read_text(), told)
    assert "rows before it were taken, or left out" not in load.log.read_text()
    shop.cursor.executemany(insert, [(number,) for number in range(20, 40)])
    wait_applied(shop, fetch, load)
    assert len(shop.rows("orders")["postgresql"]) == 40


def test_a_task_whose_topics_are_all_other_ones_is_not_taken_for_a_new_one(
    shop: Shop, make_topic: Callable[..., str]
) -> None:
    """What it has not read of the former topic never comes, and what the new one holds is left
    out by the start rule."""
    shop.create("orders", ORDERS)
    fetch = start_fetch(shop)
    shop.cursor.execute("INSERT INTO orders (id, name) VALUES (1, 'x')")
    load = shop.load("postgresql")
    load.start()
    wait_until(lambda: bool(shop.rows("orders")["postgresql"]), "the row")
    other = make_topic(f"{shop.name}-other")
    producer = kafka_producer(shop.addresses.kafka)
    producer.produce(other, b"it is not read", partition=0)
    producer.flush()
    load.ask_to_stop()
    assert load.await_stop() == 0
    fetch.ask_to_stop()
    for is_first in (True, False):
        load = shop.load("postgresql", **LATEST, consumer__source__topics=other)
        before = len(load.log.read_text())
        load.start()
        wait_until(lambda: f" reads {other}" in load.log.read_text()[before:], "it to read")
        told = load.log.read_text()[before:]
        assert (f"does not read {shop.name}" in told) is is_first
        assert (f"{other}[0] is new to it and begins at offset 1, by the" in told) is is_first
        load.ask_to_stop()
        assert load.await_stop() == 0


def test_a_start_with_another_filter_tells_of_the_rows_that_passed_by_the_former_one(
    shop: Shop,
) -> None:
    """They never reach the target, and no error tells of that."""
    shop.create("orders", ORDERS)
    shop.create("late", ORDERS)
    without = f"{shop.name}.late".upper()
    start_fetch(shop).ask_to_stop()
    told = "rows before it were taken, or left out, by the former value"
    for number, excludes in enumerate((without, f"{shop.name}.other".upper())):
        fetch = start_fetch(shop, consumer__excludes=excludes)
        load = shop.load("postgresql", consumer__excludes=excludes)
        load.start()
        shop.cursor.execute("INSERT INTO orders (id, name) VALUES (%s, 'x')", (number,))
        shop.cursor.execute("INSERT INTO late (id, name) VALUES (%s, 'x')", (number,))
        wait_applied(shop, fetch, load)
        for task in (fetch, load):
            task.ask_to_stop()
            assert task.await_stop() == 0
    assert len(shop.rows("late")["postgresql"]) == 1
    for task in (fetch, load):
        assert f"with another value of consumer.excludes than it had up to there: {told}" in (
            task.log.read_text()
        )


# `cdcbus task run`, but that the topics' ids are looked at every second.
WATCHFUL = """
from cdcbus.consumer.offsets import topic_identity
from cdcbus.ops.cli.main import main

topic_identity.LOOK_SECONDS = 1.0
main()
"""


def test_a_topic_made_anew_under_a_running_task_stops_it(
    shop: Shop, kafka: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A start of Spark takes its time."""
    load = shop.load("postgresql")
    words = [
        sys.executable,
        "-c",
        WATCHFUL,
        "task",
        "run",
        str(load.file),
        "--zookeeper",
        shop.addresses.zookeeper,
    ]
    with (tmp_path / "watchful.log").open("wb") as printed:
        task = subprocess.Popen(
            words, stdout=printed, stderr=printed, cwd=tmp_path, start_new_session=True
        )
        try:
            wait_until(lambda: shop.position(load) is not None, "the task's first position")
            admin = AdminClient({"bootstrap.servers": kafka})
            admin.delete_topics([shop.name])[shop.name].result(30)
            wait_until(
                lambda: shop.name not in admin.list_topics(timeout=10).topics, "the topic to go"
            )
            make_topic(shop.name, 3)
            assert task.wait(120) == 1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(task.pid, signal.SIGKILL)
            task.wait()
    said = (tmp_path / "watchful.log").read_text()
    assert "was deleted and created again" in said
    assert f"cdcbus offset reset {load.task_id} --to PLACE --topic {shop.name}" in said.replace(
        "\n", " "
    )
