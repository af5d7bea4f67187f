"""What the servers are told, and how commands reach them."""

import json
import tarfile
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from zipfile import ZipFile

import pytest

from cdcbus.ops.stack.addresses import PORT_NAMES, Plan
from cdcbus.ops.stack.databases import _unpack_postgresql, mariadb_bootstrap, mariadb_settings
from cdcbus.ops.stack.java_servers import (
    KAFKA_TOOLS,
    _cluster_id,
    kafka_settings,
    kafka_tool,
    zkcli,
    zookeeper_settings,
)
from cdcbus.ops.stack.server import ServerFolder
from cdcbus.ops.stack.sql import Result, text

PLAN = Plan({name: 20000 + number for number, name in enumerate(PORT_NAMES)}, "secret")


def place(name: str) -> ServerFolder:
    return ServerFolder(Path("/home") / name, PLAN, None)


def test_zookeeper_listens_on_this_machine_only() -> None:
    assert zookeeper_settings(Path("/data"), 20000).startswith(
        "dataDir=/data\nclientPort=20000\nclientPortAddress=127.0.0.1\n"
    )


def test_kafka_is_a_single_broker_that_makes_no_topics() -> None:
    lines = kafka_settings(Path("/data"), PLAN.ports).splitlines()
    assert "listeners=PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:20002" in lines
    assert "advertised.listeners=PLAINTEXT://127.0.0.1:20001" in lines
    assert "auto.create.topics.enable=false" in lines
    assert "transaction.state.log.replication.factor=1" in lines


def test_a_folder_is_the_same_for_all_programs() -> None:
    folder = Path("/ö\\ # 任")
    java = "/\\u00f6\\\\ # \\u4efb"
    assert f"dataDir={java}" in zookeeper_settings(folder, 20000).splitlines()
    assert f"log.dirs={java}" in kafka_settings(folder, PLAN.ports).splitlines()
    assert 'basedir="/ö\\\\ # 任"' in mariadb_settings(folder, place("source")).splitlines()


def test_a_cluster_id_is_no_option() -> None:
    ids = {_cluster_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)


def test_the_source_writes_whole_rows_into_its_binlog() -> None:
    lines = mariadb_settings(Path("/programs"), place("source")).splitlines()
    wanted = {
        "log-bin=mysql-bin",
        "binlog_format=ROW",
        "binlog_row_image=FULL",
        "binlog_row_metadata=FULL",
        "port=20003",
    }
    assert wanted <= set(lines)


def test_the_target_writes_no_binlog() -> None:
    lines = mariadb_settings(Path("/programs"), place("mariadb")).splitlines()
    assert {"skip-log-bin", "port=20004", "bind-address=127.0.0.1"} <= set(lines)


def test_a_new_mariadb_has_the_user_and_its_database() -> None:
    lines = mariadb_bootstrap(["SCRIPT;"], "secret").splitlines()
    assert lines.index("USE mysql;") < lines.index("SCRIPT;") < lines.index("FLUSH PRIVILEGES;")
    assert lines[-2:] == [
        "CREATE USER 'cdc'@'%' IDENTIFIED BY 'secret';",
        "GRANT ALL ON *.* TO 'cdc'@'%' WITH GRANT OPTION;",
    ]


def test_tools_get_the_address() -> None:
    line = kafka_tool("kafka-topics", "127.0.0.1:1", ["--list"])
    assert line[-4:] == [
        KAFKA_TOOLS["kafka-topics"][0],
        "--bootstrap-server",
        "127.0.0.1:1",
        "--list",
    ]
    assert zkcli("127.0.0.1:2", ["ls", "/"])[-4:] == ["-server", "127.0.0.1:2", "ls", "/"]


def test_an_address_of_the_user_wins() -> None:
    assert (
        kafka_tool("kafka-topics", "127.0.0.1:1", ["--bootstrap-server", "other:9092"]).count(
            "--bootstrap-server"
        )
        == 1
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "NULL"), (b"\x00\xff", "0x00ff"), (Decimal("1.50"), "1.50"), ("x", "x"), (0, "0")],
)
def test_a_value_as_one_reads_it(value: object, shown: str) -> None:
    assert text(value) == shown


def test_rows_as_json() -> None:
    result = Result(["id", "price", "note"], [(1, Decimal("1.50"), None), (2, None, "ü")], 2)
    assert json.loads(result.to_json()) == [
        {"id": 1, "price": "1.50", "note": None},
        {"id": 2, "price": None, "note": "ü"},
    ]


def test_postgresql_is_unpacked_also_by_a_python_whose_archives_have_no_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian 12's, 3.11.2: neither the module nor an archive has the attribute."""
    unpacked = []

    class Archive:
        __slots__ = ()

        def extractall(self, folder: Path) -> None:
            unpacked.append(folder)

    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(tarfile, "open", lambda **_: nullcontext(Archive()))
    with ZipFile(tmp_path / "a.jar", "w") as jar:
        jar.writestr("postgres-linux-x86_64.txz", b"")
    with ZipFile(tmp_path / "a.jar") as jar:
        _unpack_postgresql(jar, tmp_path)
    assert unpacked == [tmp_path]
