"""Checks what a fetch task needs: the source, the topics, and where it would start. Changes
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.producer import TopicShape
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.producer.config import FetchTask
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.server import connection as servers
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.start import start_position
from cdcbus.tasks.preflight.privileges import describe_grants
from cdcbus.tasks.preflight.result import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    CheckResult,
    Outcome,
    counted,
    has_failed,
    ok,
    probe,
    warning,
)
from cdcbus.tasks.preflight.server import (
    SETTINGS,
    describe_heartbeats,
    describe_logged,
    describe_replicas,
    describe_settings,
    is_full,
)
from cdcbus.tasks.preflight.snapshot import check_snapshot
from cdcbus.tasks.preflight.source_tables import check_rules, check_tables

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

    Look = Callable[[Connection], Iterable[CheckResult]]


def check_fetch(task: FetchTask, store: PositionStore) -> list[CheckResult]:
    """All results of a fetch task."""
    # Shorter than a probe, so that the connection's own error is reported, not the probe's timeout.
    short = replace(task, source=replace(task.source, connect_timeout_seconds=CONNECT_SECONDS))
    return check_source(short, store) + check_written_topics(task.publish)


def check_source(task: FetchTask, store: PositionStore) -> list[CheckResult]:
    """All results of the source. Each probe has a connection of its own. Where the task cannot log
    in at any address, the logins are the only results."""
    seen: list[CheckResult] = []
    usable: list[FetchTask] = []
    # Each one, as a failover may lead to any of them.
    for address in task.source.addresses:
        there = replace(task, source=replace(task.source, addresses=(address,)))
        login = _look(there, "source", partial(_login, there))
        seen += login
        if not has_failed(login):
            usable.append(there)
    if not usable:
        return seen
    task = usable[0]
    seen += _settings_and_grants(task)
    for other in usable[1:]:
        seen += _of_other(other)
    seen += _look(task, "source server ids", lambda connection: describe_replicas(task, connection))
    seen += _look(task, "heartbeats", lambda connection: describe_heartbeats(task, connection))
    seen += _look(task, "source tables", lambda connection: check_tables(task, connection))
    seen += probe("mapper", lambda: check_rules(task))
    seen += _look(task, "snapshot", lambda connection: check_snapshot(task, connection))
    return seen + probe("start", lambda: _start(task, store))


def _settings_and_grants(task: FetchTask) -> list[CheckResult]:
    seen = _look(
        task,
        "source settings",
        lambda connection: describe_settings(
            servers.global_variables(connection, SETTINGS), task.source
        ),
    )
    grants = _look(task, "source grants", _grants)
    if not has_failed(grants):
        grants += _look(task, "logged rows", partial(describe_logged, task))
    return seen + grants


def _of_other(task: FetchTask) -> list[CheckResult]:
    """What is wrong with the settings and grants of an address that is read after a failover."""
    host, port = task.source.addresses[0]
    place = f"at {host}:{port}"
    wrong = []
    for result in _settings_and_grants(task):
        if result.outcome is not Outcome.OK:
            wrong.append(replace(result, subject=f"{result.subject} {place}"))
    return wrong or [ok(f"settings {place}", "as needed, and so are the grants")]


def _look(task: FetchTask, subject: str, look: Look) -> list[CheckResult]:
    def connected() -> Iterator[CheckResult]:
        with (
            closing(servers.connect(task.source, ANSWER_SECONDS)) as connection,
            servers.reported(task.source),
        ):
            yield from look(connection)

    return probe(subject, connected)


def _login(task: FetchTask, connection: Connection) -> Iterator[CheckResult]:
    host, port = task.source.addresses[0]
    ((version,),) = servers.query(connection, "SELECT VERSION()")
    ((_, cipher),) = servers.query(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    tls = "without TLS"
    if cipher:
        tls = f"TLS with {cipher}"
    yield ok(f"source {host}:{port}", f"{version}, user {task.source.user} can log in, {tls}")


def _grants(connection: Connection) -> Iterator[CheckResult]:
    return describe_grants(
        servers.grants(connection), is_full(servers.global_variables(connection, SETTINGS))
    )


def _start(task: FetchTask, store: PositionStore) -> Iterator[CheckResult]:
    with BinlogSource(task) as source:
        position, is_stored = start_position(task, store, source)
    with (
        closing(servers.connect(task.source, ANSWER_SECONDS)) as connection,
        servers.reported(task.source),
    ):
        files = servers.binlog_files(connection)
    behind = describe_behind(position, files)
    if is_stored:
        rule = f"the stored position {store.path}"
    elif store.load():
        rule = "consumer.source.onPositionLost, as the stored position is lost"
    else:
        rule = "consumer.offset, as nothing is stored"
    yield ok(
        "start",
        f"at {position} by {rule}; {behind} behind the end of the binlog, which still holds it",
    )


def describe_behind(position: BinlogPosition, files: list[tuple[str, int]]) -> str:
    """The number of bytes from a position to the end of the binlog, and of files that begin after
    it."""
    more = len(files) - 1 - _file_number(position, files)
    behind = f"{bytes_behind(position, files):,} bytes"
    if not more:
        return behind
    return f"{behind} and {counted(more, 'file')}"


def bytes_behind(position: BinlogPosition, files: list[tuple[str, int]]) -> int:
    """The number of bytes from a position to the end of the binlog. `files`: the server's, oldest
    first, including the position's."""
    remaining = files[_file_number(position, files) :]
    return sum(size for _, size in remaining) - position.pos


def _file_number(position: BinlogPosition, files: list[tuple[str, int]]) -> int:
    names = [name for name, _ in files]
    return names.index(position.file)


def check_written_topics(config: PublishConfig) -> list[CheckResult]:
    """The results of the topics that a task names to write to."""
    seen: list[CheckResult] = []
    for name in named_topics(config):
        seen += probe(f"Kafka topic {name}", partial(_topic, config, name))
    return seen


def _topic(config: PublishConfig, topic: str) -> Iterator[CheckResult]:
    publisher = KafkaPublisher(config, make_converter(config.converter), Event())
    shape = publisher.shape(topic, ANSWER_SECONDS)
    new = config.new_topics and config.new_topics.of(topic)
    if shape is None and new is not None:
        made = (
            f"does not exist; a start creates it, with {new.partitions} partitions and replication "
            f"factor {new.replicas}"
        )
        yield ok(f"Kafka topic {topic}", made)
    elif shape is not None:
        yield describe_topic(topic, shape)


def describe_topic(topic: str, shape: TopicShape) -> CheckResult:
    """The result for a topic's partitions and replicas. A single replica is a warning only where
    the cluster has more brokers."""
    subject = f"Kafka topic {topic}"
    found = f"{counted(shape.partitions, 'partition')}, replication factor {shape.replicas}"
    if shape.replicas == 1 < shape.brokers:
        return warning(
            subject,
            f"{found}: losing one broker loses rows",
            f"Raise the replication factor; the cluster has {shape.brokers} brokers.",
        )
    return ok(subject, found)
