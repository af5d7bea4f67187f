"""The steps of the Dockerfile, run without Docker, and what docker-compose.yml starts, run on real
servers.

A folder stands for the file systems of its stages, a new virtual environment for its Python, in
which what cdcbus declares to need is there already: pip finds it instead of fetching it. Debian's
package and the user are left out. Most of the time that is left goes into the archive of Spark's
classes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal
from pymysql.cursors import Cursor

from cdcbus import __version__
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.producer.publish import native
from tests.support.processes.clean_environment import make_environment
from tests.support.waiting import wait_until
from tests.unit.ops.docker.test_docker import (
    ROOT,
    TASKS,
    environment,
    instructions,
    is_ignored,
    mounts,
    tables,
)

pytestmark = pytest.mark.integration

LEFT_OUT = ("apt-get", "useradd")
SOURCES = (".c", ".proto")  # of what is compiled
PASSWORD = 'it\'s \\ a "$secret"'


@dataclass
class Image:
    """What the instructions have made so far."""

    root: Path
    python: Path
    variables: dict[str, str] = field(default_factory=dict)
    folder: str = "/"

    def inside(self, path: str) -> Path:
        return self.root / (Path(self.folder) / path).relative_to("/")

    def run(
        self, command: list[str], variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command there; its failure is the test's."""
        done = subprocess.run(
            command,
            cwd=self.inside("."),
            env=self.environment(variables),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    def environment(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CDCBUS_", "PYTHON", "PYSPARK"))
        }
        path = f"{self.python.parent}:{os.environ['PATH']}"
        return {**own, "PATH": path, **self.variables, **(variables or {})}


def build(image: Image) -> None:
    for instruction in instructions():
        match instruction.name:
            case "WORKDIR":
                image.folder = instruction.text
                image.inside(".").mkdir(parents=True, exist_ok=True)
            case "ENV":
                name, _, value = instruction.text.partition("=")
                image.variables[name] = str(image.inside(value)) if value.startswith("/") else value
            case "COPY" if "--from" in instruction.text:
                _, source, target = instruction.words
                if image.inside(source) != image.inside(target):
                    shutil.copytree(image.inside(source), image.inside(target))
            case "COPY":
                *sources, target = instruction.words
                for source in sources:
                    copy(ROOT / source, image.inside(target))
            case "RUN" if not any(word in instruction.text for word in LEFT_OUT):
                image.run(["sh", "-ec", re.sub(r"--mount=\S+\s*", "", instruction.text)])
            case "FROM" | "RUN" | "USER" | "ENTRYPOINT" | "CMD":
                pass
            case other:
                pytest.fail(f"this test does not know {other}")


def copy(source: Path, target: Path) -> None:
    """As COPY does: the content of a folder, a file into a folder; without what .dockerignore
    names."""
    if source.is_file():
        shutil.copy(source, target)
        return

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if is_ignored(str((Path(folder) / name).relative_to(ROOT)))]

    shutil.copytree(source, target, ignore=ignored)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """All instructions done. Removed at the end: it is large. More than 20 s: a virtual
    environment, a wheel, and the archive of Spark's classes are made anew."""
    folder = tmp_path_factory.mktemp("image")
    image = Image(folder / "root", make_environment(folder / "python"))
    try:
        build(image)
        yield image
    finally:
        shutil.rmtree(folder)


def test_the_command_is_there(image: Image) -> None:
    assert image.run(["cdcbus", "--version"]).stdout == f"cdcbus {__version__}\n"


def test_it_has_what_it_declares_to_need_and_nothing_else(image: Image) -> None:
    """pip's own word for the first; pytest stands for the second."""
    pip = [str(image.python), "-m", "pip"]
    image.run([*pip, "check"])
    listed = image.run([*pip, "list", "--format=freeze"]).stdout.lower()
    assert f"cdcbus=={__version__}\n" in listed
    assert "pyspark==" in listed
    assert "pytest" not in listed


