"""`cdcbus offset set|reset|find|copy|history|undo` on real servers."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.tasks.swimlane_lock import lock_path
from tests.support.bus import Bus, fetch_text, open_bus, resting_text

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(zookeeper: str, name: str, source: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


@pytest.fixture
def load(bus: Bus, kafka: str, name: str, make_topic: Callable[..., str]) -> str:
    """A consumer task of a topic with two partitions, 10 records in 0 and 5 in 1, a second apart from 2024-01-01."""
    make_topic(name, 2)
    producer = Producer({"bootstrap.servers": kafka})
    begin = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)
    for number in range(15):
        producer.produce(name, b"{}", partition=number // 10, timestamp=begin + number % 10 * 1000)
    assert producer.flush(30) == 0
    bus.load(resting_text("242", kafka, name))
    return "242"


def stored(bus: Bus, task_id: str, lane: str) -> list[int]:
    text = bus.text(f"/datas/task/{task_id}/position/{lane}")
    assert text is not None
    read = json.loads(text)
    return [each["offset"] for each in (read if isinstance(read, list) else [read])]


def test_a_reset_says_what_it_repeats_or_leaves_out_and_is_undone(bus: Bus, load: str, name: str) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    assert stored(bus, load, name) == [9, 4]
    dry = bus("offset", "reset", load, "--to", "-3", "--dry-run").stdout
    assert f"{name}[0]: from offset 10 to 7: repeats 3 records of 2024-01-01 00:00:07 UTC to 2024-01-01 00:00:09 UTC" in dry
    assert stored(bus, load, name) == [9, 4]
    bus("offset", "reset", load, "--to", "2024-01-01T00:00:03", "--yes")
    assert stored(bus, load, name) == [2, 2]
    one = bus("offset", "reset", load, "--to", "5", "--partition", "0", "--yes").stdout
    assert f"{name}[0]: from offset 3 to 6: leaves out 3 records of 2024-01-01 00:00:03 UTC to 2024-01-01 00:00:05 UTC" in one
    assert stored(bus, load, name) == [5, 2]
    found = bus.json("offset", "find", load, "earliest")
    assert [each["offset"] for each in json.loads(found[0]["position"])] == [-1, -1]
    history = bus.json("offset", "history", load)[name]
    assert [change["how"] for change in history] == [f"offset reset --to {to}" for to in ("latest", "2024-01-01T00:00:03", "5")]
    assert all("@" in change["by"] for change in history)
    assert history[0]["before"] is None
    (undone,) = bus.json("offset", "undo", load, "--yes")
    assert (undone["position"], undone["before"]) == (bus.text(f"/datas/task/{load}/position/{name}"), history[-1]["after"])
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
    unsaid = bus("offset", "reset", load, "--to", "-3", "--json", code=130)  # nobody answers the question
    assert unsaid.stdout == ""
    assert "repeats 3 records" in unsaid.stderr
    assert stored(bus, load, name) == [9, 4]


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ("11", "one offset cannot be meant for 2 partitions"),
        ("-11", "cannot go on at offset -1: Kafka holds 0 to 10"),
        ("mysql-bin.000501:4", "is no place in a topic; expected "),
        ("3-4", "3-4 is a replay, not a place"),
    ],
)
def test_a_place_that_is_not_there_is_refused(bus: Bus, load: str, name: str, to: str, sentence: str) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    assert sentence in bus("offset", "reset", load, "--to", to, "--yes", code=1).stderr
    assert stored(bus, load, name) == [9, 4]


def test_a_task_that_runs_is_not_reset_unasked(bus: Bus, load: str, name: str) -> None:
    bus.client.create(lock_path(load, name), b'{"processId":7,"hostName":"h"}', makepath=True, ephemeral=True)
    refused = bus("offset", "reset", load, "--to", "latest", "--yes", code=1).stderr
    assert "task 242 is running (process 7 on h): stop it first, cdcbus task stop 242, or say --live" in refused.replace("\n", " ")
    assert bus.text(f"/datas/task/{load}/position/{name}") is None
    bus("offset", "reset", load, "--to", "latest", "--yes", "--live")
    assert stored(bus, load, name) == [9, 4]


def test_only_the_last_50_changes_are_kept(bus: Bus, load: str, name: str) -> None:
    for offset in range(52):
        text = json.dumps({"offset": offset, "partition": 0, "topic": name})
        bus("offset", "set", load, text)
    history = bus.json("offset", "history", load)[name]
    assert len(history) == 50
    assert json.loads(history[-1]["after"])["offset"] == 51
    assert json.loads(history[0]["before"])["offset"] == 1


def test_a_position_is_copied_to_a_task_that_has_the_swimlane(bus: Bus, load: str, kafka: str, name: str) -> None:
    bus("offset", "reset", load, "--to", "latest", "--yes")
    bus.load(resting_text("15242", kafka, name))
    (copied,) = bus.json("offset", "copy", load, "15242")
    assert (copied["swimlane"], copied["before"]) == (name, None)
    assert stored(bus, "15242", name) == [9, 4]
    assert "no swimlane is in both" in bus("offset", "copy", load, "7", code=1).stderr
    assert "the position is of topic other" in bus("offset", "set", load, '{"offset":1,"partition":0,"topic":"other"}', code=1).stderr


def test_a_binlog_place_is_found_by_each_of_its_forms(
    bus: Bus, kafka: str, source: Database, source_cursor: Cursor, name: str, make_topic: Callable[..., str]
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
    assert json.loads(bus.text(f"/datas/task/7/position/{name}") or "")["offset"] == before["offset"]
    if before.get("gtid"):
        (found,) = bus.json("offset", "find", "7", before["gtid"])
        assert json.loads(found["position"])["gtid"] == before["gtid"]
    when = datetime.fromtimestamp(begun - 1, UTC).isoformat()
    (found,) = bus.json("offset", "find", "7", when)
    assert (
        json.loads(found["position"])["offset"] <= before["offset"] or json.loads(found["position"])["logfileName"] != before["logfileName"]
    )
    assert "is no place in a binlog" in bus("offset", "reset", "7", "--to", "-5", "--yes", code=1).stderr
