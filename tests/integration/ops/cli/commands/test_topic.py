"""`cdcbus topic` on a real broker and a real ZooKeeper."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cdcbus.ops.cli.main import main
from cdcbus.plugins.kafka.topic_log import ANSWER_SECONDS
from cdcbus.plugins.positions import KafkaPosition, kafka_positions_to_json
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration
ORDERS = Table(
    TableId("shop", "orders"), (Column("id", "int", 4), Column("note", "varchar(20)")), ("id",)
)
ITEMS = Table(TableId("shop", "items"), (Column("id", "int", 4),), ("id",))
FIRST_MS = 1_700_000_000_000  # of the records: one a second


def change(table: Table, op: Op, before: Row | None, after: Row | None) -> RowChange:
    return RowChange(table, op, before, after, Origin(commit_us=FIRST_MS * 1000))


CHANGES = [
    change(ORDERS, Op.INSERT, None, {"id": "1", "note": "first one"}),
    change(ITEMS, Op.INSERT, None, {"id": "7"}),
    change(ORDERS, Op.UPDATE, {"id": "1", "note": "first one"}, {"id": "1", "note": None}),
    change(ORDERS, Op.DELETE, {"id": "1", "note": None}, None),
]
LINES = [
    "2023-11-14T22:13:20.000Z 0@0 INSERT   shop.orders id=1 note='first one'",
    "2023-11-14T22:13:21.000Z 0@1 INSERT   shop.items id=7",
    "2023-11-14T22:13:22.000Z 0@2 UPDATE   shop.orders id=1 note='first one'→NULL",
    "2023-11-14T22:13:23.000Z 0@3 DELETE   shop.orders id=1 note=NULL",
]


def produce(kafka: str, topic: str, values: Sequence[bytes | None], first: int = 0) -> None:
    producer = kafka_producer(kafka)
    for i, value in enumerate(values, first):
        producer.produce(topic, value, key=b"k", partition=0, timestamp=FIRST_MS + i * 1000)
    assert producer.flush(30) == 0


@pytest.fixture
def topic(kafka: str, make_topic: Callable[..., str], name: str) -> str:
    make_topic(name, partitions=2)
    converters = [make_converter(each) for each in ("canalRow", "oggJson", "canalRow", "canalRow")]
    produce(
        kafka,
        name,
        [converter.to_bytes(each) for converter, each in zip(converters, CHANGES, strict=True)],
    )
    return name


def call(kafka: str, command: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["topic", command, *arguments, "--servers", kafka])


def test_topics_are_listed(kafka: str, topic: str) -> None:
    found = json.loads(call(kafka, "list", "--json").stdout)
    assert {"topic": topic, "partitions": 2, "replicas": 1} in found
    assert not [each for each in found if each["topic"].startswith("__")]


def test_a_topic_is_described_with_its_tables_and_formats(kafka: str, topic: str) -> None:
    found = json.loads(call(kafka, "describe", topic, "--json").stdout)
    assert found["partitions"] == [
        {"partition": 0, "first": 0, "end": 4, "records": 4, "newest": "2023-11-14T22:13:23.000Z"},
        {"partition": 1, "first": 0, "end": 0, "records": 0, "newest": None},
    ]
    assert [
        (t["table"], t["formats"], t["key"], t["insert"], t["update"], t["delete"])
        for t in found["tables"]
    ] == [
        ("shop.items", ["oggJson"], ["id"], 1, 0, 0),
        ("shop.orders", ["canalRow"], ["id"], 1, 1, 1),
    ]
    assert "shop.orders  canalRow" in call(kafka, "describe", topic).stdout


def test_rows_are_shown_as_lines_without_colours(kafka: str, topic: str) -> None:
    result = call(kafka, "tail", topic, "--from", "earliest")
    assert (result.exit_code, result.stdout.splitlines()) == (0, LINES)


def test_rows_of_a_task_s_topic_are_shown_without_the_password_of_its_target(
    kafka: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "load.properties"
    file.write_text(
        f"taskId=7\nconsumer.consumerName=KafkaFetch\nconsumer.converter=auto\n"
        f"consumer.source.servers={kafka}\nconsumer.source.topics={topic}\n"
        "loader.loaderName=JdbcBatch\nloader.source.url=jdbc:postgresql://db/shop\n"
        "loader.source.password=${env:NOT_THERE}\n"
    )
    words = ["topic", "tail", topic, "--task", str(file), "--from", "earliest"]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout.splitlines()) == (0, LINES)
    file.write_text(f"{file.read_text()}kafka.sasl.password=${{env:NOT_THERE}}\n")
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code != 0
    assert f"{file}:9: kafka.sasl.password" in refused.output
    assert "loader.source.password" not in refused.output


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--from", "-2"], [2, 3]),
        (["--from", "latest"], []),
        (["--from", "2023-11-14T22:13:21Z"], [1, 2, 3]),
        (["--to", "2023-11-14T22:13:21Z"], [0]),
        (["--table", "ITEMS"], [1]),
        (["--table", "shop.o*"], [0, 2, 3]),
        (["--op", "update", "--op", "delete"], [2, 3]),
        (["--key", "7"], [1]),
        (["--key", "k"], [0, 1, 2, 3]),
        (["--key", "8"], []),
    ],
)
def test_rows_are_chosen(kafka: str, topic: str, options: list[str], offsets: list[int]) -> None:
    result = call(kafka, "tail", topic, "--json", *options)
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == offsets


def test_following_goes_on_with_records_that_come(
    kafka: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_at(text: object) -> None:
        seen.append(json.loads(bytes(text)) if isinstance(text, bytes) else text)
        if len(seen) == 4:
            produce(kafka, topic, [make_converter("canalRow").to_bytes(CHANGES[1])], first=4)
        if len(seen) == 5:
            raise KeyboardInterrupt

    seen: list[object] = []
    monkeypatch.setattr("cdcbus.ops.cli.commands.topic.click.echo", stop_at)
    assert call(kafka, "tail", topic, "--follow", "--json").exit_code == 130
    assert len(seen) == 5


def test_a_record_that_cannot_be_read_is_named_and_the_others_are_shown(
    kafka: str, topic: str
) -> None:
    produce(kafka, topic, [b"no json", None], first=4)
    result = call(kafka, "tail", topic)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == LINES
    assert "0@4 cannot be read: " in result.stderr
    assert (
        "1 of them cannot be read as auto, the first: 0@4: "
        in call(kafka, "describe", topic).stderr
    )


def test_a_time_is_found_as_offsets_and_as_a_position(kafka: str, topic: str) -> None:
    found = json.loads(
        call(kafka, "find", topic, "--time", "2023-11-14T22:13:21.500Z", "--json").stdout
    )
    assert found["offsets"] == [{"partition": 0, "offset": 2}, {"partition": 1, "offset": 0}]
    assert found["position"] == [
        p.as_fields() for p in (KafkaPosition(topic, 0, 1), KafkaPosition(topic, 1, -1))
    ]
    assert (
        json.loads(call(kafka, "find", topic, "--time", "2030-01-01", "--json").stdout)["offsets"][
            0
        ]["offset"]
        == 4
    )


def test_the_schema_of_a_table_is_printed(kafka: str, topic: str) -> None:
    schema = json.loads(call(kafka, "schema", topic, "--table", "SHOP.ORDERS").stdout)
    assert schema["title"] == "shop.orders as canalRow"
    ambiguous = call(kafka, "schema", topic)
    assert ambiguous.exit_code == 1
    assert "shop.items, shop.orders; name one table with --table" in ambiguous.stderr


def test_an_unknown_topic_is_named(kafka: str, name: str) -> None:
    result = call(kafka, "describe", name)
    assert result.exit_code == 1
    assert f"Kafka topic {name} at {kafka}: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["describe", "t"],
        ["tail", "t"],
        ["find", "t", "--time", "2030-01-01"],
        ["schema", "t"],
    ],
)
def test_brokers_that_are_away_are_named_within_five_seconds(arguments: list[str]) -> None:
    began = time.monotonic()
    result = call("127.0.0.1:9", *arguments)
    assert time.monotonic() - began < 5 * ANSWER_SECONDS  # one wait, on however busy a machine
    assert ANSWER_SECONDS < 5
    assert result.exit_code == 1
    assert "no Kafka broker answers at 127.0.0.1:9" in result.stderr


@pytest.fixture
def task(kafka: str, topic: str, tmp_path: Path) -> Path:
    file = tmp_path / "load.properties"
    file.write_text(
        f"taskId={topic}\nconsumer.consumerName=KafkaFetch\nconsumer.converter=canalRow\nconsumer.source.servers={kafka}\n"
        f"consumer.source.topics={topic}\nconsumer.source.firstConsumeFrom=earliest\nloader.loaderName=JdbcBatch\n"
        "loader.source.url=jdbc:postgresql://127.0.0.1:1/x\nloader.source.userName=u\nloader.source.password=p\n"
    )
    return file


def test_the_lag_of_a_task_is_told_in_records_and_seconds(
    zookeeper: str, topic: str, task: Path
) -> None:
    arguments = ["topic", "lag", str(task), "--json", "--zookeeper", zookeeper]
    unknown = CliRunner().invoke(main, arguments)
    assert unknown.exit_code == 1
    assert [row["records"] for row in json.loads(unknown.stdout)] == [None, None]
    client = connect(zookeeper)
    store = ZooKeeperPositions(client, topic, topic)
    store.load()
    store.save(kafka_positions_to_json([KafkaPosition(topic, 0, 1), KafkaPosition(topic, 1, -1)]))
    client.stop()
    client.close()
    behind, done = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert (behind["next"], behind["end"], behind["records"]) == (2, 4, 2)
    assert behind["seconds"] == pytest.approx(time.time() - FIRST_MS / 1000 - 2, abs=30)
    assert (done["records"], done["seconds"]) == (0, 0)


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize(("next_offset", "removed"), [(1, 2), (9, 0)])
def test_a_position_that_kafka_does_not_hold_has_no_lag(
    kafka: str,
    zookeeper: str,
    topic: str,
    task: Path,
    next_offset: int,
    removed: int,
    is_reset: bool,
) -> None:
    """It would be none at all, as no record comes from there."""
    with task.open("a") as file:
        file.write(f"consumer.source.allowOffsetReset={str(is_reset).lower()}\n")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_records([TopicPartition(topic, 0, removed)])[TopicPartition(topic, 0)].result(30)
    client = connect(zookeeper)
    store = ZooKeeperPositions(client, topic, topic)
    store.load()
    offsets = ((0, next_offset - 1), (1, -1))
    store.save(kafka_positions_to_json(KafkaPosition(topic, *each) for each in offsets))
    client.stop()
    client.close()
    arguments = ["topic", "lag", str(task), "--json", "--zookeeper", zookeeper]
    result = CliRunner().invoke(main, arguments)
    lost, done = json.loads(result.stdout)
    assert (lost["next"], lost["first"], lost["end"]) == (next_offset, removed, 4)
    assert (lost["records"], lost["seconds"], done["records"]) == (None, None, 0)
    assert result.exit_code == 1
    assert f"from offset {removed} to 4, and the task is at {next_offset}" in result.stderr
    assert ("the task refuses to start" in result.stderr) is not is_reset
    assert (f"the task goes on from offset {removed}, as" in result.stderr) is is_reset


def test_a_task_says_where_its_topic_is_and_how_it_is_read(task: Path, topic: str) -> None:
    result = CliRunner().invoke(main, ["topic", "tail", topic, "--task", str(task)])
    assert result.exit_code == 1  # one record is oggJson, the task reads canalRow
    assert result.stdout.splitlines() == [LINES[0], *LINES[2:]]
    assert "0@1 cannot be read: " in result.stderr
