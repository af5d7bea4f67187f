"""Whole tasks from Kafka to Kafka as an operator runs them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from cdcbus.plugins.positions import KafkaPosition, kafka_positions_to_json
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.clusters.spark_cluster import executors
from tests.support.topics.forward import Forward, open_forward
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
# a start of Spark takes minutes on a machine that has twenty times as much to do as it can
PATIENCE_SECONDS = 400


@pytest.fixture
def forward(
    name: str, kafka: str, zookeeper: str, make_topic: Callable[..., str], tmp_path: Path
) -> Iterator[Forward]:
    """From a topic with one partition to one with three."""
    make_topic(name)
    make_topic(f"{name}-out", 3)
    with open_forward(name, kafka, zookeeper, tmp_path) as forward:
        yield forward


def test_rows_are_filtered_renamed_rekeyed_and_spread_in_another_form_and_a_start_goes_on_behind_them(
    forward: Forward,
) -> None:
    forward.put(range(100))
    forward.put(range(1000, 1010), "secrets")
    task = forward.task(
        consumer__excludes="SHOP.SECRETS",
        loader__source__oggJson="true",
        loader__source__partitionKey__STORE__SALES="CLIENT",
        **{
            "mapper[0].schema": "shop,store",
            "mapper[0].table": "orders,sales",
            "mapper[0].ignore": "note",
        },
        **{"mapper[0].column.customer": "client"},
    )
    task.start()
    wait_until(
        lambda: forward.is_at_end(task), f"the task to reach the end: {task.log}", PATIENCE_SECONDS
    )
    forward.put(range(100, 150))
    wait_until(lambda: forward.is_at_end(task), f"the task to go on: {task.log}", PATIENCE_SECONDS)
    task.ask_to_stop()
    assert task.await_stop() == 0
    forward.put(range(150, 200))
    task.start()
    wait_until(
        lambda: forward.is_at_end(task),
        f"the task to go on after its stop: {task.log}",
        PATIENCE_SECONDS,
    )

    found = forward.sent()
    assert len({partition for partition, _, _ in found}) == 3
    assert {key: len({of for of, one, _ in found if one == key}) for _, key, _ in found} == {
        f"c{n}_".encode(): 1 for n in range(10)
    }
    for customer in range(10):
        order = [
            int(value["after"]["id"]) for _, key, value in found if key == f"c{customer}_".encode()
        ]
        assert order == [*range(customer, 200, 10)]
    assert {(value["table"], *value["primary_keys"], *value["after"]) for _, _, value in found} == {
        ("store.sales", "id", "id", "client")
    }
    assert {value["op_ts"] for _, _, value in found} == {
        f"1970-01-01 00:00:00.{number:03d}000" for number in range(200)
    }
    assert min(value["current_ts"] for _, _, value in found) > "2020"


@pytest.mark.parametrize("is_by_spark", [False, True])
def test_added_partitions_are_read_after_all_that_can_be_older(
    forward: Forward, is_by_spark: bool
) -> None:
    """Of two changes of a row the newer one can be in an added partition. More than 20 s: Spark starts,
    and has a batch for each hundred records."""
    forward.put(range(10))
    task = forward.task(
        loader__source__oggJson="false",
        loader__source__transaction=str(not is_by_spark).lower(),
        consumer__source__maxRecordsPerBatch="100",
    )
    if is_by_spark:
        task = with_eager_spark(task)
    task.start()
    wait_until(lambda: forward.is_at_end(task), f"the end: {task.log}", PATIENCE_SECONDS)
    task.ask_to_stop()
    assert task.await_stop() == 0
    forward.put(range(10, 4_000))
    admin = AdminClient({"bootstrap.servers": forward.kafka})
    [added] = admin.create_partitions([NewPartitions(forward.name, 2)]).values()
    added.result(30)
    # Those of odd customers come into the other partition.
    forward.put(range(4_000, 4_100), partitions=2)
    task.start()
    wait_until(lambda: len(forward.sent()) >= 4_100, f"all: {task.log}", PATIENCE_SECONDS)
    by_partition: dict[int, list[int]] = {}
    for partition, _, value in forward.sent():
        by_partition.setdefault(partition, []).append(int(value["data"][0]["id"]))
    assert len(by_partition) == 3
    for ids in by_partition.values():
        newer = [place for place, number in enumerate(ids) if number >= 4_000 and number % 2]
        older = [place for place, number in enumerate(ids) if number < 4_000]
        assert max(older) < min(newer)
    # Now both are known: nothing waits any more.
    forward.put(range(4_100, 4_110), partitions=2)
    wait_until(lambda: len(forward.sent()) >= 4_110, f"the rest: {task.log}", PATIENCE_SECONDS)


def test_a_position_that_an_operator_sets_wins_over_the_committed_one(forward: Forward) -> None:
    def set_position(next_offset: int) -> None:
        forward.zookeeper.set(
            forward.path,
            kafka_positions_to_json([KafkaPosition(forward.name, 0, next_offset - 1)]).encode(),
        )

    def has_twice(*numbers: int) -> bool:
        ids = [int(value["data"][0]["id"]) for _, _, value in forward.sent()]
        return sorted(ids) == sorted([*range(30), *numbers])

    forward.put(range(30))
    task = forward.task(loader__source__oggJson="false", loader__source__transaction="true")
    task.start()
    wait_until(
        lambda: forward.is_at_end(task), f"the task to reach the end: {task.log}", PATIENCE_SECONDS
    )
    wait_until(lambda: has_twice(), "all to be sent once")
    set_position(25)  # while it runs
    wait_until(
        lambda: has_twice(*range(25, 30)), f"the last five once more: {task.log}", PATIENCE_SECONDS
    )
    wait_until(
        lambda: forward.is_at_end(task),
        f"the task to reach the end again: {task.log}",
        PATIENCE_SECONDS,
    )
    task.kill()
    set_position(28)
    task.start()
    wait_until(
        lambda: has_twice(*range(25, 30), 28, 29),
        f"the last two once more: {task.log}",
        PATIENCE_SECONDS,
    )


def test_a_task_whose_transactions_were_off_for_a_while_sends_nothing_again(
    forward: Forward,
) -> None:
    """What was committed before that is older than ZooKeeper's position."""
    for end, transaction in ((30, "true"), (60, "false"), (90, "true")):
        forward.put(range(end - 30, end))
        task = forward.task(
            loader__source__oggJson="false", loader__source__transaction=transaction
        )
        task.start()
        wait_until(
            partial(forward.is_at_end, task),
            f"the task to reach the end: {task.log}",
            PATIENCE_SECONDS,
        )
        task.ask_to_stop()
        assert task.await_stop() == 0
    ids = [int(value["data"][0]["id"]) for _, _, value in forward.sent()]
    assert sorted(ids) == [*range(90)]
    assert "lost commits" not in task.log.read_text()


