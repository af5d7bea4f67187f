"""Records of Debezium's connectors, with the schema that Kafka Connect's JsonConverter writes, on
real targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask, SchemaChange
from cdcbus.plugins.converters.debezium_json import DebeziumJson
from cdcbus.plugins.errors import ConversionError, TargetRejected
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_applier import server, task
from tests.support.topics.records import records_of

__all__ = ["server", "task"]
pytestmark = pytest.mark.integration
Fields = Mapping[str, Mapping[str, Any]]


@contextmanager
def applying(server: TargetServer, task: LoadTask) -> Iterator[PartitionApplier]:
    loader = make_loader("JdbcBatch", server.target())
    try:
        applier = PartitionApplier(task, DebeziumJson(), loader)
        applier.applied_offsets()
        yield applier
    finally:
        loader.close()


def inserted(fields: Fields, row: Mapping[str, Any]) -> bytes:
    """The record of an INSERT into `t`; `fields`: column -> its schema."""
    columns = [{"field": name, "optional": True, **field} for name, field in fields.items()]
    image = {"type": "struct", "field": "after", "fields": columns}
    source = {"connector": "mysql", "db": "shop", "table": "t", "ts_ms": 1}
    payload = {"before": None, "after": row, "source": source, "op": "c"}
    return orjson.dumps({"schema": {"type": "struct", "fields": [image]}, "payload": payload})


def apply(applier: PartitionApplier, *values: bytes, start: int = 0) -> None:
    made = records_of(list(enumerate(values, start)))
    applier.apply(TopicPartition("shop", 0), made, start + len(values), 1)


def test_evolve_widens_only_what_is_surely_too_narrow(
    server: TargetServer, task: LoadTask, caplog: pytest.LogCaptureFixture
) -> None:
    """A CHAR has the schema of a LONGTEXT: taken for one, it could not stay in a key of MySQL, and a
    view of PostgreSQL holds each type as it is."""
    is_mysql = server.quoted("a") == "`a`"
    moment, small = ("DATETIME", "TINYINT") if is_mysql else ("TIMESTAMP(0)", "SMALLINT")
    server.execute(
        f"CREATE TABLE {{schema}}.t (k CHAR(36) PRIMARY KEY, n {small}, made {moment}, "
        "amount DECIMAL(9,2), v INT)"
    )
    server.execute("CREATE VIEW {schema}.seen AS SELECT k, n, made, amount FROM {schema}.t")
    fields = {
        "k": {"type": "string"},
        "n": {"type": "int16"},
        "made": {"type": "int64", "name": "io.debezium.time.Timestamp"},
        "amount": {"type": "double"},
        "v": {"type": "int64"},
        "more": {"type": "string"},
    }
    row = {"k": "a", "n": 1, "made": 1709200800000, "amount": 1.5, "v": 2**40, "more": "x"}
    with applying(server, replace(task, schema_change=SchemaChange.EVOLVE)) as applier:
        apply(applier, inserted(fields, row))
        with pytest.raises(TargetRejected, match="too long"):
            apply(applier, inserted(fields, {**row, "k": "b" * 37}), start=1)
    types = server.rows(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = '{schema}' AND table_name = 't' ORDER BY ordinal_position"
    )
    if is_mysql:
        expected = ["char", "tinyint", "datetime", "decimal", "bigint", "longtext"]
    else:
        expected = ["character", "smallint", "timestamp without time zone", "numeric", "bigint"]
        expected.append("text")
    assert [type_ for _, type_ in types] == expected
    assert server.rows("SELECT v, more FROM {schema}.t") == [(2**40, "x")]
    [added] = [text for text in caplog.messages if "ADD COLUMN" in text]
    assert added.endswith("; records do not name the source's type, which may hold less")


def test_a_text_that_can_be_bytes_is_not_written_to_bytes(
    server: TargetServer, task: LoadTask
) -> None:
    """binary.handling.mode=base64 or hex makes a text of them, which the schema does not tell."""
    kind = "VARBINARY(9)" if server.quoted("a") == "`a`" else "BYTEA"
    server.execute(f"CREATE TABLE {{schema}}.t (id INT PRIMARY KEY, v {kind})")
    id_ = {"type": "int32"}
    with applying(server, task) as applier:
        with pytest.raises(
            ConversionError, match=r"comes as text, .* binary\.handling\.mode=bytes"
        ):
            apply(applier, inserted({"id": id_, "v": {"type": "string"}}, {"id": 1, "v": "AP8="}))
        apply(applier, inserted({"id": id_, "v": {"type": "bytes"}}, {"id": 1, "v": "AP8="}))
    assert server.rows("SELECT v FROM {schema}.t") == [(b"\x00\xff",)]


def test_a_uuid_of_mariadb_is_taken(server: TargetServer, task: LoadTask) -> None:
    kind = "CHAR(36)" if server.quoted("a") == "`a`" else "UUID"
    server.execute(f"CREATE TABLE {{schema}}.t (id {kind} PRIMARY KEY)")
    uuid = "6ccd780c-baba-1026-9564-5b8c656024db"
    field = {"type": "string", "name": "io.debezium.data.Uuid"}
    with applying(server, task) as applier:
        apply(applier, inserted({"id": field}, {"id": uuid}))
    assert [(str(id_),) for (id_,) in server.rows("SELECT id FROM {schema}.t")] == [(uuid,)]
