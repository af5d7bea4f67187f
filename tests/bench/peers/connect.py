"""Kafka Connect standalone with Debezium's connectors, as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from cdcbus.consumer.jvm.maven import Coordinate, JarSet, fetch, java
from cdcbus.ops.stack.addresses import Addresses, free_port
from tests.bench.backlog import SCHEMA
from tests.support.properties import properties

KAFKA, DEBEZIUM, LOG4J = "4.1.0", "3.4.0.Final", "2.24.3"
CONNECT = JarSet(
    "Kafka Connect",
    (
        Coordinate("org.apache.kafka", "connect-runtime", KAFKA),
        Coordinate("org.apache.logging.log4j", "log4j-core", LOG4J),
        Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
    ),
    megabytes=40,
)
# Connect has these, and a second copy beside them breaks both.
SHARED = ("jackson-annotations", "jackson-core", "jackson-databind", "slf4j-api")
SOURCE = JarSet(
    "Debezium's MariaDB source",
    (Coordinate("io.debezium", "debezium-connector-mariadb", DEBEZIUM),),
    without=SHARED,
    megabytes=20,
)
SINK = JarSet(
    "Debezium's JDBC sink",
    (Coordinate("io.debezium", "debezium-connector-jdbc", DEBEZIUM),),
    without=SHARED,
    megabytes=45,
)
PREFIX = "peer"  # of its topics
TARGET_SCHEMA = "bench_peer"
# What its documentation and users name for throughput and for delay; the defaults are slower.
WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.flush.interval.ms": "1000",
    "producer.linger.ms": "5",
    "producer.batch.size": "262144",
    "producer.compression.type": "lz4",
    "consumer.max.poll.records": "5000",
    "consumer.fetch.max.wait.ms": "5",
}
SOURCE_TUNING = {
    "max.batch.size": "8192",
    "max.queue.size": "32768",
    "poll.interval.ms": "5",
    "tombstones.on.delete": "false",  # a record for each change, as with cdcbus
    "include.schema.changes": "false",
}
SINK_TUNING = {"batch.size": "5000", "use.reduction.buffer": "true"}


@dataclass(frozen=True, slots=True)
class Jars:
    """Folders of jars: that of Kafka Connect itself, and the parent of each connector's folder."""

    connect: Path
    plugins: tuple[Path, ...]

    @classmethod
    def fetched(cls) -> Jars:
        """Fetches jars from Maven Central, or from CDCBUS_MAVEN."""
        fetch([CONNECT, SOURCE, SINK])
        return cls(CONNECT.folder, (SOURCE.folder, SINK.folder))

    @classmethod
    def given(cls, folder: Path) -> Jars:
        """`folder/connect` and `folder/plugins/...`."""
        return cls(folder / "connect", tuple(sorted((folder / "plugins").iterdir())))


def source_settings(
    addresses: Addresses, topic: str, folder: Path, table: str, mode: str
) -> dict[str, str]:
    """`mode`: of its snapshot. `topic`: the prefix of the topic's name."""
    at = addresses.source
    return {
        "name": f"{topic}-source",
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": at.host,
        "database.port": str(at.port),
        "database.user": at.user,
        "database.password": at.password,
        "database.ssl.mode": "disable",
        "database.server.id": "90002",
        "topic.prefix": topic,
        "database.include.list": SCHEMA,
        "table.include.list": f"{SCHEMA}.{table}",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(folder / "schemas"),
        "snapshot.mode": mode,
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        **SOURCE_TUNING,
    }


def sink_settings(addresses: Addresses, topic: str, table: str) -> dict[str, str]:
    at = addresses.postgresql
    return {
        "name": f"{topic}-sink",
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": f"{topic}.{SCHEMA}.{table}",
        "connection.url": f"jdbc:postgresql://{at.host}:{at.port}/{at.database}",
        "connection.username": at.user,
        "connection.password": at.password,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "none",
        "collection.name.format": f"{TARGET_SCHEMA}.{table}",
        "consumer.override.auto.offset.reset": "earliest",
        **SINK_TUNING,
    }


def _end_with_its_task(process: subprocess.Popen[bytes], log: Path) -> None:
    """Ends Connect when a connector has failed, which would leave it idle: waiters must see an
    end."""
    while process.poll() is None:
        if "Task is being killed" in log.read_text(errors="replace"):
            process.kill()
        time.sleep(1)


@contextmanager
def connect(
    jars: Jars, addresses: Addresses, folder: Path, *connectors: Mapping[str, str]
) -> Iterator[int]:
    """Runs connectors; yields the process id. Offsets, settings and log are in `folder`."""
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    for jar_folder in jars.plugins:
        link = plugins / jar_folder.name
        if not link.exists():
            link.symlink_to(jar_folder)
    worker = {
        "bootstrap.servers": addresses.kafka,
        "offset.storage.file.filename": folder / "offsets",
        "plugin.path": plugins,
        "plugin.discovery": "service_load",  # else each start looks through all classes
        "listeners": f"http://127.0.0.1:{free_port(())}",
        **WORKER,
    }
    files = []
    for number, settings in enumerate((worker, *connectors)):
        files.append(folder / f"{number}.properties")
        files[-1].write_text(properties(settings), encoding="utf-8")
        files[-1].chmod(0o600)
    logging = folder / "log4j2.properties"
    logging.write_text(
        "appender.out.type=Console\nappender.out.name=out\n"
        "appender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%d %p %c{1} %m%n\n"
        "rootLogger.level=WARN\nrootLogger.appenderRef.out.ref=out\n"
    )
    command = [
        *(str(java()), "-Xmx2g", f"-Dlog4j2.configurationFile={logging}"),
        *("-cp", str(jars.connect / "*"), "org.apache.kafka.connect.cli.ConnectStandalone"),
        *map(str, files),
    ]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    Thread(target=_end_with_its_task, args=(process, folder / "log"), daemon=True).start()
    try:
        yield process.pid
    except BaseException:
        print("\n".join((folder / "log").read_text(errors="replace").splitlines()[-20:]))
        raise
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
