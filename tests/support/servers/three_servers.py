"""Three ZooKeepers, and three brokers of one Kafka, of which tests kill some."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cdcbus.consumer.jvm.maven import JarSet, fetch, java
from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import HOST, free_port
from cdcbus.ops.stack.java_servers import (
    KAFKA_JARS,
    ZOOKEEPER_JARS,
    broker,
    kafka_settings,
    zookeeper_settings,
)
from tests.support.servers.secure_servers import open_folder
from tests.support.waiting import wait_until

COUNT = 3
START_SECONDS = 120.0
CLUSTER = "AcdcbusTestsClusterAAA"  # an id as Kafka makes them, 16 bytes in base64


class Three:
    """Servers by number, 1 to 3, whose data outlives a kill. `address`: of all, for clients."""

    def __init__(
        self,
        ports: list[int],
        folders: list[Path],
        command: Callable[[int], list[str]],
        leader: Callable[[], int | None],
    ) -> None:
        self.address = ",".join(f"{HOST}:{port}" for port in ports)
        self._folders, self._command, self._leader = folders, command, leader

    def start(self, number: int) -> None:
        folder = self._folders[number - 1]
        processes.start(folder, self._command(number), None)

    def kill(self, number: int) -> None:
        """SIGKILL."""
        processes.kill(self._folders[number - 1])

    def pid(self, number: int) -> int:
        """Its process id; 0 when it does not run."""
        return processes.pid(self._folders[number - 1]) or 0

    def leader(self) -> int:
        """Its number, waited for."""
        found: list[int] = []

        def is_known() -> bool:
            if (number := self._leader()) is not None:
                found.append(number)
            return bool(found)

        wait_until(is_known, f"a leader of {self.address}", START_SECONDS)
        return found[-1]


@contextmanager
def three_zookeepers() -> Iterator[Three]:
    with _three("zookeeper", ZOOKEEPER_JARS) as folders:
        clients = _free_ports()
        quorum = _free_ports()
        election = _free_ports()
        members = ""
        for number in _numbers():
            ports = f"{quorum[number - 1]}:{election[number - 1]}"
            members += f"server.{number}={HOST}:{ports}\n"
        for number, folder in zip(_numbers(), folders, strict=True):
            data = folder / "data"
            data.mkdir()
            (data / "myid").write_text(str(number))
            (folder / "zoo.cfg").write_text(
                zookeeper_settings(data, clients[number - 1])
                + f"initLimit=20\nsyncLimit=10\n{members}"
            )

        def command(number: int) -> list[str]:
            return _java(
                ZOOKEEPER_JARS,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                str(folders[number - 1] / "zoo.cfg"),
            )

        def leader() -> int | None:
            for number in _numbers():
                if _mode(clients[number - 1]) == "leader":
                    return number
            return None

        yield _started(Three(clients, folders, command, leader))


@contextmanager
def three_brokers(topic: str) -> Iterator[Three]:
    """`leader` is that of the topic's partition 0, once a test has made it."""
    with _three("kafka", KAFKA_JARS) as folders:
        clients, controllers = _free_ports(), _free_ports()
        voters = ",".join(f"{number}@{HOST}:{controllers[number - 1]}" for number in _numbers())
        for number, folder in zip(_numbers(), folders, strict=True):
            ports = {"kafka": clients[number - 1], "kafka-controller": controllers[number - 1]}
            settings = folder / "server.properties"
            settings.write_text(
                kafka_settings(folder / "data", ports)
                + f"node.id={number}\ncontroller.quorum.voters={voters}\n"
                "offsets.topic.replication.factor=3\ntransaction.state.log.replication.factor=3\n"
                "transaction.state.log.min.isr=2\nmin.insync.replicas=2\n"
                "default.replication.factor=3\n"
            )
            words = ("format", "-t", CLUSTER, "-c", str(settings))
            processes.run(_java(KAFKA_JARS, "kafka.tools.StorageTool", *words), None, folder)

        def command(number: int) -> list[str]:
            return broker(folders[number - 1] / "server.properties")

        servers = ",".join(f"{HOST}:{port}" for port in clients)

        def leader() -> int | None:
            client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
            try:
                metadata = client.list_topics(timeout=5)
            except KafkaException:
                return None
            if len(metadata.brokers) < 2:
                return None
            if topic not in metadata.topics:
                # All three are needed to make it.
                return metadata.controller_id if len(metadata.brokers) == COUNT else None
            number = int(metadata.topics[topic].partitions[0].leader)
            return number if number > 0 else None

        yield _started(Three(clients, folders, command, leader))


@contextmanager
def _three(name: str, jars: JarSet) -> Iterator[list[Path]]:
    fetch([jars])
    with open_folder() as home:
        folders = [home / f"{name}-{number}" for number in _numbers()]
        for folder in folders:
            folder.mkdir()
        try:
            yield folders
        finally:
            for folder in folders:
                processes.kill(folder)


def _started(three: Three) -> Three:
    for number in _numbers():
        three.start(number)
    three.leader()
    return three


def _numbers() -> range:
    return range(1, COUNT + 1)


def _free_ports() -> list[int]:
    found: list[int] = []
    for _ in _numbers():
        found.append(free_port(found))
    return found


def _mode(port: int) -> str:
    """ "leader", "follower", or nothing where it does not serve."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(b"srvr")
            said = connection.makefile("rb").read().decode()
    except OSError:
        return ""
    return said.partition("Mode: ")[2].partition("\n")[0]


def _java(jars: JarSet, main: str, *words: str) -> list[str]:
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m"]
    options.append("-Dzookeeper.forceSync=no")
    return [str(java()), *options, "-cp", str(jars.folder / "*"), main, *words]
