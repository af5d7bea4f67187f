"""`cdcbus offset set|reset|find|copy|history|undo` on real servers."""

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, Mark
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import (
    KafkaPosition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.tasks.zookeeper.lock import lock_path
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.support.processes.bus import Bus, fetch_text, load_text, open_bus, resting_text
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(
    zookeeper: str, name: str, source: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bus]:
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


@pytest.fixture
def load(bus: Bus, kafka: str, name: str, make_topic: Callable[..., str]) -> str:
    """A consumer task of a topic with two partitions, 10 records in 0 and 5 in 1, a second apart
    from 2024-01-01."""
    make_topic(name, 2)
    producer = kafka_producer(kafka)
    begin = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)
    for number in range(15):
        producer.produce(name, b"{}", partition=number // 10, timestamp=begin + number % 10 * 1000)
    assert producer.flush(30) == 0
    bus.load(resting_text("242", kafka, name))
    return "242"


def stored(bus: Bus, task_id: str, swimlane: str) -> list[int]:
    text = bus.text(f"/datas/task/{task_id}/position/{swimlane}")
    assert text is not None
    read = json.loads(text)
    return [each["offset"] for each in (read if isinstance(read, list) else [read])]


def test_a_reset_says_what_it_repeats_or_leaves_out_and_is_undone(
    bus: Bus, load: str, name: str
) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    assert stored(bus, load, name) == [9, 4]
    dry = bus("offset", "reset", load, "--to", "-3", "--dry-run").stdout
    assert (
        f"{name}[0]: from offset 10 to 7: repeats 3 records of 2024-01-01 00:00:07 UTC to "
        "2024-01-01 00:00:09 UTC" in dry
    )
    assert stored(bus, load, name) == [9, 4]
    bus("offset", "reset", load, "--to", "2024-01-01T00:00:03", "--yes")
    assert stored(bus, load, name) == [2, 2]
    one = bus("offset", "reset", load, "--to", "5", "--partition", "0", "--yes").stdout
    assert (
        f"{name}[0]: from offset 3 to 6: leaves out 3 records of 2024-01-01 00:00:03 UTC to "
        "2024-01-01 00:00:05 UTC" in one
    )
    assert stored(bus, load, name) == [5, 2]
    found = bus.json("offset", "find", load, "earliest")
    assert [each["offset"] for each in json.loads(found[0]["position"])] == [-1, -1]
    history = bus.json("offset", "history", load)[name]
    assert [change["how"] for change in history] == [
        f"offset reset --to {to}" for to in ("latest", "2024-01-01T00:00:03", "5")
    ]
    assert all("@" in change["by"] for change in history)
    assert history[0]["before"] is None
    (undone,) = bus.json("offset", "undo", load, "--yes")
    assert (undone["position"], undone["before"]) == (
        bus.text(f"/datas/task/{load}/position/{name}"),
        history[-1]["after"],
    )
    assert stored(bus, load, name) == [2, 2]
    bus("offset", "undo", load, "--yes")
    assert stored(bus, load, name) == [5, 2]


def test_a_reset_tells_a_script_what_it_does(bus: Bus, load: str, name: str) -> None:
    (first,) = bus.json("offset", "reset", load, "--to", "latest", "--yes")
    assert (first["swimlane"], first["before"], first["is_set"]) == (name, None, True)
    assert first["position"] == bus.text(f"/datas/task/{load}/position/{name}")
    (dry,) = bus.json("offset", "reset", load, "--to", "-3", "--dry-run")
    assert (dry["before"], dry["is_set"]) == (first["position"], False)
    assert [position["offset"] for position in json.loads(dry["position"])] == [6, 1]
    assert "repeats 3 records" in dry["means"][0]
    assert stored(bus, load, name) == [9, 4]
    # nobody answers the question
    unsaid = bus("offset", "reset", load, "--to", "-3", "--json", code=130)
    assert unsaid.stdout == ""
    assert "repeats 3 records" in unsaid.stderr
    assert stored(bus, load, name) == [9, 4]


def test_more_records_back_than_there_ever_were_is_the_beginning(
    bus: Bus, load: str, name: str
) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    bus("offset", "reset", load, "--to", "-7", "--yes")
    assert stored(bus, load, name) == [2, -1]


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ("11", "one offset cannot apply to 2 partitions"),
        ("mysql-bin.000501:4", "is not a position in a topic; expected "),
        ("3-4", "3-4 is a replay, not a place"),
    ],
)
def test_a_place_that_is_not_there_is_refused(
    bus: Bus, load: str, name: str, to: str, sentence: str
) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    assert sentence in bus("offset", "reset", load, "--to", to, "--yes", code=1).stderr
    assert stored(bus, load, name) == [9, 4]


