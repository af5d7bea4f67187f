"""`cdcbus source` and tasks with named sources, on a real ZooKeeper, and what the sources lead
to."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.read_task import read_task
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions

pytestmark = pytest.mark.integration

PORTERS = '{"code":"76DCDB","nodeId":null,"using":true,"source":{"sourceType":"JDBC","url":"jdbc:mysql://h/db","maxPoolSize":"4"}}'
Run = Callable[..., Result]


@pytest.fixture
def run(zookeeper: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `cdcbus source` in an empty folder, with a chroot of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CDCBUS_ZOOKEEPER", f"{zookeeper}/{name}")
    return lambda *words: CliRunner().invoke(main, ["source", *words])


@pytest.fixture
def node(zookeeper: str, name: str) -> Iterator[Callable[[str], None]]:
    """Sets the node of source 76DCDB, as porter's admin does."""
    client = connect(f"{zookeeper}/{name}")

    def put(text: str) -> None:
        path = "/datas/datesource/76DCDB"
        client.ensure_path(path)
        client.set(path, text.encode())

    yield put
    client.stop()
    client.close()


def stored(zookeeper: str, name: str, source: str) -> str:
    client = connect(f"{zookeeper}/{name}")
    try:
        return bytes(client.get(f"/datas/datesource/{source}")[0]).decode()
    finally:
        client.stop()
        client.close()


def test_added_listed_shown_in_both_homes(run: Run, zookeeper: str, name: str) -> None:
    assert run("add", "A", "url=jdbc:mysql://h/db", "password=${env:P}").exit_code == 0
    assert json.loads(stored(zookeeper, name, "A")) == {
        "code": "A",
        "nodeId": None,
        "using": True,
        "source": {"url": "jdbc:mysql://h/db", "password": "${env:P}"},
    }
    assert run("add", "A", "--file", "servers=k:1", "kafka.sasl.password=s3cret").exit_code == 0
    assert run("list").stdout.splitlines() == [
        "A  KAFKA  sources/A.properties",
        "A  JDBC  ZooKeeper /datas/datesource/A",
    ]
    shown = run("show", "A").stdout
    assert shown.splitlines() == [
        "A: KAFKA, sources/A.properties",
        "  servers=k:1",
        "  kafka.sasl.password=***",
    ]
    assert json.loads(run("list", "--json").stdout)[1]["kind"] == "JDBC"


def test_sources_of_the_settings_file_are_listed_between_files_and_zookeeper(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "cdcbus.properties").write_text(
        "porter.source.B.servers=k:1\nporter.source.B.kafka.sasl.password=s3cret\n",
        encoding="utf-8",
    )
    run("add", "B", "--file", "url=jdbc:mysql://h/db")
    run("add", "B", "address=h:1")
    assert [line.split("  ")[1:] for line in run("list").stdout.splitlines()] == [
        ["JDBC", "sources/B.properties"],
        ["KAFKA", "cdcbus.properties"],
        ["CANAL", "ZooKeeper /datas/datesource/B"],
    ]
    (tmp_path / "sources" / "B.properties").unlink()
    shown = run("show", "B")
    assert shown.stdout.splitlines() == [
        "B: KAFKA, cdcbus.properties",
        "  servers=k:1",
        "  kafka.sasl.password=***",
    ]


def test_what_is_there_is_replaced_only_when_asked(run: Run, zookeeper: str, name: str) -> None:
    assert run("add", "A", "userName=one").exit_code == 0
    refused = run("add", "A", "userName=two")
    assert (refused.exit_code, "--replace" in refused.stderr) == (1, True)
    assert "one" in stored(zookeeper, name, "A")
    assert run("add", "A", "--replace", "userName=two").exit_code == 0
    assert "two" in stored(zookeeper, name, "A")


def test_an_inline_secret_is_refused_and_nothing_is_stored(run: Run) -> None:
    result = run("add", "A", "url=jdbc:mysql://h/db", "password=s3cret")
    assert result.exit_code == 1
    assert result.stderr.startswith("password: a secret is not stored in ZooKeeper")
    assert "s3cret" not in result.output
    assert run("list").stdout == ""
    missing = run("show", "A")
    assert (
        missing.exit_code,
        missing.stderr.startswith("no source is called A: no file in sources, and no"),
    ) == (1, True)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"code":"76DCDB"}', '{"using":false,"source":{}}']
)
def test_a_node_that_is_no_source_is_told_and_hides_no_other(
    run: Run, node: Callable[[str], None], text: str
) -> None:
    node(text)
    assert run("add", "B", "servers=k:1").exit_code == 0
    result = run("list")
    assert result.exit_code == 1
    assert result.stdout == "B  KAFKA  ZooKeeper /datas/datesource/B\n"
    assert "/datas/datesource/76DCDB" in result.stderr


def bus() -> BusSettings:
    return read_bus_settings({}, None, os.environ)


