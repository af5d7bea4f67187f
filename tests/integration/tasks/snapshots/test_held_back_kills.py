"""A fetch task that is killed while it holds rows of a table without a key back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.positions import BinlogPosition
from tests.integration.producer.reading import is_at_least, position
from tests.support.changes.shop import Shop
from tests.support.changes.snapshot_story import status
from tests.support.topics.committed import committed_canal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def ask(shop: Shop, *words: str) -> Result:
    return CliRunner(env={"CDCBUS_ZOOKEEPER": shop.addresses.zookeeper}).invoke(
        main, ["snapshot", *words]
    )


def state(shop: Shop) -> str:
    return "".join(each["state"] for each in status(shop) if each["table"] == "log")


def numbers(shop: Shop) -> list[int]:
    records = committed_canal(shop.addresses.kafka, shop.name)
    return sorted(int(row["n"]) for record in records for row in record["data"])


def has_passed(shop: Shop, fetch: TaskProcess) -> Callable[[], bool]:
    """Whether the task has stored the end of the binlog as it is now."""
    end = position(shop.cursor)

    def is_there() -> bool:
        stored = shop.position(fetch)
        return stored is not None and is_at_least(BinlogPosition.from_json(stored), end)

    return is_there


@pytest.mark.parametrize("is_in_transactions", ["false", "true"])
def test_rows_that_are_held_back_when_the_task_is_killed_come_once(
    shop: Shop, is_in_transactions: str
) -> None:
    shop.cursor.execute("CREATE TABLE log (n INT)")
    shop.cursor.execute("INSERT INTO log VALUES (1)")
    fetch = shop.fetch(
        shop.addresses.source,
        consumer__snapshot="initial",
        loader__source__transaction=is_in_transactions,
    )
    fetch.start()
    wait_until(lambda: state(shop) == "done", f"the first snapshot: {fetch.log}")
    refused = ask(shop, "start", fetch.task_id)
    assert f"Kafka may have rows of {shop.name}.log already" in refused.output
    # As somebody does who has emptied the table at the targets.
    fetch.kill()
    assert ask(shop, "start", fetch.task_id, "--yes").exit_code == 0
    assert ask(shop, "pause", fetch.task_id).exit_code == 0
    fetch.start()
    wait_until(lambda: state(shop) == "paused", f"the pause: {fetch.log}")
    for number in (2, 3):
        shop.cursor.execute("INSERT INTO log VALUES (%s)", (number,))
        wait_until(has_passed(shop, fetch), f"the position to pass it: {fetch.log}")
        fetch.kill()
        shop.cursor.execute("INSERT INTO log VALUES (%s)", (10 * number,))
        fetch.start()
    wait_until(has_passed(shop, fetch), f"the position to pass all: {fetch.log}")
    assert numbers(shop) == [1]
    assert ask(shop, "resume", fetch.task_id).exit_code == 0
    wait_until(lambda: state(shop) == "done", f"the second snapshot: {fetch.log}")
    fetch.kill()
    shop.cursor.execute("INSERT INTO log VALUES (4)")
    fetch.start()
    wait_until(has_passed(shop, fetch), f"the last row: {fetch.log}")
    assert numbers(shop) == [1, 1, 2, 3, 4, 20, 30]