def test_a_node_is_asked_for_its_health(image: Image, zookeeper: str, name: str) -> None:
    """With the settings that it has on Kubernetes, but for addresses and the folders of the
    pod."""
    folder = image.inside("settings")
    folder.mkdir()
    (folder / "http-token").write_text("t" * 48, encoding="utf-8")
    text = (ROOT / "ops" / "kubernetes" / "cdcbus.properties").read_text(encoding="utf-8")
    for given, here in {
        "zookeeper:2181": f"{zookeeper}/{name}",
        "0.0.0.0:8190": "0.0.0.0:0",
        "/etc/cdcbus/secret": str(folder),
        "/var/log/cdcbus": str(folder),
    }.items():
        assert given in text
        text = text.replace(given, here)
    (folder / "cdcbus.properties").write_text(text, encoding="utf-8")
    log = folder / "log"
    served = re.compile(r"node cdcbus-0 serves http://\S+:(\d+)\n")
    with log.open("w") as output:
        node = subprocess.Popen(
            [image.python.with_name("cdcbus"), "node", "run"],
            cwd=folder,
            env=image.environment({"CDCBUS_NODE_ID": "cdcbus-0"}),
            stderr=output,
        )
    try:
        wait_until(lambda: served.search(log.read_text()) is not None, "its pages")
        [port] = served.findall(log.read_text())
        health = f"http://127.0.0.1:{port}/healthz"
        wait_until(lambda: httpx.get(health, trust_env=False, timeout=60).is_success, "its health")
        assert httpx.get(health, trust_env=False).json()["node"] == "cdcbus-0"
    finally:
        node.terminate()
        assert node.wait(timeout=60) == 0, log.read_text()


