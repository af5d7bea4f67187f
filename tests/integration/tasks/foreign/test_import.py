"""`cdcbus task import` of other tools' settings, with the places where they really keep their
positions, and the tasks run from there."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result
from kazoo.client import KazooClient
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.tasks.foreign.offsets import cursor_path
from cdcbus.tasks.zookeeper.connection import connect
from tests.integration.producer.reading import position
from tests.support.processes.bus import published
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture
def place(source_cursor: Cursor, name: str, make_topic: Callable[..., str]) -> BinlogPosition:
    """Between row 1 and row 2."""
    make_topic(name)
    source_cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO orders VALUES (1)")
    found = position(source_cursor)
    source_cursor.execute("INSERT INTO orders VALUES (2)")
    return found


def imported(*words: object, code: int = 0) -> Result:
    environ = {"CDCBUS_ZOOKEEPER": "127.0.0.1:1"}  # nothing goes there
    result = CliRunner().invoke(main, ["task", "import", *map(str, words)], env=environ)
    assert result.exit_code == code, result.output
    return result


def ids_sent(file: Path, kafka: str, topic: str) -> list[str]:
    """What the task sends, in a run without ZooKeeper."""
    words = [sys.executable, "-m", "cdcbus", "task", "run", str(file), "--until", "now"]
    done = subprocess.run(
        [*words, "--positions", str(file.with_suffix(".json"))],
        env={**os.environ, "CDCBUS_ZOOKEEPER": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [row["id"] for record in published(kafka, topic) for row in record["data"] or ()]


def test_canal_goes_on_from_its_cursor(
    place: BinlogPosition, source: Database, kafka: str, zookeeper: str, name: str, tmp_path: Path
) -> None:
    client: KazooClient = connect(f"{zookeeper}/{name}")
    cursor = {
        "identity": {
            "slaveId": -1,
            "sourceAddress": {"address": source.host, "port": source.port},
        },
        "postion": {"journalName": place.file, "position": place.pos, "timestamp": 1},
    }
    try:
        client.create(cursor_path(name), orjson.dumps(cursor), makepath=True)
    finally:
        client.stop()
        client.close()
    server, instance = tmp_path / "canal.properties", tmp_path / "instance.properties"
    server.write_text(
        f"canal.zkServers={zookeeper}/{name}\ncanal.serverMode=kafka\ncanal.destinations={name}\n"
        f"kafka.bootstrap.servers={kafka}\n"
    )
    instance.write_text(
        f"canal.instance.master.address={source.host}:{source.port}\n"
        f"canal.instance.dbUsername={source.user}\ncanal.instance.dbPassword={source.password}\n"
        f"canal.instance.filter.regex={name}\\\\..*\ncanal.mq.topic={name}\n"
    )
    file = tmp_path / "out.properties"
    said = imported(server, instance, "--output", file, "--offsets", "auto").stderr
    assert f"consumer.offset={place}" in said
    assert "canal.mq.partition: canal sent all rows to partition 0" in said
    assert file.stat().st_mode & 0o777 == 0o600
    assert ids_sent(file, kafka, name) == ["2"]


def test_a_connector_goes_on_from_the_topic_of_offsets(
    place: BinlogPosition,
    source: Database,
    kafka: str,
    name: str,
    tmp_path: Path,
    make_topic: Callable[..., str],
) -> None:
    topic = make_topic(f"{name}-offsets", 3)
    producer = kafka_producer(kafka)
    key = orjson.dumps([name, {"server": name}])
    for pos in (4, place.pos):
        offset: dict[str, object] = {"file": place.file, "pos": pos, "snapshot": False}
        producer.produce(topic, orjson.dumps(offset), key)
        producer.produce(topic, b'{"file":"x.1","pos":4}', b'["another",{"server":"x"}]')
    producer.flush()
    connector = tmp_path / "connector.json"
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": source.host,
        "database.port": str(source.port),
        "database.user": source.user,
        "database.password": source.password,
        "topic.prefix": name,
        "database.include.list": name,
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "tombstones.on.delete": "false",
    }
    connector.write_bytes(orjson.dumps({"name": name, "config": config}))
    file = tmp_path / f"{name}.properties"
    said = imported(connector, "--output", tmp_path, "--offsets", f"{topic}@{kafka}").stderr
    assert f"consumer.offset={place}" in said
    text = file.read_text()
    assert "consumer.snapshot=never" in text
    make_topic(f"{name}_orders")
    assert ids_sent(file, kafka, f"{name}_orders") == ["2"]
    offset["incremental_snapshot_collections"] = "shop.orders"
    producer.produce(topic, orjson.dumps(offset), key)
    producer.flush()
    copying = imported(
        connector, "--output", tmp_path, "--force", "--offsets", f"{topic}@{kafka}", code=1
    ).stderr
    assert f"cdcbus snapshot start {name} --table shop.orders" in copying
    assert f"consumer.offset={place}" in copying
    assert "has no offset of connector" in imported(
        connector, "--output", tmp_path, "--force", "--offsets", f"{name}@{kafka}", code=1
    ).stderr  # fmt: skip


def test_maxwell_goes_on_from_its_table(
    place: BinlogPosition,
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    tmp_path: Path,
) -> None:
    source_cursor.execute(
        "CREATE TABLE positions (server_id INT UNSIGNED, binlog_file VARCHAR(255), "
        "binlog_position INT UNSIGNED, gtid_set VARCHAR(4096), client_id VARCHAR(255), "
        "heartbeat_at BIGINT, last_heartbeat_read BIGINT, PRIMARY KEY (server_id, client_id))"
    )
    source_cursor.execute(
        "INSERT INTO positions VALUES (@@GLOBAL.server_id, %s, %s, NULL, 'maxwell', NULL, 1)",
        (place.file, place.pos),
    )
    source_cursor.execute(
        "CREATE TABLE bootstrap (id BIGINT AUTO_INCREMENT PRIMARY KEY, database_name VARCHAR(255), "
        "table_name VARCHAR(255), is_complete TINYINT, client_id VARCHAR(255))"
    )
    config = tmp_path / "config.properties"
    config.write_text(
        f"producer=kafka\nkafka.bootstrap.servers={kafka}\nkafka_topic={name}\n"
        f"host={source.host}\nport={source.port}\nuser={source.user}\n"
        f"password={source.password}\nschema_database={name}\n"
        f"filter=exclude: *.*, include: {name}.orders\nproducer_partition_by=primary_key\n"
    )
    file = tmp_path / "out.properties"
    said = imported(config, "--output", file, "--offsets", "auto").stderr
    assert f"consumer.offset={place}" in said
    assert ids_sent(file, kafka, name) == ["2"]
    source_cursor.execute(
        "INSERT INTO bootstrap (database_name, table_name, is_complete, client_id) VALUES "
        "('shop', 'orders', 0, 'maxwell'), ('shop', 'items', 0, 'maxwell'), "
        "('shop', 'orders', 0, 'maxwell'), ('shop', 'done', 1, 'maxwell'), "
        "('shop', 'others', 0, 'other')"
    )
    copying = imported(config, "--output", file, "--force", "--offsets", "auto", code=1).stderr
    assert f"consumer.offset={place}" in copying
    assert "--table shop.orders --table shop.items" in copying
    assert "--table shop.orders --table shop.items" in file.read_text()
    assert "done" not in copying
    assert "others" not in copying
    source_cursor.execute("UPDATE positions SET client_id = 'other'")
    missing = imported(config, "--output", file, "--force", "--offsets", "auto", code=1).stderr
    assert f"{name}.positions has no row of client_id maxwell" in missing
