"""What must stop a fetch task: each with the right class and a sentence that helps, and with no
position moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pymysql import OperationalError
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database, free_port
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import (
    BusRejected,
    BusUnavailable,
    CdcError,
    ConfigError,
    NoPosition,
    PositionLost,
    PositionUnusable,
    SourceMisconfigured,
    SourceRefused,
    SourceUnavailable,
    UnreadableEvent,
)
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import AtTime, Edge
from cdcbus.producer.config import FetchTask, FilterConfig
from cdcbus.producer.server.connection import binlog_files
from cdcbus.producer.source.binlog_source import BinlogSource
from tests.integration.producer.reading import fetch_task, global_variable, position, read
from tests.integration.producer.running import Running
from tests.support.servers.few_rights import PASSWORD, user_with

pytestmark = [pytest.mark.integration, pytest.mark.source]

Store = Callable[[str], None]


@pytest.fixture
def task(source: Database, kafka: str, name: str, make_topic: Callable[..., str]) -> FetchTask:
    make_topic(name)
    return fetch_task(source, name, servers=kafka)


@pytest.fixture
def refused(
    positions: PositionStore, stored: Callable[[], str | None]
) -> Callable[[FetchTask, type[CdcError]], str]:
    """Runs a task to its end; the sentence that it ends with. What is stored must be as before."""

    def run(task: FetchTask, kind: type[CdcError]) -> str:
        before = stored()
        with pytest.raises(CdcError) as raised, Running(task, positions) as running:
            running.ends()
        assert type(raised.value) is kind, raised.value
        assert stored() == before
        return str(raised.value)

    return run


Refused = Callable[[FetchTask, type[CdcError]], str]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mysql-bin.000001:4", "not JSON: 'mysql-bin.000001:4'"),
        ("{", "not JSON"),
        ("[]", "not a binlog position"),
        ('{"offset":4}', "not a binlog position"),
        ('{"logfileName":"mysql-bin.000001","offset":"4"}', "not a binlog position"),
        (
            '{"offset":41,"partition":0,"positionKey":"orders_0","topic":"orders"}',
            '{"batchId":1,"logfileName":"mysql-bin.000501","offset":4}',
        ),
    ],
)
def test_a_stored_position_that_is_none(
    task: FetchTask, refused: Refused, store: Store, name: str, text: str, words: str
) -> None:
    store(text)
    sentence = refused(task, PositionUnusable)
    assert words in sentence
    assert f"/datas/task/{name}/position/{name}" in sentence


def test_no_position_and_no_rule(task: FetchTask, refused: Refused, name: str) -> None:
    sentence = refused(task, NoPosition)
    assert f"/datas/task/{name}/position/{name}" in sentence
    assert "consumer.offset=latest" in sentence


def test_a_start_rule_before_the_binlog(task: FetchTask, refused: Refused) -> None:
    assert "after the wanted 1970-01-01 00:00:00 UTC" in refused(
        replace(task, start=AtTime(0)), PositionLost
    )


def test_a_position_whose_file_is_gone(
    task: FetchTask, refused: Refused, store: Store, source_cursor: Cursor
) -> None:
    store(BinlogPosition("mysql-bin.999999", 4).to_json())
    files = binlog_files(source_cursor.connection)
    assert f"does not hold mysql-bin.999999:4: it has {files[0][0]} to {files[-1][0]}" in refused(
        task, PositionLost
    )


def test_a_position_behind_the_end_of_its_file(
    task: FetchTask, refused: Refused, store: Store, source_cursor: Cursor
) -> None:
    end = position(source_cursor)
    store(BinlogPosition(end.file, end.pos + 10**9).to_json())
    assert f"{end.file} is " in refused(task, PositionLost)


@pytest.mark.parametrize("past_edge", [1, 3, 8, 13])
@pytest.mark.parametrize("is_in_last_file", [True, False])
def test_a_position_that_is_no_edge_of_an_event(
    task: FetchTask,
    refused: Refused,
    store: Store,
    source_cursor: Cursor,
    past_edge: int,
    is_in_last_file: bool,
) -> None:
    """In an earlier file it must not count as the end of one that broke off."""
    start = position(source_cursor)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    if not is_in_last_file:
        source_cursor.execute("FLUSH BINARY LOGS")
    wrong = BinlogPosition(start.file, start.pos + past_edge)
    store(wrong.to_json())
    assert f"does not hold {wrong}" in refused(task, PositionLost)


def test_a_position_in_mid_transaction(
    task: FetchTask, refused: Refused, store: Store, source_cursor: Cursor
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    start = position(source_cursor)
    source_cursor.execute("INSERT INTO t VALUES (1)")
    (change,) = read(task, start, position(source_cursor))
    store(BinlogPosition(change.origin.file, change.origin.pos).to_json())
    sentence = refused(task, UnreadableEvent)
    assert sentence.startswith(f"{change.origin.file}:{change.origin.pos}: ")
    assert "not a transaction edge" in sentence


def test_a_wrong_password(task: FetchTask, refused: Refused) -> None:
    sentence = refused(replace(task, source=replace(task.source, password="wrong")), SourceRefused)
    assert f"refuses user {task.source.user}" in sentence
    assert (
        "consumer.source.password" in sentence
        or "consumer.source.username and password" in sentence
    )


@pytest.mark.parametrize(
    "address",
    [("no-such-host.invalid", 3306), ("127.0.0.1", None)],
    ids=["unknown host", "closed port"],
)
def test_a_source_that_does_not_answer(
    task: FetchTask, refused: Refused, address: tuple[str, int | None]
) -> None:
    host, port = address[0], address[1] or free_port(())
    sentence = refused(
        replace(task, source=replace(task.source, addresses=((host, port),))), SourceUnavailable
    )
    assert f"source {host}:{port} cannot be reached" in sentence


def test_an_unknown_topic(task: FetchTask, refused: Refused, kafka: str) -> None:
    sentence = refused(
        replace(task, publish=replace(task.publish, topic="no-such-topic")), BusRejected
    )
    assert f"Kafka topic no-such-topic at {kafka}" in sentence
    assert "kafka-topics --create --topic no-such-topic" in sentence


def test_a_broker_that_does_not_answer(
    task: FetchTask, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdcbus.plugins.kafka.producer.CONNECT_SECONDS", 0.5)
    servers = f"127.0.0.1:{free_port(())}"
    assert f"no Kafka broker answers at {servers}" in refused(
        replace(task, publish=replace(task.publish, servers=servers)), BusUnavailable
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kafka_options": {"no.such.option": "1"}}, "no.such.option"),
        ({"converter": "canalrow"}, "no converter is called canalrow"),
    ],
)
def test_settings_that_kafka_or_cdcbus_does_not_know(
    task: FetchTask, refused: Refused, change: dict[str, object], words: str
) -> None:
    assert words in refused(replace(task, publish=replace(task.publish, **change)), ConfigError)  # type: ignore[arg-type]


def test_a_partition_key_column_that_the_table_does_not_have(
    task: FetchTask, refused: Refused, store: Store, source_cursor: Cursor, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    store(position(source_cursor).to_json())
    source_cursor.execute("INSERT INTO t VALUES (1)")
    sentence = refused(
        replace(
            task, publish=replace(task.publish, partition_keys={f"{name}.T".upper(): ("UUID",)})
        ),
        ConfigError,
    )
    assert f"partitionKey.{name}.t: the table has no column UUID" in sentence


def test_a_record_that_is_larger_than_the_task_may_send(
    task: FetchTask, refused: Refused, store: Store, source_cursor: Cursor, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    store(position(source_cursor).to_json())
    source_cursor.execute("INSERT INTO t VALUES (1, REPEAT('secret', 400000))")
    options = {"message.max.bytes": "1000000"}
    sentence = refused(
        replace(task, publish=replace(task.publish, kafka_options=options)), BusRejected
    )
    assert "does not take a record of 24" in sentence
    assert f"table {name}.t (key columns: id), row 0 of its transaction" in sentence
    assert "secret" not in sentence


@pytest.fixture
def user(source: Database, source_cursor: Cursor, name: str) -> Iterator[str]:
    """A user who may log in, and nothing else."""
    with user_with(source_cursor, name):
        yield name


@pytest.mark.parametrize(
    "grants", [(), ("REPLICATION CLIENT",)], ids=["nothing", "no REPLICATION SLAVE"]
)
def test_a_user_who_may_not_read_the_binlog(
    task: FetchTask,
    refused: Refused,
    store: Store,
    source_cursor: Cursor,
    user: str,
    grants: tuple[str, ...],
) -> None:
    for grant in grants:
        try:
            source_cursor.execute(f"GRANT {grant} ON *.* TO '{user}'@'%'")
        except OperationalError:
            pytest.skip("the user of the tests may not grant")
    store(position(source_cursor).to_json())
    sentence = refused(
        replace(task, source=replace(task.source, user=user, password=PASSWORD)), SourceRefused
    )
    lacking = "REPLICATION SLAVE" if grants else "REPLICATION SLAVE, REPLICATION CLIENT"
    assert f"user {user} lacks {lacking}" in sentence
    assert f"GRANT {lacking} ON *.* TO that user" in sentence


@pytest.mark.usefixtures("least_metadata")
def test_all_that_keeps_a_source_from_being_read_is_named_at_once(
    task: FetchTask,
    refused: Refused,
    source: Database,
    source_cursor: Cursor,
    store: Store,
    user: str,
) -> None:
    store(position(source_cursor).to_json())
    poor = replace(task, source=replace(task.source, user=user, password=PASSWORD))
    with (
        global_variable(source, "binlog_format", "MIXED"),
        global_variable(source, "binlog_row_image", "MINIMAL"),
    ):
        sentence = refused(poor, SourceRefused)
    for diagnostic in (
        "binlog_format is MIXED, must be ROW",
        "binlog_row_image is MINIMAL, must be FULL",
        f"user {user} lacks REPLICATION SLAVE, REPLICATION CLIENT",
        f"user {user} lacks SELECT, and rows do not say what their columns are",
        "GRANT SELECT on the tables that are read, or set binlog_row_metadata=FULL",
    ):
        assert diagnostic in sentence


def test_two_readers_with_one_server_id(
    task: FetchTask, source_cursor: Cursor, positions: PositionStore, store: Store
) -> None:
    """The server lets the newer one in and ends the older one, which says so."""
    store(position(source_cursor).to_json())
    task = replace(task, source=replace(task.source, server_id=77_077))
    with (
        pytest.raises(SourceMisconfigured, match=r"consumer\.source\.slaveId"),
        Running(task, positions) as running,
    ):
        running.until(lambda: running.progress.position is not None)
        with BinlogSource(task) as second:
            for _ in second.batches(position(source_cursor)):
                break
            running.ends()


def test_the_two_ends_of_the_binlog_can_be_named(task: FetchTask, source_cursor: Cursor) -> None:
    with BinlogSource(task) as source:
        earliest, latest, end = (
            source.locate(Edge.EARLIEST),
            source.locate(Edge.LATEST),
            position(source_cursor),
        )
    assert (earliest.file, earliest.pos) == (binlog_files(source_cursor.connection)[0][0], 4)
    assert (latest.file, latest.pos) == (end.file, end.pos)
    assert latest.gtid and latest.server_uuid and earliest.file_created_ms <= latest.file_created_ms


@pytest.mark.parametrize("metadata", ["full_metadata", "least_metadata"])
@pytest.mark.parametrize("kind", ["DATETIME(6)", "TIMESTAMP(1)", "TIME(3)"])
def test_fractions_of_a_second_in_the_format_of_old_mariadb(
    task: FetchTask,
    refused: Refused,
    store: Store,
    source: Database,
    source_cursor: Cursor,
    is_mariadb: bool,
    kind: str,
    metadata: str,
    request: pytest.FixtureRequest,
) -> None:
    if not is_mariadb:
        pytest.skip("a format of MariaDB")
    request.getfixturevalue(metadata)
    with global_variable(source, "mysql56_temporal_format", "OFF"):
        source_cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})")
    store(position(source_cursor).to_json())
    source_cursor.execute("INSERT INTO t VALUES (1, '2024-01-02 03:04:05.5')")
    sentence = refused(task, UnreadableEvent)
    assert "column v has fractions of a second in MariaDB's old format" in sentence
    assert "ALTER TABLE ... FORCE" in sentence


def test_a_table_altered_since_where_rows_do_not_carry_their_columns(
    task: FetchTask,
    refused: Refused,
    store: Store,
    source_cursor: Cursor,
    least_metadata: None,
    name: str,
) -> None:
    source_cursor.execute("SET sql_log_bin = 0")  # the text would tell
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, gone INT)")
    source_cursor.execute("SET sql_log_bin = 1")
    store(position(source_cursor).to_json())
    source_cursor.execute("INSERT INTO t VALUES (1, 1)")
    source_cursor.execute("ALTER TABLE t DROP COLUMN gone")
    sentence = refused(task, UnreadableEvent)
    assert (
        f"table {name}.t: the row has 2 columns of types int, int, the table now has 1: id int"
        in sentence
    )
    assert "binlog_row_metadata=FULL" in sentence
    refused(task, UnreadableEvent)
    with_filter = replace(
        task,
        tables=FilterConfig(excludes=frozenset({f"{name}.T".upper()}), regexes=task.tables.regexes),
    )
    start = BinlogPosition.from_json(position(source_cursor).to_json())
    assert read(with_filter, start, start) == []
