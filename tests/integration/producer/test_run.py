"""The fetch task on real servers: what is in Kafka and what is stored in ZooKeeper, at every
moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
from kazoo.client import KazooClient
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import NO_MARK, Mark, PositionStore
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.errors import NoPosition
from cdcbus.plugins.kafka.producer_options import DEFAULTS
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.start import Edge
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FetchTask, FilterConfig
from cdcbus.producer.progress import Progress
from cdcbus.producer.publish.stages import Stages
from cdcbus.producer.schema.history_codec import FOLLOWED, Followed, followed_text
from cdcbus.producer.server.connection import binlog_files
from cdcbus.producer.source.between import is_nothing_between
from cdcbus.tasks.runtime.lag import lag_meter
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.position.znodes import written_path
from tests.contract.position_store import eventually
from tests.integration.producer.reading import fetch_task, position, read_batches
from tests.integration.producer.running import (
    SECONDS,
    Running,
    canal,
    high_watermark,
    ids,
    messages,
)

pytestmark = [pytest.mark.integration, pytest.mark.source]

Stored = Callable[[], str | None]
Store = Callable[[str], None]


@pytest.fixture
def task(source: Database, kafka: str, name: str, make_topic: Callable[..., str]) -> FetchTask:
    make_topic(name)
    return replace(fetch_task(source, name, servers=kafka), start=Edge.LATEST)


@pytest.fixture
def start(source_cursor: Cursor, positions: PositionStore, store: Store) -> BinlogPosition:
    """A table `t`, and the stored position after its CREATE."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    place = position(source_cursor)
    store(place.to_json())
    return place


def insert(cursor: Cursor, *numbers: int) -> BinlogPosition:
    """One transaction each; the end of the binlog afterwards."""
    for number in numbers:
        cursor.execute("INSERT INTO t VALUES (%s, 0)", (number,))
    return position(cursor)


