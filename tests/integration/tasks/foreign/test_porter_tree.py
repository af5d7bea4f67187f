"""`cdcbus task import --porter`: porter's whole tree, with positions and shared sources."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from kazoo.client import KazooClient

from cdcbus.ops.cli.main import main
from cdcbus.tasks.local.state_file import StateFile
from cdcbus.tasks.local.stores import FilePositions
from cdcbus.tasks.zookeeper.connection import connect
from tests.support.processes.killed_writes import killed_at_each_write

pytestmark = pytest.mark.integration
LOAD = {
    "taskId": "242",
    "consumer": {
        "consumerName": "KafkaFetch",
        "source": {"servers": "k:9092", "topics": "SHOP", "firstConsumeFrom": "earliest"},
    },
    "loader": {"loaderName": "JdbcBatch", "source": {"sourceName": "target"}},
}
FETCH = {
    "taskId": "7",
    "consumer": {
        "consumerName": "CanalFetch",
        "source": {"address": "db:3306", "username": "u", "database": "shop"},
    },
    "loader": {"loaderName": "KAFKA_SYNC", "source": {"servers": "k:9092", "topic": "SHOP"}},
}
SOURCE = {
    "code": "target",
    "nodeId": None,
    "using": True,
    "source": {"url": "jdbc:mysql://h/db", "userName": "u", "password": "${env:PW}"},
}
OFFSET = '{"offset":41,"partition":0,"positionKey":"SHOP_0","topic":"SHOP"}'
PLACE = '{"batchId":7,"logfileName":"mysql-bin.000003","offset":1234}'


@pytest.fixture
def client(zookeeper: str, name: str) -> Iterator[KazooClient]:
    """At the root of two trees: porter's and ours."""
    client = connect(f"{zookeeper}/{name}")
    nodes = {
        "task/242/dist/SHOP": json.dumps(LOAD),
        "task/242/position/SHOP": OFFSET,
        "task/242/stat/SHOP": "{}",
        "task/7/dist/shop": json.dumps(FETCH),
        "task/7/position/shop": PLACE,
        "datesource/target": json.dumps(SOURCE),
        "node/n1/stat": "{}",
    }
    for path, text in nodes.items():
        client.create(f"/porter/datas/{path}", text.encode(), makepath=True)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def porter(client: KazooClient, zookeeper: str, name: str) -> str:
    return f"{zookeeper}/{name}/porter"


def imported(zookeeper: str, *words: object, code: int = 0) -> Result:
    environ = {"CDCBUS_ZOOKEEPER": zookeeper, "PW": "s3cret"}
    result = CliRunner().invoke(main, ["task", "import", *map(str, words)], env=environ)
    assert result.exit_code == code, result.output
    return result


def test_a_tree_becomes_files_that_tasks_run_with(porter: str, tmp_path: Path) -> None:
    said = imported("127.0.0.1:1", "--porter", porter, "--output", tmp_path).stderr
    assert "/datas/node: not carried over" in said
    names = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*.*") if each.is_file()}
    assert {
        "242.properties",
        "7.properties",
        "242.positions.json",
        "7.positions.json",
        "sources/target.properties",
    } <= names
    assert "${env\\:PW}" in (tmp_path / "sources" / "target.properties").read_text() or (
        "${env:PW}" in (tmp_path / "sources" / "target.properties").read_text()
    )
    checked = CliRunner().invoke(
        main,
        ["task", "check", "--offline", str(tmp_path / "242.properties")],
        env={"PW": "x", "CDCBUS_ZOOKEEPER": "127.0.0.1:1"},
    )
    assert checked.exit_code == 0, checked.output
    store = FilePositions(StateFile(tmp_path / "242.positions.json", "242"), "SHOP")
    assert (store.load(), store.is_own) == (OFFSET, False)
    place = FilePositions(StateFile(tmp_path / "7.positions.json", "7"), "shop")
    assert place.load() == PLACE
    again = imported("127.0.0.1:1", "--porter", porter, "--output", tmp_path, code=1)
    assert "the file exists already" in again.stderr


