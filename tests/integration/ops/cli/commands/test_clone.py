"""Copies of tasks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.contracts import Mark, Written
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas
from tests.integration.producer.reading import global_variable
from tests.support.processes.bus import Bus, fetch_text, open_bus, published, resting_text
from tests.support.processes.killed_writes import killed_at_each_write

pytestmark = pytest.mark.integration
PATIENCE_SECONDS = 240.0

POSITIONS = {
    topic: f'{{"offset":7,"partition":0,"positionKey":"{topic}_0","topic":"{topic}"}}'
    for topic in ("t", "u")
}


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def test_a_killed_clone_leaves_no_task_without_its_positions(bus: Bus) -> None:
    def run() -> bool:
        result = CliRunner(env={"CDCBUS_ZOOKEEPER": bus.address}).invoke(
            main, ["task", "clone", "242", "243"]
        )
        runs.append(result.output)
        return result.exit_code == 0

    runs: list[str] = []
    bus.load(resting_text("242", "127.0.0.1:1", "t,u"))
    for topic, text in POSITIONS.items():
        bus.client.create(f"/datas/task/242/position/{topic}", text.encode(), makepath=True)
    snapshots = ZooKeeperSnapshots(bus.client, "242", "t")
    snapshots.save({TableId("s", "a"): TableProgress(TableState.DONE, 5)})
    schemas = ZooKeeperSchemas(bus.client, "242", "t")
    schemas.save({"followed": '{"server":"1"}', "s.a": '{"table":["s","a"]}'})
    for is_done in killed_at_each_write(run):
        for topic in bus.tasks.swimlanes("243"):
            assert bus.client.exists(f"/datas/task/243/position/{topic}")
            assert ZooKeeperSnapshots(bus.client, "243", "t").load() == snapshots.load()
            assert ZooKeeperSchemas(bus.client, "243", "t").load() == schemas.load()
        if not is_done:
            bus.client.delete("/datas/task/243", recursive=True)
    assert len(runs) > 2
    assert "cdcbus task start 243" in runs[-1]
    for topic, text in POSITIONS.items():
        store = ZooKeeperPositions(bus.client, "243", topic)
        # As before, the copy's position counts as written by the task itself.
        assert (store.load(), store.is_own) == (text, True)


def test_a_copy_knows_of_which_topic_its_position_is(bus: Bus) -> None:
    bus.load(resting_text("242", "127.0.0.1:1", "t"))
    original = ZooKeeperPositions(bus.client, "242", "t")
    original.load()
    original.save(POSITIONS["t"], Mark(True, "a", target="mysql", rules={"k": "d"}))
    bus("task", "clone", "242", "243")
    copy = ZooKeeperPositions(bus.client, "243", "t")
    assert copy.load() == POSITIONS["t"]
    assert copy.written == Written(POSITIONS["t"], Mark(topic_id="a", rules={"k": "d"}))


def run_until_now(bus: Bus, task_id: str) -> None:
    words = [sys.executable, "-m", "cdcbus", "task", "run", task_id, "--until", "now"]
    run = subprocess.run(
        words,
        cwd=bus.folder,
        env=bus.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_copy_does_not_send_again_what_snapshots_have_sent(
    stack: Addresses,
    source: Database,
    name: str,
    make_topic: Callable[..., str],
    source_cursor: Cursor,
    tmp_path: Path,
) -> None:
    make_topic(name)
    for table, columns in (("keyed", "id INT PRIMARY KEY"), ("keyless", "id INT")):
        source_cursor.execute(f"CREATE TABLE {table} ({columns})")
        source_cursor.execute(f"INSERT INTO {table} VALUES (1), (2)")
    # So that the task needs a schema history.
    without_columns = global_variable(source, "binlog_row_metadata", "NO_LOG")
    folder = open_bus(stack.zookeeper, name, tmp_path, SOURCE_PASSWORD=source.password)
    with without_columns, folder as bus:
        text = fetch_text("242", source, stack.kafka, name, **{"consumer.snapshot": "initial"})
        bus.load(text)
        run_until_now(bus, "242")
        # So that the copy begins at a later place.
        source_cursor.execute("INSERT INTO keyed VALUES (9)")
        run_until_now(bus, "242")
        of_snapshots = len(published(stack.kafka, name))
        assert of_snapshots
        bus("task", "clone", "242", "15242")
        # A task that gets the position alone sends them.
        bus.load(text.replace("taskId=242", "taskId=243"))
        said = bus("offset", "copy", "242", "243", "--dry-run").stderr
        assert f"have sent the rows of {name}.keyed, {name}.keyless" in said
        assert "warning" not in bus("offset", "copy", "242", "15242", "--dry-run").stderr
        for table in ("keyed", "keyless"):
            source_cursor.execute(f"INSERT INTO {table} VALUES (3)")
        run_until_now(bus, "15242")
        later = published(stack.kafka, name)[of_snapshots:]
        assert [(each["table"], each["data"]) for each in later] == [
            (table, [{"id": "3"}]) for table in ("keyed", "keyless")
        ]
        before = ZooKeeperSnapshots(bus.client, "242", name)
        of_copy = ZooKeeperSnapshots(bus.client, "15242", name)
        assert (of_copy.load(), of_copy.is_live()) == (before.load(), before.is_live())
        # Versions that begin where the copy did would say that it had read the tables anew.
        versions = ZooKeeperSchemas(bus.client, "242", name).load()
        assert f"{name}.keyed" in versions
        of_copy_versions = ZooKeeperSchemas(bus.client, "15242", name).load()
        for table in ("keyed", "keyless"):
            assert of_copy_versions[f"{name}.{table}"] == versions[f"{name}.{table}"]
