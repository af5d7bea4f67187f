"""A fresh start: what an earlier demo left is removed, the shop is empty everywhere. Touches the
demo's own names only."""

from __future__ import annotations

import time
from collections.abc import Iterable

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from cdcbus.ops.demo.shop.schema import SCHEMA, mariadb_ddl, postgresql_ddl
from cdcbus.ops.stack import sql
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import BusRejected, BusUnavailable
from cdcbus.plugins.kafka.client.asking import offset_in
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.server.connection import latest_position
from cdcbus.tasks.zookeeper.connection import ROOT

TOPIC = "demo-shop"
PARTITIONS = 3
PATIENCE_SECONDS = 30.0


def empty_shop(server: str, database: Database) -> None:
    """Creates the shop's empty tables on one of the stack's databases, after dropping old ones."""
    statements = mariadb_ddl()
    if server == "postgresql":
        statements = postgresql_ddl()
    for statement in statements:
        sql.execute(server, database, statement)


def no_shop(server: str, database: Database) -> None:
    """Drops the shop, and does not create it again."""
    statement = f"DROP DATABASE IF EXISTS {SCHEMA}"
    if server == "postgresql":
        statement = f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"
    sql.execute(server, database, statement)


def forget_offsets(database: Database, task_id: str) -> None:
    """Removes the task's applied offsets from PostgreSQL; MariaDB holds them in the shop."""
    # NULL where the table does not exist yet.
    [(table,)] = sql.execute("postgresql", database, "SELECT to_regclass('cdcbus_position')").rows
    if table is not None:
        sql.execute("postgresql", database, f"DELETE FROM cdcbus_position WHERE task = '{task_id}'")


def binlog_end(source: Database) -> BinlogPosition:
    """Where the source's binlog ends now."""
    with sql.connect("source", source) as connection:
        return latest_position(connection)


def forget_tasks(client: KazooClient, task_ids: Iterable[str]) -> None:
    """Removes what ZooKeeper holds about these tasks."""
    for task_id in task_ids:
        if client.exists(f"{ROOT}/task/{task_id}"):
            client.delete(f"{ROOT}/task/{task_id}", recursive=True)


def empty_topic(kafka: str) -> None:
    """Deletes the topic and creates it again, with PARTITIONS partitions that answer. Raises
    BusRejected, BusUnavailable."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    deadline = time.monotonic() + PATIENCE_SECONDS
    _delete(admin)
    # Kafka deletes in the background: until then the topic exists, and cannot be created.
    for is_done in (_is_created, _is_answering):
        while not is_done(admin):
            if time.monotonic() > deadline:
                raise BusUnavailable(
                    f"Kafka at {kafka} has not created the topic {TOPIC} again within "
                    f"{PATIENCE_SECONDS:.0f} s; try again"
                )
            admin.poll(0.1)


def _delete(admin: AdminClient) -> None:
    try:
        admin.delete_topics([TOPIC], operation_timeout=PATIENCE_SECONDS)[TOPIC].result(
            PATIENCE_SECONDS
        )
    except KafkaException as error:
        # Otherwise there was none to delete.
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise BusRejected(
                f"Kafka does not delete the topic {TOPIC}: {error.args[0].str()}"
            ) from error


def _is_answering(admin: AdminClient) -> bool:
    """Whether each partition has a leader that knows it: a new topic exists before that."""
    end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    partitions = [confluent_kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    wanted = dict.fromkeys(partitions, end)
    try:
        for future in admin.list_offsets(wanted, request_timeout=PATIENCE_SECONDS).values():
            offset_in(future)
    except KafkaException:
        return False
    return True


def _is_created(admin: AdminClient) -> bool:
    """False while the old topic is still being deleted."""
    try:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], operation_timeout=PATIENCE_SECONDS)[
            TOPIC
        ].result(PATIENCE_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise BusRejected(
                f"Kafka does not create the topic {TOPIC}: {error.args[0].str()}"
            ) from error
        return False
    return True