def test_a_tree_goes_into_this_zookeeper_with_positions_and_sources(
    client: KazooClient, porter: str, zookeeper: str, name: str
) -> None:
    ours = f"{zookeeper}/{name}/ours"
    imported(ours, "--porter", porter)
    assert client.get("/ours/datas/task/242/position/SHOP")[0].decode() == OFFSET
    assert client.get("/ours/datas/task/7/position/shop")[0].decode() == PLACE
    assert json.loads(client.get("/ours/datas/task/242/dist/SHOP")[0])["taskId"] == "242"
    assert json.loads(client.get("/ours/datas/datesource/target")[0])["source"]["userName"] == "u"
    refused = imported(ours, "--porter", porter, code=1).stderr
    assert "is in ZooKeeper already" in refused
    imported(ours, "--porter", porter, "--force")


def test_a_source_of_the_same_name_here_refuses_the_tree(
    client: KazooClient, porter: str, zookeeper: str, name: str
) -> None:
    """Its tasks would write into another database."""
    other = json.dumps({**SOURCE, "source": {"url": "jdbc:mysql://other/db"}}).encode()
    client.create("/ours/datas/datesource/target", other, makepath=True)
    refused = imported(f"{zookeeper}/{name}/ours", "--porter", porter, code=1).stderr
    assert "/datas/datesource/target is in ZooKeeper already; nothing is stored" in refused
    assert client.exists("/ours/datas/task/242") is None
    assert client.get("/ours/datas/datesource/target")[0] == other
    imported(f"{zookeeper}/{name}/ours", "--porter", porter, "--force")


def test_a_task_of_the_same_id_here_refuses_the_tree(
    client: KazooClient, porter: str, zookeeper: str, name: str
) -> None:
    client.create("/ours/datas/task/7/dist/shop", json.dumps(FETCH).encode(), makepath=True)
    refused = imported(f"{zookeeper}/{name}/ours", "--porter", porter, code=1).stderr
    assert "task 7 is in ZooKeeper already" in refused
    assert client.get_children("/ours/datas") == ["task"]
    assert client.get_children("/ours/datas/task/7") == ["dist"]


def test_a_killed_import_leaves_no_task_without_its_position_and_sources(
    client: KazooClient, porter: str, zookeeper: str, name: str
) -> None:
    def run() -> bool:
        environ = {"CDCBUS_ZOOKEEPER": f"{zookeeper}/{name}/ours", "PW": "s3cret"}
        words = ["task", "import", "--porter", porter]
        runs.append(CliRunner().invoke(main, words, env=environ).exit_code)
        return runs[-1] == 0

    runs: list[int] = []
    for is_done in killed_at_each_write(run):
        for task, swimlane in (("242", "SHOP"), ("7", "shop")):
            if client.exists(f"/ours/datas/task/{task}/dist/{swimlane}"):
                assert client.exists(f"/ours/datas/task/{task}/position/{swimlane}")
                assert client.exists("/ours/datas/datesource/target")
        if not is_done:
            client.delete("/ours", recursive=True)
    assert len(runs) > 5
    assert client.exists("/ours/datas/task/7/dist/shop")


