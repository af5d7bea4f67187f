"""Tasks in a real ZooKeeper: put there, looked at, run and written out again; and no secret
anywhere."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.fernet import Fernet
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Database, free_port
from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes

pytestmark = pytest.mark.integration

SECRET = "s3cret-of-the-target"
LOAD = """\
taskId=1084
consumer.consumerName=KafkaFetch
consumer.source.servers={kafka}
consumer.source.topics={topics}
consumer.source.firstConsumeFrom=earliest
loader.loaderName=JdbcBatch
loader.source.url=jdbc:postgresql://{target.host}:{target.port}/{target.database}
loader.source.userName={target.user}
loader.source.password={password}
"""


class Cdcbus:
    """Commands in an empty folder, with a chroot of its own; keeps all that they print."""

    def __init__(self, folder: Path, client: KazooClient) -> None:
        self.folder, self.client, self.printed = folder, client, ""

    def __call__(self, *words: object, code: int = 0) -> Result:
        result = CliRunner().invoke(main, [*map(str, words)])
        self.printed += result.output
        assert result.exit_code == code, result.output
        return result

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text, encoding="utf-8")
        return file

    def nodes(self, path: str = "/datas") -> dict[str, str]:
        """The text of every node below a path, and of its own."""
        try:
            children = self.client.get_children(path)
        except NoNodeError:
            return {}
        found = {path: self.client.get(path)[0].decode()}
        for child in children:
            found |= self.nodes(f"{path}/{child}")
        return found


@pytest.fixture
def cdcbus(
    zookeeper: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cdcbus]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CDCBUS_ZOOKEEPER", f"{zookeeper}/{name}")
    monkeypatch.delenv("CDCBUS_SECRET_KEYFILE", raising=False)
    client = connect(f"{zookeeper}/{name}")
    yield Cdcbus(tmp_path, client)
    client.stop()
    client.close()


@pytest.fixture
def key(cdcbus: Cdcbus) -> Path:
    file = cdcbus.folder / "key"
    file.write_bytes(Fernet.generate_key())
    cdcbus.write("cdcbus.properties", f"secret.keyFile={file}\n")
    return file


def test_an_inline_secret_is_seen_nowhere_and_the_task_starts_with_it(
    cdcbus: Cdcbus,
    key: Path,
    kafka: str,
    postgresql: Database,
    name: str,
    make_topic: Callable[..., str],
) -> None:
    make_topic(name)
    real = postgresql.password
    text = LOAD.format(kafka=kafka, topics=name, target=postgresql, password=real)
    file = cdcbus.write("1084.properties", text)
    url = f"loader.source.url=jdbc:mysql://h/db?user=u&password={SECRET}"
    other = cdcbus.write(
        "1085.properties",
        text.replace("1084", "1085").replace(f"loader.source.password={real}", url),
    )
    cdcbus("task", "import", "--strict", file, code=1)
    assert cdcbus.nodes() == {}
    assert (
        cdcbus("task", "import", file, other)
        .stdout.splitlines()[0]
        .startswith("task 1084 is in ZooKeeper, /datas/task/1084/dist at ")
    )
    cdcbus("task", "import", file, code=1)
    cdcbus("task", "import", "--force", file)
    cdcbus("source", "add", "TARGET", "url=jdbc:mysql://h/db", f"password={SECRET}")
    for command in (
        ["source", "show", "TARGET"],
        ["source", "list", "--json"],
        ["config", "show"],
        ["task", "export", "1084"],
        ["task", "export", "1085"],
        ["lineage", "--zookeeper", cdcbus_address(), "--tasks", key.parent],
    ):
        cdcbus(*command)
    checked = cdcbus("task", "check", "1084").stdout
    assert "ZooKeeper /datas/task/1084/dist: 0 errors, 0 warnings" in checked
    assert f"user {postgresql.user} can log in" in checked
    cdcbus("task", "check", "--json", "1085", code=1)
    cdcbus("task", "run", "1084", "--zookeeper", "127.0.0.1:1", code=1)
    cdcbus("--debug", "task", "check", "1085", code=1)
    nodes = cdcbus.nodes()
    assert {
        f"/datas/task/1084/dist/{name}",
        f"/datas/task/1085/dist/{name}",
        "/datas/datesource/TARGET",
    } <= nodes.keys()
    assert sum("${encrypted:" in text for text in nodes.values()) == 3
    for secret in (SECRET, real):
        assert secret not in "".join(nodes.values())
        assert secret not in cdcbus.printed
    key.write_bytes(Fernet.generate_key())
    assert "cannot be decrypted with the key in" in cdcbus("task", "run", "1084", code=1).stderr
    (cdcbus.folder / "cdcbus.properties").unlink()
    assert (
        "expected secret.keyFile in cdcbus.properties, or $CDCBUS_SECRET_KEYFILE"
        in cdcbus("task", "run", "1084", code=1).stderr
    )
    assert SECRET not in cdcbus.printed


def cdcbus_address() -> str:
    import os

    return os.environ["CDCBUS_ZOOKEEPER"]


def test_a_task_of_zookeeper_is_checked_run_and_exported(
    cdcbus: Cdcbus,
    kafka: str,
    postgresql: Database,
    name: str,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TARGET_PASSWORD", postgresql.password)
    topics = [make_topic(f"{name}-{lane}") for lane in "ab"]
    text = LOAD.format(
        kafka=kafka, topics=",".join(topics), target=postgresql, password="${env:TARGET_PASSWORD}"
    )
    cdcbus("task", "import", cdcbus.write("1084.properties", text))
    nodes = cdcbus.nodes("/datas/task/1084/dist")
    assert [
        json.loads(nodes[f"/datas/task/1084/dist/{topic}"])["consumer"]["source"]["topics"]
        for topic in topics
    ] == topics
    assert all("${env:TARGET_PASSWORD}" in node for node in nodes.values() if node)
    checked = cdcbus("task", "check", "1084").stdout
    assert "0 errors, 0 warnings, 0 notes" in checked
    assert "connections:" in checked and " 0 errors" in checked.partition("connections:")[2]
    (cdcbus.folder / "1084.properties").unlink()
    exported = cdcbus("task", "export", "1084", "--output", "exported.properties")
    assert exported.stdout == ""
    cdcbus("task", "check", "exported.properties")
    assert f"consumer.source.topics={','.join(topics)}\n" in (
        cdcbus.folder / "exported.properties"
    ).read_text(encoding="utf-8")
    # One topic fewer: its node goes, its position is not touched.
    cdcbus.client.create(f"/datas/task/1084/position/{topics[1]}", b"x", makepath=True)
    one = cdcbus.write("one.properties", text.replace(f",{topics[1]}", ""))
    cdcbus("task", "import", "--force", one)
    assert cdcbus.nodes("/datas/task/1084/dist").keys() == {
        "/datas/task/1084/dist",
        f"/datas/task/1084/dist/{topics[0]}",
    }
    assert cdcbus.client.get(f"/datas/task/1084/position/{topics[1]}")[0] == b"x"


def test_a_fetch_task_runs_by_its_id_and_opens_its_secret(
    cdcbus: Cdcbus,
    key: Path,
    kafka: str,
    source: Database,
    name: str,
    make_topic: Callable[..., str],
) -> None:
    make_topic(name)
    cdcbus(
        "task",
        "import",
        cdcbus.write(
            "t.properties",
            "taskId=1083\nconsumer.consumerName=CanalFetch\nconsumer.offset=latest\n"
            f"consumer.source.password={source.password}\n"
            f"consumer.source.address={source.host}:{source.port}\nconsumer.source.username={source.user}\nconsumer.source.filter=x\\\\.y\n"
            f"consumer.source.database=lane\nloader.loaderName=KAFKA_SYNC\nloader.source.servers={kafka}\nloader.source.topic={name}\n",
        ),
    )
    assert cdcbus.nodes("/datas/task/1083/dist").keys() == {
        "/datas/task/1083/dist",
        "/datas/task/1083/dist/lane",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "cdcbus", "task", "run", "1083"], stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        lines: list[str] = []
        for line in running.stderr:
            lines.append(line)
            if "1083" in line:
                running.send_signal(signal.SIGTERM)
                break
        lines += running.stderr.readlines()
        assert running.wait(timeout=30) == 0, lines
    assert "task 1083 has stopped" in lines[-1]
    assert cdcbus.nodes("/datas/task/1083/position").keys() == {
        "/datas/task/1083/position",
        "/datas/task/1083/position/lane",
    }
    assert source.password not in "".join(lines) + cdcbus.printed + "".join(cdcbus.nodes().values())


def test_porters_node_with_a_secret_is_used_and_not_printed(cdcbus: Cdcbus) -> None:
    dist = {
        "taskId": "7",
        "consumer": {"consumerName": "KafkaFetch", "source": {"servers": "k:9092", "topics": "A"}},
        "loader": {
            "loaderName": "JdbcBatch",
            "source": {"url": "jdbc:mysql://h/db", "password": SECRET},
        },
    }
    for task_id in ("7", "8"):
        cdcbus.client.create(
            f"/datas/task/{task_id}/dist/A", json.dumps(dist).encode(), makepath=True
        )
    assert (
        "/datas/task/8/dist holds taskId=7; expected taskId=8"
        in cdcbus("task", "run", "8", code=1).stderr
    )
    assert "name a file with --output" in cdcbus("task", "export", "7", code=1).stderr
    cdcbus("task", "export", "7", "--output", "7.properties")
    file = cdcbus.folder / "7.properties"
    assert (
        file.stat().st_mode & 0o777,
        f"loader.source.password={SECRET}\n" in file.read_text(encoding="utf-8"),
    ) == (0o600, True)
    cdcbus("lineage", "--zookeeper", cdcbus_address(), "--tasks", cdcbus.folder / "7.properties")
    assert SECRET not in cdcbus.printed


@pytest.mark.parametrize("command", ["run", "check", "export"])
def test_a_task_that_is_not_there_or_is_none_is_one_sentence(cdcbus: Cdcbus, command: str) -> None:
    missing = cdcbus("task", command, "8", code=1)
    assert (
        "there is no file and no task called 8: nothing is below /datas/task/8/dist at "
        in missing.output.replace("\n", "")
    )
    for data in (b"", b"{", b"[]", b"\xff"):
        cdcbus.client.ensure_path("/datas/task/9/dist/A")
        cdcbus.client.set("/datas/task/9/dist/A", data)
        assert (
            "/datas/task/9/dist: A: " in cdcbus("task", command, "9", code=1).output
            or command == "check"
        )


def test_a_zookeeper_that_is_away_is_one_sentence(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "cdcbus",
        "task",
        "check",
        "--json",
        "8",
        "--zookeeper",
        f"127.0.0.1:{free_port(set())}",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    (checked,) = json.loads(done.stdout)
    assert (done.returncode, done.stderr, len(checked["findings"])) == (1, "", 1)
    assert "did not answer within 4 s" in checked["findings"][0]["sentence"]


def test_several_tasks_are_stored_all_or_none(cdcbus: Cdcbus) -> None:
    nodes = DistNodes(cdcbus.client)
    nodes.put({"1": {"a": {"taskId": "1"}}}, is_replacing=False)
    with pytest.raises(
        ConfigError,
        match="task 1 is in ZooKeeper already, at /datas/task/1/dist; --force overwrites it",
    ):
        nodes.put({"2": {"a": {"taskId": "2"}}, "1": {"b": {"taskId": "1"}}}, is_replacing=False)
    assert nodes.get("2") is None
    nodes.put({"2": {"a": {"taskId": "2"}}, "1": {"b": {"taskId": "1"}}}, is_replacing=True)
    assert (nodes.get("1"), nodes.get("2")) == ({"taskId": "1"}, {"taskId": "2"})


def test_who_writes_at_the_same_time_is_not_overwritten(
    cdcbus: Cdcbus, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = DistNodes(cdcbus.client)
    begin = cdcbus.client.transaction

    def begin_late() -> object:
        cdcbus.client.create("/datas/task/1/dist/a", b"{}", makepath=True)
        return begin()

    nothing, real = AsyncResult(SequentialThreadingHandler()), cdcbus.client.get_children_async
    nothing.set([])
    monkeypatch.setattr(
        cdcbus.client,
        "get_children_async",
        lambda path: nothing if path == "/datas/task/1/dist" else real(path),
    )
    monkeypatch.setattr(cdcbus.client, "transaction", begin_late)
    with pytest.raises(PositionConflict, match="written by somebody else at the same time"):
        nodes.put({"2": {"b": {"taskId": "2"}}, "1": {"a": {"taskId": "1"}}}, is_replacing=False)
    assert cdcbus.client.get("/datas/task/1/dist/a")[0] == b"{}"
    assert nodes.get("2") is None
