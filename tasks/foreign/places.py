"""Reads the positions of the other tools from canal's ZooKeeper, Debezium's offsets and Maxwell's
tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from kazoo.exceptions import NoNodeError

from cdcbus.plugins.errors import BusUnavailable, ConfigError, PositionError
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, topic_error
from cdcbus.plugins.mysql.tls import MysqlTls, TlsMode
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server.connection import connect as connect_source
from cdcbus.producer.server.connection import reported
from cdcbus.tasks.foreign import canal, debezium
from cdcbus.tasks.foreign.maxwell import source_of
from cdcbus.tasks.foreign.offsets import (
    Start,
    connector_offset,
    cursor_path,
    from_cursor,
    from_maxwell_row,
    from_meta_file,
    offsets_in_file,
)
from cdcbus.tasks.foreign.porter import looked_at
from cdcbus.tasks.zookeeper.znode import answer

AUTO = "auto"
KAFKA_SECONDS = 20.0


def start_of(tool: str, settings: Mapping[str, str], keys: Mapping[str, str], where: str) -> Start:
    """The tool's position as the start of a task. `where`: a file, ZooKeeper's address,
    TOPIC@BROKERS, or `auto` for the place in the settings. Raises CdcError, also where nothing is
    stored."""
    address = keys.get("consumer.source.address", "").partition(",")[0]
    if tool == canal.TOOL:
        return _of_canal(settings, address, where)
    if tool == debezium.TOOL:
        return _of_debezium(settings, where)
    if where != AUTO:
        raise ConfigError(f"--offsets {where}: Maxwell's are in its database; expected {AUTO}")
    return _of_maxwell(settings)


def _of_canal(settings: Mapping[str, str], address: str, where: str) -> Start:
    if where == AUTO:
        where = settings.get("canal.zkServers", "").strip()
        if not where:
            raise ConfigError(
                "--offsets auto: canal.zkServers is not set; give ZooKeeper's address, or the file "
                "meta.dat"
            )
    if Path(where).is_file():
        return from_meta_file(Path(where).read_bytes(), address)
    path = cursor_path(settings[canal.DESTINATION])
    with looked_at(where) as client:
        try:
            return from_cursor(answer(client.get_async(path))[0], address)
        except NoNodeError as error:
            raise PositionError(
                f"ZooKeeper at {where} has no cursor of canal at {path}; check address and "
                "destination"
            ) from error


def _of_debezium(settings: Mapping[str, str], where: str) -> Start:
    name, prefix = settings.get("name", ""), settings.get("topic.prefix", "")
    if where == AUTO:
        where = settings.get("offset.storage.file.filename", "")
        if not where:
            raise ConfigError(
                "--offsets auto: offset.storage.file.filename is not set; give the file, or "
                "TOPIC@BROKERS"
            )
    topic, at, servers = where.partition("@")
    # A file's name may hold an @.
    if not at or Path(where).is_file():
        try:
            pairs = offsets_in_file(Path(where).read_bytes())
        except OSError as error:
            raise ConfigError(
                f"--offsets {where}: cannot be read: {error.strerror}; expected a file, or "
                "TOPIC@BROKERS"
            ) from error
    else:
        pairs = records_of(topic, servers)
    # Debezium Server, whose settings name no connector, stores them under its sink's name.
    found = connector_offset(pairs, name or "kafka", prefix)
    if found is None:
        raise PositionError(
            f"{where} has no offset of connector {name}, topic.prefix {prefix}; check both names"
        )
    return found


def records_of(topic: str, servers: str) -> Iterator[tuple[bytes, bytes | None]]:
    """All records of a topic; those with one key are in order. Raises BusUnavailable, BusRejected
    where the user lacks a right, and PositionError where there is no such topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "cdcbus-import",
            "enable.auto.commit": False,
            # Otherwise the end of a partition would look like silence.
            "enable.partition.eof": True,
            "logger": LIBRARY_LOG,
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=KAFKA_SECONDS).topics[topic]
        if found.error is not None:
            raise topic_error(servers, topic, found.error) or PositionError(
                f"Kafka topic {topic} at {servers}: {found.error.str()}; check the name"
            )
        for number in found.partitions:
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
            while (record := consumer.poll(KAFKA_SECONDS)) is not None:
                error = record.error()
                if error is None:
                    yield record.key() or b"", record.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    break
                else:
                    raise KafkaException(error)
            else:
                raise BusUnavailable(f"Kafka at {servers} sends no records of {topic}")
    except KafkaException as error:
        raise BusUnavailable(
            f"Kafka at {servers} does not answer for {topic}: {error.args[0].str()}; check brokers "
            "and topic"
        ) from error
    finally:
        consumer.close()


def _of_maxwell(settings: Mapping[str, str]) -> Start:
    """Maxwell's position for its client id and the id of the server that it reads."""
    schema = settings.get("schema_database", "").strip() or "maxwell"
    # The name goes into the SQL below, which takes no parameter there.
    if not re.fullmatch(r"[\w$-]+", schema):
        raise ConfigError(f"schema_database={schema} is not the name of a database")
    client = settings.get("client_id", "").strip() or "maxwell"
    own = {name: settings.get(name, "").strip() for name in ("host", "port", "user", "password")}
    read = _source(source_of(settings))
    # Its positions may be on another server than the one that it reads.
    kept = _source({**own, "ssl": settings.get("ssl", "")})
    with reported(read), connect_source(read) as connection, connection.cursor() as cursor:
        # Maxwell keeps a row for each server that it has read.
        cursor.execute("SELECT @@GLOBAL.server_id")
        (server_id,) = cursor.fetchone() or (0,)
    with reported(kept), connect_source(kept) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT binlog_file, binlog_position, gtid_set FROM `{schema}`.positions "
            "WHERE client_id = %s AND server_id = %s",
            (client, server_id),
        )
        row = cursor.fetchone()
        # Also those that it has not begun.
        cursor.execute(
            f"SELECT database_name, table_name FROM `{schema}`.bootstrap "
            "WHERE client_id = %s AND is_complete = 0 ORDER BY id",
            (client,),
        )
        tables = [f"{database}.{table}" for database, table in cursor.fetchall()]
    if row is None:
        raise PositionError(
            f"{schema}.positions has no row of client_id {client} and server {server_id}; check "
            "client_id and schema_database"
        )
    file, pos, gtids = row
    # One table can be asked for several times.
    return from_maxwell_row(file, pos, gtids, tuple(dict.fromkeys(tables)))


def _source(at: Mapping[str, str]) -> SourceConfig:
    try:
        port = int(at["port"] or 3306)
        mode = TlsMode((at["ssl"] or TlsMode.PREFERRED).lower().replace("_", "-"))
    except ValueError as error:
        raise ConfigError(f"port or ssl cannot be read: {error}") from error
    return SourceConfig(
        ((at["host"] or "localhost", port),), at["user"], at["password"], tls=MysqlTls(mode)
    )
