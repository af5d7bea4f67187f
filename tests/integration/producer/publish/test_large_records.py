"""Records that are larger than a topic takes: the task stops, or leaves a letter; it never
loops, and loses no other row."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.services.dead_letters import FetchLetter, FetchLetters, LargeRow
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import BusRejected
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.producer.config import FetchTask
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, ids, messages
from tests.support.topics.new_topics import create_topics

pytestmark = pytest.mark.integration

LIMIT_BYTES = 200_000


@pytest.fixture
def task(
    source: Database, source_cursor: Cursor, kafka: str, name: str, positions: PositionStore
) -> FetchTask:
    """With a table `t`, whose topic has a limit below which the task's batches are;
    uncompressed, so that sizes are known."""
    admin = AdminClient({"bootstrap.servers": kafka})
    create_topics(admin, NewTopic(name, 1, 1, config={"max.message.bytes": str(LIMIT_BYTES)}))
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    positions.save(position(source_cursor).to_json())
    return publishing(
        fetch_task(source, name, servers=kafka),
        **{"compression.type": "none", "batch.size": "100000"},
    )


def publishing(task: FetchTask, dead_letter_topic: str = "", **options: str) -> FetchTask:
    publish: PublishConfig = replace(
        task.publish,
        dead_letter_topic=dead_letter_topic,
        kafka_options={**task.publish.kafka_options, **options},
    )
    return replace(task, publish=publish)


def insert(cursor: Cursor) -> None:
    """Rows of which 3 and 6 are too large, in two transactions."""
    lengths = {2: 150_000, 3: 300_000, 6: 300_000}
    for first in (1, 5):
        rows = [(number, "x" * lengths.get(number, 10)) for number in range(first, first + 4)]
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", rows)


def test_it_stops_the_task_with_its_place_and_the_limit(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, positions: PositionStore
) -> None:
    before = positions.load()
    insert(source_cursor)
    sentence = (
        f"Kafka topic {name} at {kafka} does not take a record of 3.* bytes, more than its limit "
        f"of {LIMIT_BYTES} bytes .*: "
        rf"table {name}\.t \(key columns: id\), row [12] of its transaction, event at "
        r".*loader\.onError=deadletter"
    )
    with pytest.raises(BusRejected, match=sentence) as raised, Running(task, positions) as running:
        running.ends()
    assert "xxx" not in str(raised.value)
    assert positions.load() == before


def test_it_leaves_a_letter_and_the_others_go_on(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    dead_letters = make_topic(f"{name}-letters")
    insert(source_cursor)
    with Running(publishing(task, dead_letters), positions) as running:
        running.until_stored(position(source_cursor))
    assert ids(kafka, name) == [1, 2, 4, 5, 7, 8]
    found = [dict(message.headers() or []) for message in messages(kafka, dead_letters)]
    assert {dead_letter["cdcbus.key"] for dead_letter in found} == {b"3_", b"6_"}
    assert [dead_letter["cdcbus.table"] for dead_letter in found] == [f"{name}.t".encode()] * 2
    assert all(message.value() == b"" for message in messages(kafka, dead_letters))


def test_a_letter_that_the_dead_letter_topic_does_not_take_stops_the_task(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, positions: PositionStore
) -> None:
    dead_letters = f"{name}-letters"
    admin = AdminClient({"bootstrap.servers": kafka})
    create_topics(admin, NewTopic(dead_letters, 1, 1, config={"max.message.bytes": "10"}))
    before = positions.load()
    insert(source_cursor)
    with (
        pytest.raises(
            BusRejected, match=f"Kafka topic {dead_letters} at .* does not take a record"
        ),
        Running(publishing(task, dead_letters), positions) as running,
    ):
        running.ends()
    assert positions.load() == before


def test_a_topic_whose_limit_is_below_a_batch_stops_the_task_and_names_both_settings(
    task: FetchTask, source_cursor: Cursor, positions: PositionStore
) -> None:
    source_cursor.execute("INSERT INTO t SELECT seq, REPEAT('x', 100000) FROM seq_1_to_10")
    task = publishing(task, **{"batch.size": "1000000", "linger.ms": "500"})
    stops = pytest.raises(
        BusRejected, match=r"max\.message\.bytes is less than kafka\.batch\.size \(1000000\)"
    )
    with stops, Running(task, positions) as running:
        running.ends()


def test_the_letters_are_listed_and_dropped_but_not_replayed(
    task: FetchTask, source: Database, source_cursor: Cursor, kafka: str, zookeeper: str, name: str, tmp_path: Path,
    make_topic: Callable[..., str], positions: PositionStore,
) -> None:  # fmt: skip
    dead_letters = make_topic(f"{name}-letters")
    insert(source_cursor)
    with Running(publishing(task, dead_letters), positions) as running:
        running.until_stored(position(source_cursor))
    file = tmp_path / "task.properties"
    lines = {
        "taskId": name, "consumer.consumerName": "CanalFetch", "consumer.converter": "canalRow", "consumer.source.database": name,
        "consumer.source.address": f"{source.host}:{source.port}", "consumer.source.username": source.user, "consumer.offset": "latest",
        "loader.loaderName": "KAFKA_SYNC", "loader.source.servers": kafka, "loader.source.topic": name,
        "loader.onError": "deadletter", "loader.deadletterTopic": dead_letters,
    }  # fmt: skip
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    runner = CliRunner(env={"CDCBUS_ZOOKEEPER": zookeeper})

    def run(command: str, *words: str) -> Result:
        return runner.invoke(main, ["dlq", command, str(file), *words])

    [first, second] = json.loads(run("list", "--json").output)
    assert "a record of 3" in first["reason"]
    assert first["record"].startswith(f"{name}/")
    [shown] = json.loads(run("show", second["record"], "--json").output)
    assert (shown["table"], shown["key"], shown["topic"]) == (f"{name}.t", "6_", name)
    assert first["record"] in run("list").output
    refused = run("replay", "--all", "--yes")
    assert refused.exit_code == 1
    assert "the letters of a fetch task hold no records" in refused.output
    assert run("drop", first["record"], "--yes").output == "1 dead letters dropped\n"
    assert [each["record"] for each in json.loads(run("list", "--json").output)] == [
        second["record"]
    ]
    assert run("drop", "--all", "--yes").exit_code == 0
    assert run("list").output == "no dead letters are open\n"


def test_more_letters_than_the_kafka_client_queues_are_dropped_at_once(
    task: FetchTask, name: str, make_topic: Callable[..., str]
) -> None:
    with_letters = publishing(task, make_topic(f"{name}-dead"))
    letters = FetchLetters(with_letters)
    letters.drop([FetchLetter(LargeRow("t/f:4/0/0", ""), "", {})] * 100_001)
    assert letters.dead_letters() == []
