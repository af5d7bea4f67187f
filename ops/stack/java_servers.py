"""ZooKeeper, Kafka, and their command-line tools."""

import base64
import json
import signal
import socket
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdcbus.consumer.jvm.maven import Coordinate, JarSet, java, making
from cdcbus.consumer.spark.settings import COMPILER_OPTIONS
from cdcbus.ops.stack.addresses import HOST
from cdcbus.ops.stack.processes import run
from cdcbus.ops.stack.server import NotAnswering, Server, ServerFolder

ZOOKEEPER_JARS = JarSet(
    "ZooKeeper",
    (
        Coordinate.parse("org.apache.zookeeper:zookeeper:3.9.4"),
        # Its pom calls these "provided".
        Coordinate.parse("org.xerial.snappy:snappy-java:1.1.10.5"),
        Coordinate.parse("io.dropwizard.metrics:metrics-core:4.1.12.1"),
        Coordinate.parse("commons-cli:commons-cli:1.5.0"),
        Coordinate.parse("jline:jline:2.14.6"),
        Coordinate.parse("org.slf4j:slf4j-simple:2.0.13"),
    ),
    megabytes=8,
)
KAFKA_JARS = JarSet(
    "Kafka",
    (
        Coordinate.parse("org.apache.kafka:kafka_2.13:4.1.0"),
        Coordinate.parse("org.apache.kafka:kafka-tools:4.1.0"),
        Coordinate.parse("org.slf4j:slf4j-simple:1.7.36"),
    ),
    without=("connect-runtime",),  # Kafka Connect with its web server: twice the download
    megabytes=44,
)

_LOG = "-Dorg.slf4j.simpleLogger"
# A small heap needs no parallel collector, and no threads for one. Most of what a server takes to
# start is the work of Java's compilers.
_SERVER = (
    "-XX:+UseSerialGC",
    *COMPILER_OPTIONS.split(),
    f"{_LOG}.showDateTime=true",
    f"{_LOG}.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)
# Programs that end soon are not worth optimizing.
_TOOL = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"),
    *(f"{_LOG}.showThreadName=false", f"{_LOG}.showShortLogName=true"),
)
# Kafka's tools warn about a topic that does not exist, and wait. zkCli prints an error itself, then
# logs that it ends.
_KAFKA_TOOL = (*_TOOL, f"{_LOG}.defaultLogLevel=warn")
_ZOOKEEPER_TOOL = (
    *_TOOL,
    f"{_LOG}.defaultLogLevel=error",
    f"{_LOG}.log.org.apache.zookeeper.util.ServiceUtils=off",
)

# Kafka's own tools: class, and what it does.
KAFKA_TOOLS = {
    "kafka-console-consumer": (
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "Print the records of a topic.",
    ),
    "kafka-console-producer": (
        "org.apache.kafka.tools.ConsoleProducer",
        "Write lines into a topic as records.",
    ),
    "kafka-consumer-groups": (
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "Show consumer groups and their lag.",
    ),
    "kafka-get-offsets": ("org.apache.kafka.tools.GetOffsetShell", "Show the offsets of topics."),
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand", "List, create and change topics."),
}


def zkcli(address: str, arguments: Sequence[str]) -> list[str]:
    """The command line of ZooKeeper's own client."""
    return _java(
        ZOOKEEPER_JARS,
        _ZOOKEEPER_TOOL,
        "org.apache.zookeeper.ZooKeeperMain",
        "-server",
        address,
        *arguments,
    )


def kafka_tool(name: str, address: str, arguments: Sequence[str]) -> list[str]:
    """The command line of one of KAFKA_TOOLS; the server is filled in unless the arguments name
    one."""
    if "--bootstrap-server" not in arguments:
        arguments = ["--bootstrap-server", address, *arguments]
    return _java(KAFKA_JARS, _KAFKA_TOOL, KAFKA_TOOLS[name][0], *arguments)


def zookeeper_settings(data: Path, port: int) -> str:
    """The text of zoo.cfg."""
    return _properties(
        {
            "dataDir": data,
            "clientPort": port,
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,srvr,stat,mntr,cons,dump",
            # A short tick: tests want to see an ephemeral node vanish soon. Clients may still ask
            # for a long session.
            "tickTime": 500,
            "minSessionTimeout": 1000,
            "maxSessionTimeout": 60000,
            # No limit, as all clients have the same address.
            "maxClientCnxns": 0,
            "autopurge.purgeInterval": 1,
        }
    )