def test_a_killed_import_into_files_leaves_no_task_without_its_position_and_sources(
    porter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")

    left = [0]
    monkeypatch.setattr(os, "fsync", fsync)
    for allowed in range(13):
        left[0] = allowed
        folder = tmp_path / str(allowed)
        folder.mkdir()
        imported("127.0.0.1:1", "--porter", porter, "--output", folder, code=int(allowed < 12))
        for task in ("242", "7"):
            if (folder / f"{task}.properties").exists():
                assert (folder / f"{task}.positions.json").exists()
                assert (folder / "sources" / "target.properties").exists()


def test_a_second_import_keeps_positions_that_have_moved_here(
    client: KazooClient, porter: str, zookeeper: str, name: str
) -> None:
    ours = f"{zookeeper}/{name}/ours"
    imported(ours, "--porter", porter)
    # Task 242 has run here since; task 7 runs, and has not read anything.
    moved = OFFSET.replace("41", "90")
    client.set("/ours/datas/task/242/position/SHOP", moved.encode())
    client.create("/ours/datas/task/7/lock/shop", b"{}", makepath=True, ephemeral=True)
    later = PLACE.replace("1234", "2000")
    client.set("/porter/datas/task/7/position/shop", later.encode())
    said = imported(ours, "--porter", porter, "--force").output
    assert client.get("/ours/datas/task/242/position/SHOP")[0].decode() == moved
    assert client.get("/ours/datas/task/7/position/shop")[0].decode() == PLACE
    assert f"task 242: SHOP keeps its position {moved}, as it was set or moved here" in said
    assert f"task 7: shop keeps its position {PLACE}, as the task is running" in said
    client.delete("/ours/datas/task/7/lock/shop")
    said = imported(ours, "--porter", porter, "--force").output
    assert client.get("/ours/datas/task/7/position/shop")[0].decode() == later
    assert f"task 7: shop is set to {later}; it was {PLACE}" in said


def test_files_of_a_second_import_keep_positions_of_tasks_that_have_run(
    client: KazooClient, porter: str, tmp_path: Path
) -> None:
    imported("127.0.0.1:1", "--porter", porter, "--output", tmp_path)
    moved = OFFSET.replace("41", "90")
    store = FilePositions(StateFile(tmp_path / "242.positions.json", "242"), "SHOP")
    store.load()
    store.save(moved)
    later = PLACE.replace("1234", "2000")
    client.set("/porter/datas/task/7/position/shop", later.encode())
    said = imported("127.0.0.1:1", "--porter", porter, "--output", tmp_path, "--force").output
    assert store.load() == moved
    assert FilePositions(StateFile(tmp_path / "7.positions.json", "7"), "shop").load() == later
    assert f"task 242: SHOP keeps its position {moved}, as the task has run here" in said
    assert f"task 7: shop is set to {later}; it was {PLACE}" in said


def test_what_cannot_be_carried_over_is_named_and_nothing_is_stored(
    client: KazooClient, porter: str, zookeeper: str, name: str
) -> None:
    client.create("/porter/datas/task/9/dist/X", b"no json", makepath=True)
    client.create("/porter/datas/task/242/position/OTHER", b'["jdbc"]', makepath=True)
    ours = f"{zookeeper}/{name}/ours"
    said = imported(ours, "--porter", porter, code=1).stderr
    assert "/datas/task/9/dist: not carried over" in said
    assert "/datas/task/242/position/OTHER: not carried over" in said
    assert client.exists("/ours/datas/task") is None


def test_a_source_that_is_switched_off_keeps_only_tasks_that_name_it_here(
    client: KazooClient, porter: str, zookeeper: str, name: str, tmp_path: Path
) -> None:
    off = json.dumps({**SOURCE, "using": False}).encode()
    client.create("/porter/datas/datesource/former", off)
    ours = f"{zookeeper}/{name}/ours"
    said = imported(ours, "--porter", porter).stderr
    assert "/datas/datesource/former: not carried over: source former is switched off" in said
    assert client.get_children("/ours/datas/datesource") == ["target"]
    assert client.exists("/ours/datas/task/242/dist/SHOP")
    # One of the same name on this machine leads elsewhere.
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "target.properties").write_text("url=jdbc:mysql://other/db\n")
    client.set("/porter/datas/datesource/target", off)
    client.delete("/ours", recursive=True)
    environ = {"CDCBUS_ZOOKEEPER": ours, "CDCBUS_SOURCES_DIRECTORY": str(sources)}
    words = ["task", "import", "--porter", porter]
    refused = CliRunner().invoke(main, words, env=environ)
    assert refused.exit_code == 1
    assert "loader.source.sourceName: source target is switched off" in refused.stderr
    assert client.exists("/ours/datas/task") is None


def test_a_wrong_chroot_is_named_and_not_made(
    client: KazooClient, zookeeper: str, name: str
) -> None:
    said = imported(f"{zookeeper}/{name}/ours", "--porter", f"{zookeeper}/{name}/gone", code=1)
    assert f"has no /{name}/gone" in said.stderr
    assert client.exists("/gone") is None
    empty = imported(f"{zookeeper}/{name}/ours", "--porter", f"{zookeeper}/{name}", code=1)
    assert "give porter's chroot" in empty.stderr