def test_a_position_of_the_other_kind_is_not_set(bus: Bus, load: str, name: str) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    binlog = '{"logfileName":"mysql-bin.000001","offset":4}'
    refused = bus("offset", "set", load, binlog, "--yes", code=1).stderr
    assert f"task {load} has a position of a topic, and this is none" in refused
    assert stored(bus, load, name) == [9, 4]


def test_a_task_that_runs_is_not_reset_unasked(bus: Bus, load: str, name: str) -> None:
    holder = b'{"processId":7,"hostName":"h","nodeId":"n"}'
    bus.client.create(lock_path(load, name), holder, makepath=True, ephemeral=True)
    refused = bus("offset", "reset", load, "--to", "latest", "--yes", code=1).stderr
    assert (
        "task 242 is running (process 7 on h): stop it first, cdcbus task stop 242, or say --live"
        in refused.replace("\n", " ")
    )
    assert bus.text(f"/datas/task/{load}/position/{name}") is None
    bus("offset", "reset", load, "--to", "latest", "--yes", "--live")
    assert stored(bus, load, name) == [9, 4]


def test_only_the_last_50_changes_are_kept(bus: Bus, load: str, name: str) -> None:
    for offset in range(52):
        text = json.dumps({"offset": offset, "partition": 0, "topic": name})
        bus("offset", "set", load, text, "--yes")
    history = bus.json("offset", "history", load)[name]
    assert len(history) == 50
    assert json.loads(history[-1]["after"])["offset"] == 51
    assert json.loads(history[0]["before"])["offset"] == 1


def test_a_position_is_copied_to_a_task_that_has_the_swimlane(
    bus: Bus, load: str, kafka: str, name: str
) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    bus.load(resting_text("15242", kafka, name))
    (copied,) = bus.json("offset", "copy", load, "15242", "--yes")
    assert (copied["swimlane"], copied["before"]) == (name, None)
    assert stored(bus, "15242", name) == [9, 4]
    assert "there is no task 7 at" in bus("offset", "copy", load, "7", code=1).stderr
    # A database and a topic may have one name.
    binlog = b'{"logfileName":"mysql-bin.000001","offset":4}'
    for task_id, swimlane in (("fetch", name), ("other", "elsewhere")):
        bus.client.create(f"/datas/task/{task_id}/position/{swimlane}", binlog, makepath=True)
    refused = bus("offset", "copy", "fetch", "15242", "--yes", code=1).stderr
    assert "task 15242 has a position of a topic, and this is none" in refused
    assert stored(bus, "15242", name) == [9, 4]
    assert "no swimlane is in both" in bus("offset", "copy", "other", "15242", code=1).stderr
    assert (
        "the position is of topic other"
        in bus("offset", "set", load, '{"offset":1,"partition":0,"topic":"other"}', code=1).stderr
    )


