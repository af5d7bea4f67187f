"""`cdcbus task run --positions`: the whole way without ZooKeeper, on the real servers."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses, Database
from tests.support.changes.shop import Shop, open_shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
of_the_source = pytest.mark.source  # the others ask nothing that servers answer differently
SECONDS = 240.0


@pytest.fixture
def shop(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Shop]:
    make_topic(name, 2)
    with open_shop(name, stack, source_cursor, tmp_path) as opened:
        opened.create("orders", "id INT PRIMARY KEY, name VARCHAR(20)")
        yield opened


def words(task: TaskProcess, *more: str) -> list[str]:
    file = str(positions_of(task))
    return [*(sys.executable, "-m", "cdcbus", "task", "run", str(task.file)), "--positions", file,
            *more]  # fmt: skip


def positions_of(task: TaskProcess) -> Path:
    return task.file.with_suffix(".json")


def environment(task: TaskProcess) -> dict[str, str]:
    """Whoever asks ZooKeeper fails."""
    return {**task.environment, "CDCBUS_ZOOKEEPER": "127.0.0.1:1"}


def run(task: TaskProcess, *more: str, code: int = 0) -> str:
    """All that it has said until it ended by itself."""
    done = subprocess.run(
        words(task, *(more or ("--until", "now"))),
        env=environment(task),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@contextmanager
def running(task: TaskProcess) -> Iterator["subprocess.Popen[bytes]"]:
    with task.log.open("ab") as log:
        process = subprocess.Popen(
            words(task), env=environment(task), stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def stored(task: TaskProcess, swimlane: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(positions_of(task).read_bytes())["swimlanes"][swimlane]
    return found


def snapshot_of(task: TaskProcess, swimlane: str) -> tuple[str, int]:
    """State and rows of the only table's."""
    (table,) = stored(task, swimlane).get("snapshot", {"": {"state": "", "rows": 0}}).values()
    return table["state"], table["rows"]


def insert(shop: Shop, *ids: int) -> None:
    for number in ids:
        shop.cursor.execute("INSERT INTO orders VALUES (%s, 'x')", (number,))


def in_target(shop: Shop) -> list[int]:
    return [row[0] for row in shop.rows("orders")["postgresql"]]


@of_the_source
def test_rows_go_the_whole_way_and_each_run_goes_on_where_the_one_before_ended(
    shop: Shop, source: Database
) -> None:
    insert(shop, 1, 2)
    fetch = shop.fetch(source, consumer__snapshot="initial")
    load = shop.load("postgresql")
    said = run(fetch)
    assert "keeps its positions in" in said
    assert "alarms" in said
    with running(fetch):
        wait_until(lambda: snapshot_of(fetch, shop.name) == ("done", 2), "the snapshot", SECONDS)
    run(load)
    assert in_target(shop) == [1, 2]
    ends = shop.ends()
    insert(shop, 3, 4)
    shop.cursor.execute("ALTER TABLE orders MODIFY name VARCHAR(30)")
    insert(shop, 5)
    run(fetch)
    assert sum(shop.ends().values()) == sum(ends.values()) + 3  # no snapshot and no row again
    run(load)
    assert in_target(shop) == [1, 2, 3, 4, 5]


def test_a_killed_fetch_loses_no_row_and_a_second_process_is_refused(
    shop: Shop, source: Database
) -> None:
    fetch = shop.fetch(source)
    run(fetch)
    load = shop.load("postgresql")
    with running(fetch) as process:
        before = stored(fetch, shop.name)["position"]
        insert(shop, *range(10))
        wait_until(lambda: stored(fetch, shop.name)["position"] != before, "a position", SECONDS)
        assert f"in use by process {process.pid}" in run(fetch, code=1)
        insert(shop, *range(10, 20))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run(fetch)
    run(load)
    assert in_target(shop) == list(range(20))


def test_a_task_file_says_itself_where_a_run_ends(shop: Shop, source: Database) -> None:
    fetch = shop.fetch(source, consumer__stopAt="now")
    load = shop.load("postgresql", consumer__stopAt="now")
    run(fetch, "--config", os.devnull)
    insert(shop, 1, 2)
    for task in (fetch, load):
        run(task, "--config", os.devnull)  # in place of --until
    assert in_target(shop) == [1, 2]


def test_an_edited_position_holds(shop: Shop, source: Database) -> None:
    fetch, load = shop.fetch(source), shop.load("postgresql")
    run(fetch)
    insert(shop, 1, 2, 3)
    run(fetch)
    run(load)
    shop.postgresql(f'DELETE FROM {shop.name}."orders"')
    fields = orjson.loads(positions_of(load).read_bytes())
    for position in fields["swimlanes"][shop.name]["position"]:
        position["offset"] = -1
    positions_of(load).write_bytes(orjson.dumps(fields))
    run(load)
    assert in_target(shop) == [1, 2, 3]
    for task in (fetch, load):
        fields = orjson.loads(positions_of(task).read_bytes())
        fields["swimlanes"][shop.name]["position"] = "1:4"
        positions_of(task).write_bytes(orjson.dumps(fields))
        said = " ".join(run(task, code=1).split())
        assert f"keeps its position in {positions_of(task)}, and not in ZooKeeper, edit" in said


def test_what_needs_zookeeper_says_so(shop: Shop, source: Database) -> None:
    fetch = shop.fetch(source, consumer__source__sourceName="main")
    said = run(fetch, code=1)
    assert "127.0.0.1:1" not in said
    assert "main" in said
    task = subprocess.run(
        [*words(fetch)[:5], "1084", *words(fetch)[6:]],
        env=environment(fetch),
        capture_output=True,
        text=True,
        cwd=shop.folder,
        check=False,
    )
    assert task.returncode == 1
    assert "cdcbus task export 1084 writes it" in task.stderr
    both = subprocess.run(
        [*words(fetch), "--zookeeper", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert both.returncode == 2
    assert "--zookeeper or --positions" in both.stderr
