"""Checks a Kafka cluster as its clients see it: advertised names, replicas, folders of the brokers'
logs."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals
from cdcbus.tasks.config.keys.types import split_list
from cdcbus.tasks.preflight.result import CheckResult, error, ok, probe, warning

ANSWER_SECONDS = 8.0
REACH_SECONDS = 3.0
PROBE_SECONDS = 30.0
_REPLICATED = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "default.replication.factor",
)
_SETTINGS = (*_REPLICATED, "log.dirs", "log.dir")


def check_kafka(
    servers: str, options: Mapping[str, str], topics: Collection[str]
) -> list[CheckResult]:
    """`options`: librdkafka's for the login. `topics`: those that tasks use."""
    return probe(f"Kafka {servers}", lambda: _look(servers, options, topics), PROBE_SECONDS)


def _look(
    servers: str, options: Mapping[str, str], topics: Collection[str]
) -> Iterator[CheckResult]:
    refusals = Refusals()
    own: dict[str, Any] = {
        "bootstrap.servers": servers,
        "logger": LIBRARY_LOG,
        "error_cb": refusals,
    }
    try:
        admin = AdminClient({**options, **own})
    except KafkaException as cause:
        raise ConfigError(f"settings of the Kafka client: {cause.args[0].str()}") from cause
    try:
        cluster = admin.list_topics(timeout=ANSWER_SECONDS)
    except KafkaException as cause:
        raise refusals.unanswered(admin, servers, cause) from cause
    yield ok(
        f"Kafka {servers}",
        f"cluster {cluster.cluster_id}, {_counted(len(cluster.brokers), 'broker')}",
    )
    # A broker that advertises this machine is right where the task files name it, too.
    is_local = all(map(is_loopback, _hosts_of(servers)))
    for broker in cluster.brokers.values():
        yield advertised(broker.id, str(broker.host), broker.port, is_local)
    for name in sorted(topics):
        if name in cluster.topics:
            partitions = []
            for each in cluster.topics[name].partitions.values():
                partitions.append((len(each.replicas), len(each.isrs), each.leader >= 0))
            yield replicas(name, partitions, len(cluster.brokers))
        else:
            remedy = (
                "Create it, correct the name, or have the task that writes it create it: "
                "loader.source.createTopic."
            )
            yield warning(f"Kafka topic {name}", "missing, though a task names it", remedy)
    for broker_id, settings in _settings(admin, cluster.brokers):
        yield from broker_settings(broker_id, settings, len(cluster.brokers))


def advertised(broker: int, host: str, port: int, is_local: bool) -> CheckResult:
    """Whether the name that a broker advertises leads to it from here. `is_local`: the task files
    name this machine."""
    subject, found = f"Kafka broker {broker}", f"advertises {host}:{port}"
    remedy = (
        "Set advertised.listeners of the broker to a name that every client resolves and reaches."
    )
    if is_loopback(host) and not is_local:
        return error(subject, f"{found}, which leads each client to its own machine", remedy)
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except socket.gaierror:
        return error(subject, f"{found}, a name that does not resolve here", remedy)
    except OSError as cause:
        return error(
            subject,
            f"{found}, where nothing answers: {cause.strerror or type(cause).__name__}",
            remedy,
        )
    return ok(subject, f"{found}, which answers")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # Names below `localhost` are loopback, too (RFC 6761).
        return host == "localhost" or host.endswith(".localhost")


def _hosts_of(servers: str) -> Iterator[str]:
    for server in servers.split(","):
        host, _, _ = server.strip().rpartition(":")
        yield host.strip("[]")


def replicas(topic: str, partitions: list[tuple[int, int, bool]], brokers: int) -> CheckResult:
    """The replicas of a topic. `partitions`: how many replicas each has, how many of them are in
    sync, whether it has a leader."""
    subject = f"Kafka topic {topic}"
    least = min((count for count, _, _ in partitions), default=0)
    found = f"{_counted(len(partitions), 'partition')}, replication factor {least}"
    leaderless = sum(not has_leader for _, _, has_leader in partitions)
    if leaderless:
        return error(
            subject,
            f"{found}; {leaderless} without a leader: they can be neither read nor written",
            "Restart its brokers.",
        )
    behind = sum(in_sync < count for count, in_sync, _ in partitions)
    if behind:
        return warning(
            subject,
            f"{found}; {behind} with replicas that lag or are unavailable",
            "Find the broker that is down or slow.",
        )
    if least == 1 < brokers:
        remedy = "Raise it to 3, with min.insync.replicas=2: kafka-reassign-partitions."
        return warning(subject, f"{found} on {brokers} brokers: a lost disk is lost data", remedy)
    return ok(subject, found)


def broker_settings(
    broker: int, settings: Mapping[str, str], brokers: int
) -> Iterator[CheckResult]:
    """A broker's own settings that would harm the bus."""
    subject = f"Kafka broker {broker} settings"
    faults = 0
    for key in _REPLICATED:
        wanted = settings.get(key, "")
        if wanted.isdigit() and int(wanted) > brokers:
            faults += 1
            lost = "no group and no transaction can be stored"
            if key == _REPLICATED[2]:
                lost = "topics that name no factor cannot be created"
            yield error(
                subject,
                f"{key}={wanted} with {_counted(brokers, 'broker')}: {lost}",
                f"Start {wanted} brokers, or set {key}={brokers}.",
            )
        elif wanted == "1" and brokers > 1 and key != _REPLICATED[2]:
            # Not the default factor, which is for new topics only: `replicas` looks at each topic.
            faults += 1
            yield warning(
                subject,
                f"{key}=1 with {brokers} brokers: one broker down stops groups or transactions",
                f"Set {key}={min(3, brokers)}.",
            )
    folders = split_list(settings.get("log.dirs") or settings.get("log.dir") or "")
    for folder in folders:
        if folder.startswith(("/tmp/", "/var/tmp/")):
            faults += 1
            yield warning(
                subject,
                f"keeps its records in {folder}, which systems clean up",
                "Set log.dirs to a permanent folder.",
            )
    if not faults:
        yield ok(subject, f"records in {', '.join(folders) or 'an unknown folder'}")


def _settings(admin: AdminClient, brokers: Iterable[int]) -> Iterator[tuple[int, dict[str, str]]]:
    """The settings of each broker that shows them: this user may lack the right to see them."""
    for broker in brokers:
        asked = ConfigResource(ResourceType.BROKER, str(broker))
        try:
            answer = admin.describe_configs([asked], request_timeout=ANSWER_SECONDS)[asked]
            shown = answer.result()
        except KafkaException:
            continue
        settings = {}
        for key in _SETTINGS:
            if key in shown:
                settings[key] = shown[key].value or ""
        yield broker, settings


def _counted(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number} {what}s"