def kafka_settings(data: Path, ports: Mapping[str, int]) -> str:
    """The text of Kafka's server.properties."""
    broker, controller = f"{HOST}:{ports['kafka']}", f"{HOST}:{ports['kafka-controller']}"
    return _properties(
        {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "log.dirs": data,
            "auto.create.topics.enable": "false",
            "message.max.bytes": 16 * 1024 * 1024,
            # A single broker can hold one replica.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            # The first member of a group need not wait for others.
            "group.initial.rebalance.delay.ms": 0,
            # After kill -9 the broker has to wait until its former self has timed out: 12 s with
            # the usual settings.
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 3000,
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }
    )


def _prepare_zookeeper(place: ServerFolder) -> list[str]:
    settings = place.folder / "zoo.cfg"
    settings.write_text(zookeeper_settings(place.data, place.port), encoding="utf-8")
    # Data only has to outlive the process, not a power cut: no waiting for the disk.
    options = (*_SERVER, "-Xmx256m", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024")
    return _java(
        ZOOKEEPER_JARS, options, "org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)
    )


def _prepare_kafka(place: ServerFolder) -> list[str]:
    settings = place.folder / "server.properties"
    # In a temporary folder: a start that is killed leaves no half-formatted one.
    with making(place.data) as part:
        if part is not None:
            settings.write_text(kafka_settings(part, place.plan.ports), encoding="utf-8")
            arguments = ("format", "-t", _cluster_id(), "-c", str(settings))
            run(
                _java(KAFKA_JARS, _TOOL, "kafka.tools.StorageTool", *arguments),
                place.account,
                place.folder,
            )
    settings.write_text(kafka_settings(place.data, place.plan.ports), encoding="utf-8")
    return broker(settings)


def broker(settings: Path) -> list[str]:
    """The command line of a Kafka broker with these settings."""
    return _java(KAFKA_JARS, (*_SERVER, "-Xmx512m"), "kafka.Kafka", str(settings))


def _check_zookeeper(place: ServerFolder) -> None:
    try:
        with socket.create_connection((HOST, place.port), timeout=2) as connection:
            connection.sendall(b"srvr")
            said = connection.makefile("rb").read().decode()
    except OSError as error:
        raise NotAnswering(str(error)) from error
    if "Mode:" not in said:
        raise NotAnswering(said.strip() or "it answers nothing")


def _check_kafka(place: ServerFolder) -> None:
    """Its port is open before it can do anything, so this asks for brokers, and for leaders of
    all partitions."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        # A closed port is known immediately; the library would try again until its time is over.
        socket.create_connection((HOST, place.port), timeout=2).close()
        # Level 0: the client library would print each failed attempt.
        client = AdminClient({"bootstrap.servers": place.plan.address("kafka"), "log_level": 0})
        metadata = client.list_topics(timeout=2)
    except (OSError, KafkaException) as error:
        raise NotAnswering(str(error)) from error
    if not metadata.brokers:
        raise NotAnswering("no broker has registered yet")
    for topic in metadata.topics.values():
        if any(partition.leader < 0 for partition in topic.partitions.values()):
            raise NotAnswering("some partitions have no leader yet")


def _cluster_id() -> str:
    """A Kafka UUID that does not begin with "-", which the tool would take for an option."""
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


def _java(jars: JarSet, options: Sequence[str], main: str, *arguments: str) -> list[str]:
    return [str(java()), *options, "-cp", str(jars.folder / "*"), main, *arguments]


def _properties(settings: Mapping[str, object]) -> str:
    # Java reads such files as ISO-8859-1, with the escapes of JSON.
    return "".join(f"{key}={json.dumps(str(value))[1:-1]}\n" for key, value in settings.items())


ZOOKEEPER = Server(
    "zookeeper",
    "ZooKeeper",
    ZOOKEEPER_JARS,
    ports=("zookeeper",),
    is_database=False,
    stop_signal=signal.SIGTERM,
    prepare=_prepare_zookeeper,
    check=_check_zookeeper,
)
KAFKA = Server(
    "kafka",
    "Kafka",
    KAFKA_JARS,
    ports=("kafka", "kafka-controller"),
    is_database=False,
    stop_signal=signal.SIGTERM,
    prepare=_prepare_kafka,
    check=_check_kafka,
)