def test_each_change_is_sent_once_by_executors_of_which_one_is_killed_and_by_the_driver_in_turn(
    forward: Forward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of more than a hundred records go to executors, a hundred in each transaction. More
    than 20 s: executors and Spark start."""
    monkeypatch.setenv("SPARK_WORKER_DIR", str(forward.folder / "work"))
    forward.put(range(2_500))
    task = with_eager_spark(
        forward.task(
            consumer__source__maxRecordsPerBatch="100",
            loader__source__oggJson="false",
            loader__source__transaction="true",
            loader__source__partitionKey__SHOP__ORDERS="CUSTOMER",
            spark__master="local-cluster[1,1,640]",
            spark__executor__memory="640m",
        )
    )
    task.start()
    wait_until(lambda: forward.sent() != [], f"the first records: {task.log}", PATIENCE_SECONDS)
    os.kill(executors(task.pid)[0], signal.SIGKILL)
    # the driver's, executors', the driver's
    for numbers in (range(2_500, 2_510), range(2_510, 3_500), range(3_500, 3_510)):
        wait_until(
            lambda: forward.is_at_end(task),
            f"the task to reach the end: {task.log}",
            PATIENCE_SECONDS,
        )
        forward.put(numbers)
    wait_until(
        lambda: forward.is_at_end(task), f"the task to reach the end: {task.log}", PATIENCE_SECONDS
    )
    wait_until(lambda: len(forward.sent()) >= 3_510, "what was committed to be visible")
    task.ask_to_stop()
    assert task.await_stop() == 0
    found = [(key, int(value["data"][0]["id"])) for _, key, value in forward.sent()]
    assert sorted(number for _, number in found) == [*range(3_510)]
    assert sorted(forward.headers()) == [*range(1, 3_510, 2)]
    for customer in range(10):
        assert [number for key, number in found if key == f"c{customer}_".encode()] == [
            *range(customer, 3_510, 10)
        ]
    assert "Traceback" not in task.log.read_text()