@pytest.fixture
def kept(
    bus: Bus, load: str, stack: Addresses, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The same task with a target, which has applied 8 records of partition 0 and 3 of partition
    1."""
    at = stack.postgresql
    monkeypatch.setenv("TARGET_PASSWORD", at.password)
    url = f"jdbc:postgresql://{at.host}:{at.port}/{at.database}"
    loader = make_loader("JdbcBatch", JdbcTarget(url, at.user, at.password, name))
    with loader.transaction() as transaction:
        for partition, end in enumerate((8, 3)):
            transaction.store_offset(AppliedOffset(name, partition, end, 1), None)
    bus.load(load_text(name, stack, name))
    yield name
    loader.close()
    with psycopg.connect(
        host=at.host, port=at.port, user=at.user, password=at.password, dbname=at.database
    ) as connection:
        connection.execute("DELETE FROM cdcbus_position WHERE task = %s", (name,))


def test_commands_keep_to_the_partitions_that_they_name_and_show_both_numbers(
    bus: Bus, load: str, kept: str, name: str
) -> None:
    store = ZooKeeperPositions(bus.client, kept, name)
    store.load()
    store.save(
        kafka_positions_to_json([KafkaPosition(name, 0, 6), KafkaPosition(name, 1, 1)]), Mark(True)
    )

    def written() -> dict[int, int]:
        """What is still known as the task's own."""
        after = ZooKeeperPositions(bus.client, kept, name)
        after.load()
        text = after.written.position if after.written else ""
        return (
            {} if text == "[]" else {p.partition: p.offset for p in kafka_positions_from_json(text)}
        )

    dry = bus("offset", "reset", kept, "--to", "-1", "--partition", "1", "--dry-run").stdout
    assert f"{name}[1]: from offset 2 to 1: repeats 1 record" in dry
    assert "; the target is at offset 3" in dry
    assert written() == {0: 6, 1: 1}
    bus("offset", "reset", kept, "--to", "-1", "--partition", "1", "--yes")
    assert (stored(bus, kept, name), written()) == ([6, 0], {0: 6})
    shown = bus("offset", "show", kept).stdout
    assert f"{name}[0]: the target is at offset 8" in shown and "done up to 6, next 7" in shown
    bus("offset", "undo", kept, "--yes")
    assert stored(bus, kept, name) == [6, 1]
    text = json.dumps({"offset": 4, "partition": 0, "topic": name})
    said = bus("offset", "set", kept, text, "--yes").stdout
    assert f"{name}[0]: the target is at offset 8" in said
    assert (stored(bus, kept, name), written()) == ([4, 1], {})
    bus("offset", "reset", load, "--to", "latest", "--yes")
    bus("offset", "copy", load, kept, "--partition", "1", "--yes")
    assert stored(bus, kept, name) == [4, 4]
    assert (
        "no position of partition 7"
        in bus("offset", "copy", load, kept, "--partition", "7", code=1).stderr
    )


@pytest.mark.parametrize(("done_up_to", "warned"), [((7, 2), []), ((6, 2), [0]), ((6, 1), [0, 1])])
def test_a_copy_from_a_task_whose_target_is_ahead_is_warned_of(
    bus: Bus, load: str, kept: str, name: str, done_up_to: tuple[int, int], warned: list[int]
) -> None:
    """The target knows the place of the one task, so the copy would apply records again."""
    store = ZooKeeperPositions(bus.client, kept, name)
    store.load()
    places = [KafkaPosition(name, partition, done) for partition, done in enumerate(done_up_to)]
    store.save(kafka_positions_to_json(places), Mark(True))
    for command in (
        ("offset", "copy", kept, load, "--yes"),
        ("offset", "copy", kept, load, "--dry-run"),
        ("task", "clone", kept, f"{kept}-2"),
    ):
        said = bus(*command).stderr
        for partition, end in enumerate((8, 3)):
            words = f"{name}[{partition}]: the target of task {kept} is at offset {end}, ahead of"
            assert (words in said) is (partition in warned), said


def test_150_partitions_may_be_set_as_often_as_one_likes(bus: Bus, load: str, name: str) -> None:
    for offset in range(10**12, 10**12 + 35):
        text = kafka_positions_to_json(
            KafkaPosition(name, partition, offset) for partition in range(150)
        )
        bus("offset", "set", load, text, "--yes")
    history = bus.json("offset", "history", load)[name]
    assert json.loads(history[-1]["after"])[149]["offset"] == 10**12 + 34
    assert 1 < len(history) < 35


def test_a_binlog_place_is_found_by_each_of_its_forms(
    bus: Bus,
    kafka: str,
    source: Database,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
) -> None:
    make_topic(name)
    bus.load(fetch_text("7", source, kafka, name))
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    begun = time.time()
    said = bus("offset", "reset", "7", "--to", "latest", "--yes").stdout
    assert "nothing was stored" in said
    before = json.loads(bus.text(f"/datas/task/7/position/{name}") or "")
    place = f"{before['logfileName']}:{before['offset']}"
    source_cursor.execute("INSERT INTO t VALUES (1)")
    ahead = bus("offset", "reset", "7", "--to", "latest", "--dry-run").stdout
    assert f"from {place} " in ahead and "leaves out " in ahead and " bytes of binlog" in ahead
    bus("offset", "reset", "7", "--to", "latest", "--yes")
    back = bus("offset", "reset", "7", "--to", place, "--yes").stdout
    assert "repeats " in back and " bytes of binlog" in back
    assert (
        json.loads(bus.text(f"/datas/task/7/position/{name}") or "")["offset"] == before["offset"]
    )
    if before.get("gtid"):
        (found,) = bus.json("offset", "find", "7", before["gtid"])
        assert json.loads(found["position"])["gtid"] == before["gtid"]
    when = datetime.fromtimestamp(begun - 1, UTC).isoformat()
    (found,) = bus.json("offset", "find", "7", when)
    assert (
        json.loads(found["position"])["offset"] <= before["offset"]
        or json.loads(found["position"])["logfileName"] != before["logfileName"]
    )
    assert (
        "is not a position in a binlog"
        in bus("offset", "reset", "7", "--to", "-5", "--yes", code=1).stderr
    )


def test_a_secret_of_the_target_that_is_missing_here_is_named_and_the_target_not_asked(
    bus: Bus, kafka: str, load: str, name: str
) -> None:
    secret = {"loader.source.password": "${env:NOT_SET_HERE}"}
    bus.load(resting_text("15244", kafka, name, **secret))
    missing = "the target's offsets are unknown: .*variable 'NOT_SET_HERE' is not set"
    (found,) = bus.json("offset", "find", "15244", "latest")
    assert [each["offset"] for each in json.loads(found["position"])] == [9, 4]
    assert re.search(missing, found["means"][-1])
    assert re.search(missing, bus("offset", "reset", "15244", "--to", "latest", "--yes").stdout)
    text = kafka_positions_to_json([KafkaPosition(name, 0, 2)])
    assert re.search(missing, bus("offset", "set", "15244", text, "--yes").stdout)


def test_each_command_that_sets_a_position_has_a_dry_run_and_asks(
    bus: Bus, load: str, kafka: str, name: str
) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    bus.load(resting_text("15243", kafka, name))
    bus("offset", "copy", load, "15243", "--yes")
    text = json.dumps({"offset": 2, "partition": 0, "topic": name})
    for words in (
        ("set", load, text),
        ("reset", load, "--to", "earliest"),
        ("copy", "15243", load),
        ("undo", load),
    ):
        (row,) = bus.json("offset", *words, "--dry-run")
        assert (row["swimlane"], row["is_set"]) == (name, False)
        assert name in bus("offset", *words, "--dry-run").stdout or words[0] == "reset"
        refused = bus("offset", *words, code=130)  # nobody answers
        assert f"Set the position of task {load}?" in refused.stderr
        assert stored(bus, load, name) == [9, 4], words
    (row,) = bus.json("offset", "set", load, text, "--yes")
    assert row["is_set"] is True
    assert stored(bus, load, name) == [2, 4]
