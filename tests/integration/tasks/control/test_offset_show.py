"""`cdcbus offset show` on a real ZooKeeper."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions

pytestmark = pytest.mark.integration

STORED = {
    "orders": '[{"offset":41,"partition":0,"positionKey":"orders_0","topic":"orders"},{"offset":-1,"partition":1,"topic":"orders"}]',
    "shop": '{"batchId":1,"logfileName":"mysql-bin.000501","offset":4,"timestamp":1700000000000,"gtid":"0-1-100"}',
}


@pytest.fixture
def show(zookeeper: str, name: str) -> Iterator[Callable[..., Result]]:
    """Stores the positions of a new task, shows them."""
    client = connect(f"{zookeeper}/{name}")

    def call(stored: dict[str, str], *options: str) -> Result:
        for swimlane, text in stored.items():
            store = ZooKeeperPositions(client, "1484", swimlane)
            store.load()
            store.save(text)
        return CliRunner().invoke(
            main, ["offset", "show", "1484", "--zookeeper", f"{zookeeper}/{name}", *options]
        )

    yield call
    client.stop()
    client.close()


def test_each_swimlane_is_shown_as_stored_and_in_words(show: Callable[..., Result]) -> None:
    result = show(STORED)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "/datas/task/1484/position/orders",
        f"  {STORED['orders']}",
        "  orders[0] done up to 41, next 42; orders[1] done up to -1, next 0",
        "/datas/task/1484/position/shop",
        f"  {STORED['shop']}",
        "  reading continues at byte 4 of mysql-bin.000501, committed 2023-11-14 22:13:20 UTC, GTID "
        "0-1-100",
    ]


def test_as_json(show: Callable[..., Result]) -> None:
    result = show(STORED, "--json")
    assert [(swimlane["path"], swimlane["stored"]) for swimlane in json.loads(result.stdout)] == [
        (f"/datas/task/1484/position/{swimlane}", text) for swimlane, text in STORED.items()
    ]


def test_a_position_that_cannot_be_used_exits_1_and_does_not_hide_the_others(
    show: Callable[..., Result],
) -> None:
    result = show(
        {
            "blank": " ",
            "broken": '{"offset":',
            "far": '{"logfileName":"f.1","offset":4,"timestamp":99999999999999999}',
        }
    )
    assert result.exit_code == 1
    assert "blank, as if deleted: only a first start goes by the task file" in result.stdout
    assert "unusable: not JSON" in result.stdout
    assert "at an invalid time" in result.stdout


def test_a_task_without_a_position_is_one_sentence(
    show: Callable[..., Result], zookeeper: str, name: str
) -> None:
    result = show({})
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        "task 1484 has no stored position: nothing is below /datas/task/1484/position at "
        f"{zookeeper}/{name};"
    )