def test_the_package_is_installed_whole_and_not_linked(image: Image) -> None:
    shown = image.run([str(image.python), "-c", "import cdcbus; print(cdcbus.__file__)"])
    installed = Path(shown.stdout.strip()).parent
    assert installed.is_relative_to(image.python.parents[1])
    assert packaged() == {
        str(path.relative_to(installed))
        for path in installed.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def packaged() -> set[str]:
    """What the installed package has to hold: all of the checkout that belongs to it, and what is
    compiled."""
    wanted = set()
    for folder in ("plugins", "producer", "consumer", "tasks", "ops"):
        for path in (ROOT / folder).rglob("*"):
            name = str(path.relative_to(ROOT))
            if path.is_file() and path.suffix not in SOURCES and not is_ignored(name):
                wanted.add(name.removeprefix("ops/package/"))
    if native.compiled is not None:  # there is a compiler
        wanted |= {"producer/publish/_native.abi3.so", "producer/snapshot/_images.abi3.so"}
        wanted.add("plugins/converters/arrow/_cut.abi3.so")
    return wanted | {"plugins/converters/protobuf/canal.desc"}


def test_the_jars_are_there_without_java_or_internet(image: Image) -> None:
    """Without Java nothing can be downloaded."""
    shown = image.run(
        [
            str(image.python),
            "-c",
            "from cdcbus.consumer.jvm.maven import kafka_connector_jars as jars; print(*jars(), "
            "sep='\\n')",
        ],
        {"PATH": str(image.python.parent), "JAVA_HOME": ""},
    )
    jars = [Path(line) for line in shown.stdout.splitlines()]
    assert any(jar.name.startswith("spark-sql-kafka-0-10_2.13-") for jar in jars)
    assert [jar for jar in jars if not jar.is_relative_to(image.variables["CDCBUS_CACHE"])] == []


def test_spark_starts_with_archived_classes(image: Image) -> None:
    """Also where a task has more on its class path. Java uses them where they are in the file,
    and has no copy of its own in memory."""
    options = {
        "spark.driver.extraClassPath": "/nowhere/other.jar",
        "spark.driver.extraJavaOptions": "-Dx=y",
    }
    program = f"""
from pathlib import Path
from threading import Event
from cdcbus.consumer.spark.session import spark_session
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
task = LoadTask("1", TopicConfig("", ()), "canalRow", "JdbcBatch", JdbcTarget(""), spark_options={options})
with spark_session(task, Event()) as (spark, _):
    java = spark.sparkContext._gateway.proc.pid
    print(Path(f"/proc/{{java}}/smaps").read_text())
"""
    (archive,) = Path(image.variables["CDCBUS_CACHE"]).rglob("classes.jsa")
    places = re.split(
        r"^(?=[0-9a-f]+-[0-9a-f]+ )",
        image.run([str(image.python), "-c", program]).stdout,
        flags=re.MULTILINE,
    )
    mapped = [place for place in places if place.partition("\n")[0].endswith(str(archive))]
    own_kb = 0
    for place in mapped:
        counts = re.findall(r"^Private_Dirty: +([0-9]+) kB", place, re.MULTILINE)
        own_kb += sum(map(int, counts))
    assert mapped and own_kb * 1024 < archive.stat().st_size / 3
    assert "already" in image.run(["cdcbus", "prepare"]).stdout


@pytest.mark.parametrize("service", TASKS)
def test_the_task_files_are_good_there(image: Image, service: str) -> None:
    (folder,) = mounts(service)
    image.run(
        ["cdcbus", "task", "check", "--offline", "--strict", f"{folder}/{service}.properties"],
        environment(service),
    )


def test_the_tasks_copy_the_shop_and_its_changes(
    image: Image,
    name: str,
    source: Database,
    postgresql: Database,
    kafka: str,
    zookeeper: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Init scripts, users with their grants, and task files, as docker-compose.yml brings them
    together; names and addresses differ."""
    make_topic(name, partitions=3)
    addresses = {
        "mysql:3306": f"{source.host}:{source.port}",
        "kafka:9092": kafka,
        "postgresql:5432": f"{postgresql.host}:{postgresql.port}",
    }
    with (
        shop(source, name, tmp_path) as cursor,
        shop_copy(postgresql, name, tmp_path) as copy_connection,
    ):
        variables = {
            "CDCBUS_ZOOKEEPER": zookeeper,
            "SOURCE_PASSWORD": PASSWORD,
            "TARGET_PASSWORD": PASSWORD,
        }
        files = [task_file(service, name, addresses, tmp_path) for service in TASKS]
        program = image.python.with_name("cdcbus")
        started = [
            subprocess.Popen([program, "task", "run", file], env=image.environment(variables))
            for file in files
        ]
        try:
            wait_until_equal(cursor, copy_connection, started)
            cursor.execute(
                "UPDATE customers SET name = 'Ada 🦉 Quill', preferences = '[1, null]' WHERE id = 1"
            )
            cursor.execute("UPDATE order_items SET line = 7 WHERE order_id = 1 AND line = 2")
            cursor.execute("DELETE FROM orders WHERE id = 2")
            wait_until_equal(cursor, copy_connection, started)
        finally:
            for process in started:
                process.terminate()
            codes = [process.wait(timeout=60) for process in started]
        assert codes == [0, 0]


def renamed(text: str, name: str) -> str:
    """The schema, database, topic and user of the compose file under the name that only this
    test has."""
    return re.sub(r"\b(shop|cdc)\b(?!bus)", name, text).replace("SHOP", name.upper())


def task_file(service: str, name: str, addresses: Mapping[str, str], folder: Path) -> Path:
    (source,) = mounts(service)
    text = (source / f"{service}.properties").read_text(encoding="utf-8")
    for old, new in addresses.items():
        text = text.replace(old, new)
    file = folder / f"{service}.properties"
    file.write_text(
        renamed(text, name).replace(f"taskId={service}", f"taskId={name}-{service}"),
        encoding="utf-8",
    )
    return file


@contextmanager
def shop(source: Database, name: str, folder: Path) -> Iterator[Cursor]:
    """What the scripts of the service mysql make, on the source."""
    connection = MysqlConnection(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        charset="utf8mb4",
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        # The task files read from the beginning, and nothing of other tests.
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        [(newest, *_)] = cursor.fetchall()
        cursor.execute(f"PURGE BINARY LOGS TO '{newest}'")
        metadata = global_variable(cursor, "binlog_row_metadata")
        cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
        try:
            for text in (schema_text("mysql"), script_input("mysql", "mysql", folder)[1]):
                for statement in re.split(r";\s*\n", renamed(text, name)):
                    if statement.strip():
                        cursor.execute(statement)
            yield cursor
        finally:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"DROP USER IF EXISTS '{name}'@'%'")
            cursor.execute("SET GLOBAL binlog_row_metadata = %s", (metadata,))


def global_variable(cursor: Cursor, variable: str) -> str:
    cursor.execute(f"SELECT @@GLOBAL.{variable}")
    return str(cursor.fetchall()[0][0])


@contextmanager
def shop_copy(target: Database, name: str, folder: Path) -> Iterator[psycopg.Connection[Any]]:
    """What the scripts of the service postgresql make, on the target, in a database of its own."""
    address: dict[str, Any] = {
        "host": target.host,
        "port": target.port,
        "user": target.user,
        "password": target.password,
    }
    with psycopg.connect(**address, dbname=target.database, autocommit=True) as maker:
        maker.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            with psycopg.connect(**address, dbname=name, autocommit=True) as connection:
                arguments, text = script_input("postgresql", "psql", folder)
                password = next(
                    argument.partition("=")[2]
                    for argument in arguments
                    if argument.startswith("password=")
                )
                text = text.replace(":'password'", Literal(password).as_string(connection))
                for part in (schema_text("postgresql"), text):
                    connection.execute(renamed(part, name).encode())
                yield connection
        finally:
            maker.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
            maker.execute(SQL("DROP ROLE IF EXISTS {}").format(Identifier(name)))


def schema_text(service: str) -> str:
    (folder,) = mounts(service)
    return (folder / "1-shop.sql").read_text(encoding="utf-8")


def script_input(service: str, client: str, folder: Path) -> tuple[list[str], str]:
    """Arguments and input that 2-user.sh gives to the database's client, for which a stand-in
    notes them."""
    stand_in = folder / client
    stand_in.write_text('#!/bin/sh\nprintf "%s\\0" "$@" "$(cat)"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    (scripts,) = mounts(service)
    variables = {**environment(service), "SOURCE_PASSWORD": PASSWORD, "TARGET_PASSWORD": PASSWORD}
    done = subprocess.run(
        [scripts / "2-user.sh"],
        env={**variables, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    *arguments, text = done.stdout.removesuffix("\0").split("\0")
    return arguments, text


def wait_until_equal(
    cursor: Cursor, target: psycopg.Connection[Any], running: list[subprocess.Popen[bytes]]
) -> None:
    """Every table of the shop holds the same rows on both sides; the tasks must go on running
    until then."""

    def are_equal() -> bool:
        assert [process.poll() for process in running] == [None, None]
        return source_rows(cursor) == target_rows(target)

    wait_until(are_equal, "equal tables")


def source_rows(cursor: Cursor) -> dict[str, list[tuple[Any, ...]]]:
    found = {}
    for table, columns in tables("mysql").items():
        cursor.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2")
        found[table] = [comparable(row) for row in cursor.fetchall()]
    return found


def target_rows(connection: psycopg.Connection[Any]) -> dict[str, list[tuple[Any, ...]]]:
    found = {}
    for table, columns in tables("postgresql").items():
        cast = [f"{column}::text" if column == "preferences" else column for column in columns]
        sql = f"SELECT {', '.join(cast)} FROM {table} ORDER BY 1, 2"
        found[table] = list(map(comparable, connection.execute(sql.encode())))
    return found


def comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(bytes(value) if isinstance(value, bytes | memoryview) else value for value in row)