def test_a_task_takes_porters_source(run: Run, node: Callable[[str], None], tmp_path: Path) -> None:
    node(PORTERS)
    file = tmp_path / "task.properties"
    file.write_text(
        "taskId=1\nconsumer.consumerName=KafkaFetch\nconsumer.source.servers=k:1\nconsumer.source.topics=a\nloader.loaderName=JdbcBatch\n"
        "loader.source.sourceName=76DCDB\n",
        encoding="utf-8",
    )
    read = read_task(file, {}, bus().source_lookup(file))
    assert isinstance(read.task, LoadTask)
    assert isinstance(read.task.target, JdbcTarget)
    assert (read.task.target.url, read.task.target.pool_size) == ("jdbc:mysql://h/db", 4)
    assert [note.key for note in read.notes] == ["loader.source.sourceType"]
    node(PORTERS.replace('"4"', '"x"').replace('"sourceType":"JDBC"', '"password":"s3cret"'))
    with pytest.raises(
        ConfigError,
        match=r"properties:6: loader\.source\.maxPoolSize: .*ZooKeeper /datas/datesource/76DCDB\)",
    ):
        read_task(file, {}, bus().source_lookup(file))


def test_what_answers_is_ok(
    run: Run, kafka: str, source: Database, postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    monkeypatch.setenv("TARGET_PASSWORD", postgresql.password)
    url = f"url=jdbc:postgresql://{postgresql.host}:{postgresql.port}/{postgresql.database}"
    run("add", "TARGET", url, f"userName={postgresql.user}", "password=${env:TARGET_PASSWORD}")
    run(
        "add",
        "DB",
        f"address={source.host}:{source.port}",
        f"username={source.user}",
        "password=${env:SOURCE_PASSWORD}",
    )
    run("add", "BUS", f"servers={kafka}")
    for name, kind in (("TARGET", "JDBC"), ("DB", "CANAL"), ("BUS", "KAFKA")):
        result = run("test", name)
        assert (result.exit_code, result.stdout) == (
            0,
            f"{name}: ok, {kind} answers (ZooKeeper /datas/datesource/{name})\n",
        ), result.stderr
    fields = json.loads(run("test", "DB", "--json").stdout)
    assert fields == {
        "name": "DB",
        "kind": "CANAL",
        "where": "ZooKeeper /datas/datesource/DB",
        "ok": True,
        "failure": "",
    }


def test_what_does_not_answer_is_one_sentence_without_its_secret(
    run: Run, source: Database, postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "s3cret")
    monkeypatch.setattr("cdcbus.tasks.preflight.named_source.ANSWER_SECONDS", 0.5)
    url = f"url=jdbc:postgresql://{postgresql.host}:{postgresql.port}/{postgresql.database}"
    run("add", "TARGET", url, f"userName={postgresql.user}", "password=${env:WRONG}")
    run(
        "add",
        "DB",
        f"address={source.host}:{source.port}",
        f"username={source.user}",
        "password=${env:WRONG}",
    )
    run("add", "BUS", "servers=127.0.0.1:1")
    run("add", "UNFILLED", "servers=k:1", "kafka.sasl.password=${env:NOT_SET_HERE}")
    run("add", "NOWHERE", "userName=u")
    words = {
        "TARGET": "login",
        "DB": "refuses user",
        "BUS": "no Kafka broker",
        "UNFILLED": "NOT_SET_HERE",
        "NOWHERE": "leads nowhere",
    }
    for name, word in words.items():
        result = run("test", name)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), (
            result.output
        )
        assert word in result.stderr
        assert "s3cret" not in result.output
    failed = run("test", "BUS", "--json")
    fields = json.loads(failed.stdout)
    assert (failed.exit_code, fields["ok"], failed.stderr) == (1, False, "")
    assert "no Kafka broker" in fields["failure"]


def test_digest_auth_comes_from_the_settings(zookeeper: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "bus.properties"
    file.write_text(
        f"zookeeper={zookeeper}/{name}\nzookeeper.auth=cdc:${{env:ZK_PASSWORD}}\n", encoding="utf-8"
    )
    owner = connect(f"{zookeeper}/{name}", auth="cdc:right")
    try:
        store = ZooKeeperPositions(owner, "1", "a")
        store.load()
        store.save('{"logfileName":"f.1","offset":4}')
    finally:
        owner.stop()
        owner.close()
    words = ["offset", "show", "1", "--config", str(file)]
    without = {"CDCBUS_ZOOKEEPER": "", "CDCBUS_ZOOKEEPER_AUTH": ""}
    right = CliRunner().invoke(main, words, env={**without, "ZK_PASSWORD": "right"})
    assert (right.exit_code, "byte 4 of f.1" in right.stdout) == (0, True), right.output
    wrong = CliRunner().invoke(main, words, env={**without, "ZK_PASSWORD": "wrong"})
    assert wrong.exit_code == 1
    assert "ACL" in wrong.stderr
    assert "wrong" not in wrong.output
