"""The embedded stack, on real servers. The tests share one stack, and each leaves it running."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient
from rich.console import Console

from cdcbus.consumer.jvm.maven import cache_folder, kafka_connector_jars
from cdcbus.ops.stack import addresses
from cdcbus.ops.stack import stack as servers
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.sql import execute
from cdcbus.plugins.errors import ConfigError
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration

# As people have them: programs read settings and paths in their own ways.
HOME = "höme # 任务"
NAMES = [server.name for server in servers.SERVERS]
COMMAND = "from cdcbus.ops.stack.commands import stack; stack()"


@dataclass
class Stack:
    """A stack of its own, in a folder that others can enter, as pytest's cannot be by the
    databases of root."""

    home: Path

    def up(self, spark: int | None = None) -> tuple[Addresses, str]:
        """Starts it; gives what it says, too."""
        console = Console(file=io.StringIO(), width=200)
        found = servers.up(self.home, console, spark=spark)
        assert isinstance(console.file, io.StringIO)
        return found, console.file.getvalue()

    def down(self, *, purge: bool = False) -> None:
        servers.down(self.home, purge=purge, console=Console(file=io.StringIO()))

    def pids(self) -> dict[str, int]:
        """The servers that run."""
        return {each.name: each.pid for each in servers.status(self.home) if each.pid is not None}

    def popen(self, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """`cdcbus stack ...` in a process group of its own."""
        line = [
            *prefix,
            sys.executable,
            "-c",
            COMMAND,
            arguments[0],
            "--home",
            str(self.home),
            *arguments[1:],
        ]
        return subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Not counting those that have ended and that nobody has waited for."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return bool(state) and not state.startswith("Z")


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with open_folder() as folder:
        stack = Stack(folder / HOME)
        stack.up()
        # Nothing is beside it, as where a name is read in another character set.
        assert list(folder.iterdir()) == [stack.home]
        put(servers_of(stack))
        yield stack


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder for the home of a stack, which is purged in the end, whatever happens: no file
    may be left then."""
    folder = Path(tempfile.mkdtemp(prefix="cdcbus-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        servers.down(folder / HOME, purge=True, console=Console(file=io.StringIO()))
    assert not list(folder.iterdir())
    folder.rmdir()


def servers_of(stack: Stack) -> Addresses:
    plan = addresses.load(stack.home)
    assert plan is not None
    return plan.addresses()


def databases(found: Addresses) -> dict[str, Database]:
    return {"source": found.source, "mariadb": found.mariadb, "postgresql": found.postgresql}


@contextmanager
def zookeeper_client(found: Addresses) -> Iterator[KazooClient]:
    client = KazooClient(found.zookeeper)
    client.start()
    yield client
    client.stop()
    client.close()


def put(found: Addresses) -> None:
    """Stores something in each server."""
    for name, database in databases(found).items():
        execute(name, database, "CREATE TABLE kept (id INT PRIMARY KEY, text VARCHAR(20))")
        execute(name, database, "INSERT INTO kept VALUES (1, '例😀')")
    with zookeeper_client(found) as zookeeper:
        zookeeper.create("/kept", b"value")
    client = AdminClient({"bootstrap.servers": found.kafka})
    client.create_topics([NewTopic("kept", 1)])["kept"].result()
    producer = kafka_producer(found.kafka, {"transactional.id": "kept"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("kept", b"value")
    producer.commit_transaction()


def check_all_is_there(found: Addresses) -> None:
    for name, database in databases(found).items():
        assert execute(name, database, "SELECT * FROM kept").rows == [(1, "例😀")], name
    with zookeeper_client(found) as zookeeper:
        assert zookeeper.get("/kept")[0] == b"value"
    consumer = Consumer(
        {"bootstrap.servers": found.kafka, "group.id": "test", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("kept", 0, 0)])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None and message.error() is None
    assert message.value() == b"value"


def test_all_servers_answer(stack: Stack) -> None:
    assert sorted(stack.pids()) == sorted(NAMES)
    check_all_is_there(servers_of(stack))


def test_a_second_up_changes_nothing(stack: Stack) -> None:
    before = stack.pids()
    found, said = stack.up()
    assert stack.pids() == before
    assert said.count("runs already at") == len(NAMES)
    assert found == servers_of(stack)


def test_the_source_can_be_read_from(stack: Stack) -> None:
    rows = execute(
        "source",
        servers_of(stack).source,
        "SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, "
        "@@character_set_server, "
        "@@time_zone, @@gtid_current_pos <> '', @@server_id",
    ).rows
    assert rows == [(1, "ROW", "FULL", "FULL", "utf8mb4", "+00:00", 1, 1)]
    status = execute("source", servers_of(stack).source, "SHOW MASTER STATUS").rows
    assert str(status[0][0]).startswith("mysql-bin.")


def test_the_postgresql_target_is_set_up_for_text_of_all_languages(stack: Stack) -> None:
    rows = execute(
        "postgresql",
        servers_of(stack).postgresql,
        "SELECT current_setting('server_encoding'), current_setting('timezone'), "
        "current_setting('max_connections'), "
        "upper('ä'), current_setting('server_version_num')::int / 10000",
    ).rows
    assert rows == [("UTF8", "UTC", "100", "Ä", 18)]


def test_the_password_is_needed(stack: Stack) -> None:
    found = servers_of(stack)
    for name, database in databases(found).items():
        wrong = Database(database.host, database.port, database.user, "wrong", database.database)
        with pytest.raises(Exception, match="cannot log in"):
            execute(name, wrong, "SELECT 1")


def test_only_this_machine_reaches_the_servers(stack: Stack) -> None:
    plan = addresses.load(stack.home)
    assert plan is not None
    for port in plan.ports.values():
        with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), timeout=1):
            pass


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_server_comes_back_where_it_was(stack: Stack, name: str) -> None:
    before = servers_of(stack)
    others = {other: pid for other, pid in stack.pids().items() if other != name}
    servers.kill(stack.home, name)
    assert name not in stack.pids()
    found, said = stack.up()
    assert found == before
    assert said.count("answers at") == 1
    assert others.items() <= stack.pids().items()
    check_all_is_there(found)


def test_nothing_is_lost_when_all_are_killed(stack: Stack) -> None:
    for pid in stack.pids().values():
        os.kill(pid, signal.SIGKILL)
    found, _ = stack.up()
    check_all_is_there(found)


def test_another_port_when_somebody_has_taken_it(stack: Stack) -> None:
    before = addresses.load(stack.home)
    assert before is not None
    stack.down()
    foreign = [
        socket.create_server(("127.0.0.1", before.ports[name]))
        for name in ("kafka", "kafka-controller", "source")
    ]
    try:
        found, said = stack.up()
    finally:
        for each in foreign:
            each.close()
    after = addresses.load(stack.home)
    assert after is not None
    for name in ("kafka", "kafka-controller", "source"):
        line = (
            f"port {before.ports[name]} of {name} is taken by another process: it gets "
            f"{after.ports[name]}"
        )
        assert line in said
    check_all_is_there(found)


def test_of_two_ups_at_once_the_second_waits(stack: Stack) -> None:
    stack.down()
    both = [stack.popen("up") for _ in range(2)]
    said = "".join(finish(process) for process in both)
    assert said.count("answers at") == said.count("runs already at") == len(NAMES)
    check_all_is_there(servers_of(stack))


def test_down_leaves_no_process_and_keeps_the_data(stack: Stack) -> None:
    pids = stack.pids()
    stack.down()
    assert not stack.pids()
    assert not [pid for pid in pids.values() if is_alive(pid)]
    found, _ = stack.up()
    check_all_is_there(found)


def test_ctrl_c_in_the_middle_is_no_harm(stack: Stack) -> None:
    stack.down()
    process = stack.popen("up")
    until(lambda: len(stack.pids()) >= 2)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 1
    found, _ = stack.up()
    check_all_is_there(found)


def test_kill_9_of_the_first_up_is_no_harm(folder: Path) -> None:
    stack = Stack(folder / HOME)
    process = stack.popen("up")
    until(
        lambda: (stack.home / "source/data.part").exists() or (stack.home / "source/data").exists()
    )
    process.kill()
    process.communicate()
    found, _ = stack.up()
    put(found)
    check_all_is_there(found)
    pids = stack.pids()
    stack.down(purge=True)
    assert not stack.home.exists()
    assert not [pid for pid in pids.values() if is_alive(pid)]


JOB = """
import sys
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster(sys.argv[1]).set("spark.executor.memory", "512m").set("spark.ui.enabled", "false")
with SparkContext(conf=conf) as spark:
    print(spark.parallelize(range(4), 2).map(lambda number: number + 1).sum())
"""


def test_a_spark_cluster_comes_with_the_stack_works_and_goes(stack: Stack) -> None:
    """Starts three JVMs and an executor's, and one again: 20 s on a machine that is not busy."""
    before = stack.pids()
    spark = stack.up(spark=1)[0].spark
    assert stack.pids().keys() - before.keys() == {"spark-master", "spark-worker-1"}
    servers.kill(stack.home, "spark-worker-1")
    assert stack.up()[0].spark == spark
    done = subprocess.run(
        [sys.executable, "-c", JOB, spark], capture_output=True, text=True, check=False
    )
    assert done.stdout == "10\n", done.stderr
    assert stack.up(spark=0)[0].spark == ""
    assert stack.pids() == before
    assert not [*stack.home.glob("spark-*")]


def test_commands(stack: Stack) -> None:
    found = json.loads(finish(stack.popen("status", "--json")))
    assert all(each["running"] for each in found["servers"])
    assert found["addresses"]["kafka"] == servers_of(stack).kafka
    rows = json.loads(finish(stack.popen("sql", "--json", "postgresql", "SELECT * FROM kept")))
    assert rows == [{"id": 1, "text": "例😀"}]
    assert "例😀" in finish(stack.popen("sql", "source", "SELECT * FROM kept"))
    assert finish(stack.popen("sql", "mariadb", "UPDATE kept SET id = 1")) == "0 rows affected\n"


def test_java_tools(stack: Stack) -> None:
    assert finish(stack.popen("zkcli", "get", "/kept")).endswith("value\n")
    assert finish(stack.popen("kafka-get-offsets", "--", "--topic", "kept")) == "kept:0:2\n"
    assert "kept" in finish(stack.popen("kafka-topics", "--list")).splitlines()
    arguments = ("--topic", "kept", "--from-beginning", "--max-messages", "1")
    assert finish(stack.popen("kafka-console-consumer", *arguments)) == "value\n"


def test_the_printed_mysql_command(stack: Stack) -> None:
    printed = finish(stack.popen("status")).splitlines()
    line = printed[printed.index("MariaDB source") + 1]
    done = subprocess.run(
        f"{line} -Ne 'SELECT id FROM kept'", shell=True, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="needs root, to become another user",
)
def test_as_a_user_who_is_not_root(folder: Path) -> None:
    """The user may read all files here, as the Python that runs this may be in root's closed
    home."""
    shutil.chown(folder, "nobody")
    stack = Stack(folder / HOME)
    read_all = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    become = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *read_all)
    cache = ("env", f"CDCBUS_CACHE={cache_folder()}", f"HOME={folder}")
    finish(stack.popen("up", prefix=(*become, *cache)))
    put(servers_of(stack))
    check_all_is_there(servers_of(stack))
    assert {path.owner() for path in stack.home.rglob("*")} == {"nobody"}
    finish(stack.popen("down", "--purge", prefix=(*become, *cache)))
    assert not stack.home.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's databases run as another user")
def test_a_home_that_the_databases_cannot_enter_is_refused_at_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    stack = Stack(tmp_path / "home")
    with pytest.raises(ConfigError, match="nobody, as whom they run instead, cannot enter"):
        stack.up()
    assert not stack.pids()


def test_jars_of_sparks_kafka_source() -> None:
    jars = kafka_connector_jars()
    names = [jar.name for jar in jars]
    for artifact in (
        "spark-sql-kafka-0-10_2.13",
        "spark-token-provider-kafka-0-10_2.13",
        "kafka-clients",
        "commons-pool2",
    ):
        assert any(name.startswith(artifact) for name in names)
    assert not any(name.startswith(("hadoop", "slf4j", "scala")) for name in names)
    assert all(zipfile.is_zipfile(jar) for jar in jars)
