"""A node that verifies its tasks by schedule, on real servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from cdcbus.ops.stack.addresses import free_port
from cdcbus.plugins.task_status import State
from cdcbus.tasks.verify.last import Begun, LastVerify, VerifyNodes
from tests.support.changes.shop import Shop
from tests.support.processes.bus import Bus, open_bus
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    monkeypatch.setenv("SOURCE_PASSWORD", shop.addresses.source.password)
    monkeypatch.setenv("TARGET_PASSWORD", shop.addresses.postgresql.password)
    folder = tmp_path / "bus"
    folder.mkdir()
    with open_bus(
        shop.addresses.zookeeper, shop.name, folder, CDCBUS_ALARM_HOLDSECONDS="0"
    ) as opened:
        yield opened


def test_a_node_verifies_tells_of_differences_and_that_they_are_over(bus: Bus, shop: Shop) -> None:
    """More than 20 s: four verifies of a node, which looks every few seconds at what is due, each
    told as an alarm."""
    shop.create("orders", "id INT PRIMARY KEY, n INT")
    shop.create("kept", "id INT PRIMARY KEY, cost INT", "id INT PRIMARY KEY, cost MONEY")
    fetch = shop.fetch(shop.addresses.source, consumer__source__password="${env:SOURCE_PASSWORD}")
    load = shop.load(
        "postgresql",
        loader__source__password="${env:TARGET_PASSWORD}",
        verify__schedule="1h",
    )
    for task in (fetch, load):
        bus.load(task.file.read_text())
    port = free_port(set())
    bus.node("n1", CDCBUS_HTTP_BIND=f"127.0.0.1:{port}")

    def is_working(task_id: str) -> bool:
        return bus.status(task_id).state is State.WORKING

    for task in (fetch, load):
        bus("task", "start", task.task_id)
        wait_until(partial(is_working, task.task_id), "a task at work")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3)")

    def copied() -> int:
        return len(shop.postgresql(f"SELECT id FROM {shop.name}.orders"))

    wait_until(lambda: copied() == 3, "the rows")
    shop.postgresql(f"DELETE FROM {shop.name}.orders WHERE id = 2")
    nodes, task_id = VerifyNodes(bus.client), load.task_id
    wait_until(lambda: nodes.begun(task_id) is not None, "the schedule's beginning")

    def verified(is_it: Callable[[LastVerify], bool]) -> bool:
        last = nodes.last(task_id)
        return last is not None and is_it(last)

    def alarms() -> set[str]:
        listed = bus.json("alarm", "list")
        return {each["rule"] for task in listed for each in task["alarms"]} & {
            "unequal",
            "unverified",
        }

    def is_over() -> bool:
        begun = nodes.begun(task_id)
        return begun is not None and begun.is_over

    def is_due() -> None:
        # The node notes the end of a verify after its result is there.
        wait_until(is_over, "the end of the verify before")
        nodes.put_begun(task_id, Begun(time.time() - 7200))

    is_due()
    wait_until(lambda: verified(lambda last: last.word == "different"), "the verify")
    wait_until(lambda: alarms() == {"unequal"}, "the alarm")
    shown = bus("verify", task_id, "--last", code=1).stdout
    assert f"{shop.name}.orders: different, 1 rows, since" in shown
    left_out = f"columns not compared: {shop.name}.kept.cost"
    assert left_out in shown
    status = bus("task", "status", task_id).stdout
    assert "verify by node n1" in status and left_out in status
    assert bus.json("task", "status", task_id)["verify"]["results"] == {"different": 1, "equal": 1}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as web:
        metrics = web.get("/metrics").text
        assert f'cdcbus_task_unequal_tables{{task="{task_id}"}} 1.0' in metrics
        page = web.get(f"/tasks/{task_id}").text
        assert "Last verify" in page
        assert f"{shop.name}.orders" in page.partition("Last verify")[2]
        assert left_out in page
        told = web.get(f"/api/tasks/{task_id}").json()["verify"]
        assert (told["result"], told["left_out"]) == ("different", [f"{shop.name}.kept.cost"])

    shop.postgresql(f"ALTER TABLE {shop.name}.orders RENAME TO away")
    is_due()
    wait_until(lambda: verified(lambda last: bool(last.unproved)), "the verify without it")
    wait_until(lambda: alarms() == {"unequal", "unverified"}, "both alarms")
    shop.postgresql(f"ALTER TABLE {shop.name}.away RENAME TO orders")

    bus("verify", task_id, "--repair", "--yes")
    assert copied() == 3
    wait_until(lambda: alarms() == set(), "the alarms' end")

    shop.postgresql(f"DELETE FROM {shop.name}.orders WHERE id = 3")
    bus.nodes["n1"].kill()  # while it verifies or before, the next one begins it again
    nodes.put_begun(task_id, Begun(time.time(), "now", "n1", is_over=False))
    bus.node("n2")
    wait_until(
        lambda: verified(lambda last: last.word == "different" and last.by == "node n2"),
        "the verify of another node",
    )
