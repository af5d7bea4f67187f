"""`cdcbus snapshot` on a ZooKeeper in memory."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.commands import snapshot as command
from cdcbus.ops.cli.main import main
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState, Wish, WishKind
from cdcbus.tasks.snapshots.direct import DirectLoad, put_direct_load
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots, snapshot_path, wishes_of
from tests.unit.ops.cli.runs import in_memory

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")
HALF = TableProgress(
    TableState.RUNNING, 5_000, 3_000_000, 1, 10_000, started_ms=1_000, updated_ms=6_000
)


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = in_memory(monkeypatch, command)
    found.put("/datas/task/7/position/lane", {"journalName": "bin.000001", "position": 4})
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["snapshot", *words])


@pytest.mark.parametrize("kind", WishKind)
def test_each_command_asks_for_what_it_is_called(zookeeper: Any, kind: WishKind) -> None:
    done = run(kind, "7", "--table", "shop.orders", "--table", "shop.items")
    assert (done.exit_code, done.output.count("\n")) == (0, 1)
    assert f"snapshot {kind} of shop.orders, shop.items is ordered" in done.output
    wishes = wishes_of(zookeeper, snapshot_path("7", "lane")).values()
    assert list(wishes) == [Wish(kind, ("shop.orders", "shop.items"))]


def test_scripts_are_told_what_was_asked_and_whether_the_task_runs(zookeeper: Any) -> None:
    done = run("start", "7", "--table", "shop.orders", "--where", "id > 5", "--json")
    assert json.loads(done.output) == {
        "task": "7",
        "kind": "start",
        "tables": ["shop.orders"],
        "where": "id > 5",
        "confirmed": False,
        "isRunning": False,
    }


def test_a_condition_without_a_table_is_refused_and_nothing_is_asked(zookeeper: Any) -> None:
    refused = run("start", "7", "--where", "id > 5")
    assert refused.exit_code == 1
    assert "name it with --table SCHEMA.TABLE" in refused.output
    assert zookeeper.asked == []


def test_the_status_shows_how_far_each_table_is_and_what_is_not_seen_yet(zookeeper: Any) -> None:
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: HALF, ITEMS: TableProgress()})
    run("pause", "7")
    shown = run("status", "7")
    assert shown.exit_code == 0
    (line,) = [each for each in shown.output.splitlines() if each.startswith("shop.orders")]
    assert line.split() == [
        *("shop.orders", "running", "50%", "5,000", "10,000", "3.0", "1,000", "5", "s", "-"),
    ]
    assert "ordered, and not seen by the task yet: pause all tables" in shown.output
    one = run("status", "7", "--table", "SHOP.items")
    assert "shop.items" in one.output
    assert "shop.orders" not in one.output


def test_the_status_of_a_failed_table_says_why_and_ends_with_1(zookeeper: Any) -> None:
    failed = TableProgress(TableState.FAILED, reason="too busy")
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: failed, ITEMS: HALF})
    shown = run("status", "7")
    assert (shown.exit_code, "too busy" in shown.output) == (1, True)
    assert run("status", "7", "--table", "shop.items").exit_code == 0
    as_json = run("status", "7", "--json")
    assert as_json.exit_code == 1
    tables = json.loads(as_json.output)["tables"]
    assert [(each["table"], each["state"]) for each in tables] == [
        ("items", "running"),
        ("orders", "failed"),
    ]


def test_the_status_of_a_table_that_is_read_by_a_condition_says_so(zookeeper: Any) -> None:
    part = TableProgress(TableState.DONE, 5, where="id > 5", reason="it is over")
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: part})
    shown = run("status", "7")
    assert shown.output.splitlines()[-1].endswith("only rows with id > 5; it is over")


def test_a_task_without_snapshots_says_so(zookeeper: Any) -> None:
    shown = run("status", "7")
    assert (shown.exit_code, shown.output) == (0, "task 7 has no snapshots\n")


def test_a_table_without_a_snapshot_is_named(zookeeper: Any) -> None:
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: HALF})
    shown = run("status", "7", "--table", "SHOP.orders", "--table", "shop.typo")
    assert "task 7 has no snapshot of shop.typo: none was started" in shown.output
    assert "shop.orders" in shown.output.splitlines()[-1]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert command._bar(0.5) == "█" * 10 + "░" * 10


def test_a_start_asks_where_rows_without_a_key_would_come_twice(zookeeper: Any) -> None:
    done = TableProgress(TableState.DONE, 5, is_keyless=True)
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: done})
    refused = run("start", "7")
    assert refused.exit_code == 130
    assert "Kafka may have rows of shop.orders already" in refused.output
    assert "unless the table is emptied there first. Start it all the same? [y/N]" in refused.output
    path = snapshot_path("7", "lane")
    assert not wishes_of(zookeeper, path)
    assert run("start", "7", "--yes").exit_code == 0
    assert list(wishes_of(zookeeper, path).values()) == [Wish(WishKind.START, is_confirmed=True)]
    assert run("start", "7", "--table", "shop.items").exit_code == 0


def test_a_direct_load_is_given_up_only_by_a_yes(zookeeper: Any) -> None:
    put_direct_load(zookeeper, "7", DirectLoad({}))
    ZooKeeperSnapshots(zookeeper, "7", "direct").save({ORDERS: HALF})
    before = zookeeper.texts()
    refused = CliRunner().invoke(main, ["snapshot", "stop", "7"], input="n\n")
    assert refused.exit_code == 130
    assert "0 of 1 tables done, 5,000 rows (shop.orders 5,000)" in refused.stderr
    assert "Give it up? [y/N]" in refused.stderr
    assert zookeeper.texts() == before
    done = run("stop", "7", "--yes")
    assert (done.exit_code, "was given up" in done.stdout) == (0, True)
    assert run("stop", "7").exit_code == 0  # nothing is left to lose


def test_a_snapshot_of_a_fetch_task_is_stopped_unasked(zookeeper: Any) -> None:
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: HALF})
    assert run("stop", "7").exit_code == 0
    assert list(wishes_of(zookeeper, snapshot_path("7", "lane")).values()) == [Wish(WishKind.STOP)]