class Watched(ZooKeeperPositions):
    """Notes, at each save, how many records Kafka has confirmed to hold by then."""

    def watch(self, kafka: str, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self.saves: list[tuple[BinlogPosition, int]] = []

    def save(self, text: str, mark: Mark = NO_MARK) -> None:
        self.saves.append(
            (BinlogPosition.from_json(text), high_watermark(self._kafka, self._topic))
        )
        super().save(text, mark)


def test_only_transaction_edges_are_stored_and_only_what_kafka_holds(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    kafka: str,
    zookeeper_client: KazooClient,
    name: str,
) -> None:
    watched = Watched(zookeeper_client, name, name)
    watched.watch(kafka, name)
    with Running(replace(task, position_interval_seconds=0.02), watched) as running:
        last = 0
        while len(watched.saves) < 5:
            source_cursor.execute("BEGIN")
            insert(source_cursor, *range(last, last := last + 30))
            source_cursor.execute("COMMIT")
        end = position(source_cursor)
        running.until_stored(end)
    edges = {
        BinlogCoordinates(edge.file, edge.pos)
        for edge in (start, *(batch.edge for batch in read_batches(task, start, end)))
        if edge is not None
    }
    records = canal(kafka, name)
    assert [int(record["data"][0]["id"]) for record in records] == list(range(last))
    for stored, held in watched.saves:
        here = BinlogCoordinates(stored.file, stored.pos)
        # An idle server may say that it is behind events that belong to no transaction.
        before = max(edge for edge in edges if edge <= here)
        assert here == before or is_nothing_between(source_cursor.connection, before, here)
        assert held >= sum(
            (record["file"], record["pos"]) < (stored.file, stored.pos) for record in records
        )


def test_files_of_an_idle_source_may_be_purged_once_the_task_has_seen_their_end(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    kafka: str,
    positions: PositionStore,
) -> None:
    """No transaction moves the position into the new file."""
    with Running(task, positions) as running:
        running.until_stored(insert(source_cursor, 1))
        source_cursor.execute("FLUSH BINARY LOGS")
        source_cursor.execute("FLUSH BINARY LOGS")
        end = position(source_cursor)
        running.until_stored(end)
        measure = lag_meter(task)
        running.until(lambda: measure(running.progress).seconds == 0.0)
    # The server keeps a file while a thread reads it, and notices late that its reader is gone.
    assert eventually(lambda: purged(source_cursor, end.file), SECONDS)
    with Running(task, positions) as running:
        running.until_stored(insert(source_cursor, 2))
    assert ids(kafka, task.task_id) == [1, 2]


def purged(cursor: Cursor, file: str) -> bool:
    """Whether the server has removed all binlog files before this one."""
    cursor.execute(f"PURGE BINARY LOGS TO '{file}'")
    return binlog_files(cursor.connection)[0][0] == file


def test_a_restart_reads_on_without_a_gap_and_without_a_repetition(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    stored: Stored,
    kafka: str,
    name: str,
) -> None:
    with Running(task, positions) as running:
        running.until_stored(insert(source_cursor, 1, 2, 3))
    while_stopped = insert(source_cursor, 4, 5)
    with Running(task, positions) as running:
        running.until_stored(while_stopped)
        running.until_stored(insert(source_cursor, 6))
    assert ids(kafka, name) == [1, 2, 3, 4, 5, 6]


def test_the_stop_leaves_the_position_of_everything_sent(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    stored: Stored,
    kafka: str,
    name: str,
) -> None:
    with Running(replace(task, position_interval_seconds=3600.0), positions) as running:
        running.until(lambda: running.progress.position is not None)
        assert BinlogPosition.from_json(stored() or "").pos == start.pos
        end = insert(source_cursor, 1, 2, 3)
        running.until(lambda: high_watermark(kafka, name) == 3)
    left = BinlogPosition.from_json(stored() or "")
    assert (left.file, left.pos) == (end.file, end.pos)
    assert left.timestamp_ms > 0
    assert left == running.progress.position


def is_second_over(stages: Stages) -> bool:
    """That in which the task began: MariaDB tells whole seconds, by a clock that is some
    milliseconds late, so that a row of that second may be older."""
    return time.time() - 0.1 > stages._begun_us // 1_000_000 + 1


def test_a_lone_transaction_is_acknowledged_at_once_and_its_stages_are_told(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the client would wait to fill a batch, and the task to store a position."""
    monkeypatch.setitem(DEFAULTS, "linger.ms", 600_000)
    with Running(replace(task, position_interval_seconds=3600.0), positions) as running:
        running.until(lambda: running.progress.position is not None)
        stages = running.progress.stages
        running.until(lambda: is_second_over(stages))
        insert(source_cursor, 1)
        running.until(lambda: high_watermark(kafka, name) == 1)
        numbers = count(2)

        def are_told() -> bool:
            # An acknowledgement that was slow, as of a client's first record, is told with the next.
            insert(source_cursor, next(numbers))
            return stages.published.quantiles(0.5) is not None

        running.until(are_told)
        read, to_kafka, published = (
            latency.quantiles(0.5) for latency in (stages.read, stages.to_kafka, stages.published)
        )
        assert read is not None and to_kafka is not None and published is not None
        assert 0 <= max(read[0], to_kafka[0]) <= published[0] < SECONDS
        assert to_kafka[0] > 0


def test_where_the_task_file_says_how_long_batches_are_filled_they_are(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    publish = replace(task.publish, kafka_options={"linger.ms": "600000"})
    task = replace(task, publish=publish, position_interval_seconds=3600.0)
    with Running(task, positions) as running:
        running.until(lambda: running.progress.position is not None)
        running.until(lambda: is_second_over(running.progress.stages))
        insert(source_cursor, 1, 2)
        running.until(lambda: running.progress.done == 2)
        assert high_watermark(kafka, name) == 0
    assert high_watermark(kafka, name) == 2
    assert running.progress.stages.read.quantiles(0.5) is not None


def test_a_stop_in_mid_transaction_leaves_the_position_before_it(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    stored: Stored,
    kafka: str,
    name: str,
) -> None:
    source_cursor.execute(
        "INSERT INTO t VALUES " + ",".join(f"({number}, 0)" for number in range(100_000))
    )
    end = position(source_cursor)

    def stop_at_first_rows(progress: Progress) -> None:
        if progress.done:
            running.stop.set()

    running = Running(replace(task, position_interval_seconds=0.0), positions, stop_at_first_rows)
    with running:
        running.until(running.stop.is_set)
    assert 0 < running.progress.done < 100_000
    assert BinlogPosition.from_json(stored() or "").pos == start.pos
    with Running(task, positions) as again:
        again.until_stored(end)
    sent = ids(kafka, name)
    assert sent[-100_000:] == list(range(100_000))
    assert sent[:-100_000] == list(range(running.progress.done))[: len(sent) - 100_000]


def test_what_an_operator_sets_while_the_task_is_idle_is_taken_over(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    store: Store,
    stored: Stored,
    kafka: str,
    name: str,
) -> None:
    with Running(task, positions) as running:
        end = insert(source_cursor, 1, 2, 3)
        running.until_stored(end)
        store(f'{{"batchId":7,"logfileName":"{start.file}","offset":{start.pos}}}')
        running.until(lambda: high_watermark(kafka, name) == 6)
        end = insert(source_cursor, 4)
        running.until_stored(end)
    assert ids(kafka, name) == [1, 2, 3, 1, 2, 3, 4]
    left = BinlogPosition.from_json(stored() or "")
    assert (left.file, left.pos) == (end.file, end.pos)
    assert left.batch_id > 7


def test_canal_s_cursor_is_taken_over_too(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    store: Store,
    kafka: str,
    name: str,
) -> None:
    insert(source_cursor, 1)
    second = position(source_cursor)
    end = insert(source_cursor, 2)
    store(
        '{"@type":"com.alibaba.otter.canal.protocol.position.LogPosition","identity":{"slaveId":-1,"sourceAddress":{"address":"db","port":3306}},'
        f'"postion":{{"gtid":"","included":false,"journalName":"{second.file}","position":{second.pos},"serverId":1,"timestamp":1}}}}'
    )
    with Running(task, positions) as running:
        running.until_stored(end)
    assert ids(kafka, name) == [2]


def test_a_node_deleted_under_a_task_without_start_rule_stops_it(
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    operator: KazooClient,
    stored: Stored,
) -> None:
    with (
        pytest.raises(NoPosition, match=r"consumer\.offset"),
        Running(replace(task, start=None), positions) as running,
    ):
        running.until(lambda: running.progress.position is not None)
        operator.delete(positions.path)
        running.ends()
    assert stored() is None


def test_the_first_start_stores_its_position_before_it_reads(
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    stored: Stored,
    kafka: str,
    name: str,
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    insert(source_cursor, 1)
    with Running(task, positions) as running:
        running.until(lambda: stored() is not None)
        running.until_stored(insert(source_cursor, 2))
    assert ids(kafka, name) == [2]


def test_a_start_rule_names_a_place_in_a_file(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    operator: KazooClient,
    kafka: str,
    name: str,
) -> None:
    operator.delete(positions.path)
    end = insert(source_cursor, 1, 2)
    with Running(replace(task, start=BinlogPosition(start.file, start.pos)), positions) as running:
        running.until_stored(end)
    assert ids(kafka, name) == [1, 2]


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize("lost", ["position", "position and what was written"])
def test_a_start_rule_is_for_the_first_start_only(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    operator: KazooClient,
    kafka: str,
    name: str,
    is_running: bool,
    lost: str,
) -> None:
    """Rows between would be left out, as the rule says `latest`."""

    def lose() -> None:
        operator.delete(positions.path)
        if lost != "position":
            operator.delete(written_path(name, name))
            followed = followed_text(
                Followed(BinlogCoordinates(start.file, start.pos), "here", True)
            )
            path = f"/datas/task/{name}/schema/{name}/{FOLLOWED}"
            operator.create(path, followed.encode(), makepath=True)

    refused = pytest.raises(
        NoPosition,
        match=rf"task {name} has run before, as .* shows.*cdcbus offset reset {name} --to PLACE",
    )
    if is_running:
        with refused, Running(replace(task, start=Edge.LATEST), positions) as running:
            running.until_stored(insert(source_cursor, 1))
            operator.ensure_path(f"/datas/task/{name}/schema/{name}")
            lose() if lost == "position" else operator.delete(positions.path)
            running.ends()
    else:
        with Running(task, positions) as running:
            running.until_stored(insert(source_cursor, 1))
        lose()
        insert(source_cursor, 2)
        with refused, Running(replace(task, start=Edge.LATEST), positions) as running:
            running.ends()
    assert ids(kafka, name) == [1]


def test_a_task_with_another_swimlane_is_the_same_task(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    zookeeper_client: KazooClient,
    kafka: str,
    name: str,
) -> None:
    """Its start rule would leave out, or repeat, rows."""
    with Running(task, positions) as running:
        running.until_stored(insert(source_cursor, 1))
    insert(source_cursor, 2)
    renamed = replace(task, swimlane="other", start=Edge.LATEST)
    other = ZooKeeperPositions(zookeeper_client, name, "other", is_only=True)
    refused = pytest.raises(
        NoPosition,
        match=rf"has run before, as /datas/task/{name}/written/{name} shows.*"
        "restore consumer.source.database if it was changed",
    )
    with refused, Running(renamed, other) as running:
        running.ends()
    zookeeper_client.create(other.path, zookeeper_client.get(positions.path)[0], makepath=True)
    with Running(renamed, other) as running:
        running.until_stored(insert(source_cursor, 3))
    assert ids(kafka, name) == [1, 2, 3]


def test_rows_of_tables_left_out_move_the_position(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    excluded = FilterConfig(regexes=(rf"{name}\..*",), excludes=frozenset({f"{name}.T".upper()}))
    with Running(replace(task, tables=excluded), positions) as running:
        running.until_stored(insert(source_cursor, 1, 2, 3))
        assert running.progress.done == 0
    assert high_watermark(kafka, name) == 0


def test_ogg_json_is_published_with_porter_s_keys(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    publish = replace(
        task.publish, converter="oggJson", partition_keys={f"{name}.T".upper(): ("N",)}
    )
    with Running(replace(task, publish=publish), positions) as running:
        insert(source_cursor, 1)
        source_cursor.execute("UPDATE t SET n = NULL")
        source_cursor.execute("DELETE FROM t")
        running.until_stored(position(source_cursor))
    found = messages(kafka, name)
    changes = [
        change for message in found for change in OggJson().from_bytes(message.value() or b"")
    ]
    assert [message.key() for message in found] == [b"0_", b"0_", b"null_", b"null_"]
    assert [(change.op, change.before, change.after) for change in changes] == [
        (Op.INSERT, None, {"id": "1", "n": "0"}),
        (Op.DELETE, {"id": "1", "n": "0"}, None),
        (Op.INSERT, None, {"id": "1", "n": None}),
        (Op.DELETE, {"id": "1", "n": None}, None),
    ]
    assert {change.table.id for change in changes} == {TableId(name, "t")}


@pytest.mark.usefixtures("least_metadata")
def test_columns_renamed_while_the_task_reads_are_known_also_when_rows_do_not_carry_them(
    source_cursor: Cursor,
    start: BinlogPosition,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    with Running(task, positions) as running:
        running.until_stored(insert(source_cursor, 1))
        source_cursor.execute("ALTER TABLE t CHANGE n renamed INT")
        running.until_stored(insert(source_cursor, 2))
    assert [record["data"] for record in canal(kafka, name)] == [
        [{"id": "1", "n": "0"}],
        [{"id": "2", "renamed": "0"}],
    ]
