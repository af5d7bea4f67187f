"""Finding records of a topic on a real Kafka: by key, table, time, text and place; who reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.processes.bus import FROM_KAFKA, Bus, open_bus, resting_text
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.web import TOKEN, pages

pytestmark = pytest.mark.integration
HOUR = 1_795_280_400  # 2026-11-21 17:00:00 UTC


def record(number: int) -> bytes:
    """An update of a shop's person: the name changes to one of two."""
    row = {"id": str(number), "name": "Ada <b>" if number % 10 == 0 else "Grace", "city": None}
    return json.dumps(
        {
            "database": "shop",
            "table": "people" if number % 2 == 0 else "orders",
            "type": "UPDATE",
            "isDdl": False,
            "pkNames": ["id"],
            "data": [row],
            "old": [{"name": "Edsger"}],
            "id": number,
            "es": 1,
            "ts": 1,
            "sql": "",
            "sqlType": {"id": 4, "name": 12, "city": 12},
            "mysqlType": {},
        }
    ).encode()


@pytest.fixture
def topic(kafka: str, name: str, make_topic: Callable[..., str]) -> str:
    """40 records, one a minute, and behind them one that nobody can read."""
    make_topic(name)
    producer = kafka_producer(kafka)
    for number in range(40):
        stamp = (HOUR + 60 * number) * 1000
        producer.produce(name, record(number), key=f"{number}_".encode(), timestamp=stamp)
    producer.produce(name, b"no json", timestamp=(HOUR + 3000) * 1000)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def bus(zookeeper: str, topic: str, tmp_path: Path, kafka: str) -> Iterator[Bus]:
    with open_bus(zookeeper, topic, tmp_path) as opened:
        opened.load(resting_text("242", kafka, topic))
        yield opened


@pytest.fixture
def web(bus: Bus) -> Iterator[httpx.Client]:
    with pages(bus.address) as client:
        client.headers.update({"accept": "text/html", "origin": str(client.base_url).rstrip("/")})
        client.post("/login", data={"name": "ada", "token": TOKEN})
        yield client


def offsets(page: str) -> list[int]:
    return [int(found) for found in re.findall(r'aria-labelledby="r0-(\d+)-', page)]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"key": "7"}, [7]),
        ({"text": "ada <B>"}, [0, 10, 20, 30]),
        ({"text": "Edsger", "table": "shop.ord*", "at": "0@35"}, [35, 37, 39]),
        ({"since": "2026-11-21T17:38", "op": "UPDATE"}, [38, 39]),
        ({"until": "2026-11-21T17:01:00", "op": "UPDATE"}, [0, 1]),
        ({"since": "2026-11-21T18:10+01:00", "until": "2026-11-21 17:11"}, [10, 11]),
        ({"at": "0@39"}, [39, 40]),
        ({"at": "0@39", "op": "DELETE"}, []),
        ({"key": "nobody"}, []),
    ],
)
def test_records_are_found(
    web: httpx.Client, topic: str, asked: dict[str, str], found: list[int]
) -> None:
    answer = web.get(f"/topics/{topic}/find", params={"task": "242", **asked})
    assert answer.status_code == 200
    assert offsets(answer.text) == found
    assert "that is all" in answer.text
    is_behind = "until" not in asked
    assert ("1 record could not be read" in answer.text) == is_behind


def test_before_and_after_stand_side_by_side_and_nothing_in_a_cell_is_html(
    web: httpx.Client, topic: str
) -> None:
    page = web.get(f"/topics/{topic}/find?key=10").text
    row = re.search(r'<tr class="changed">.*?</tr>', page)
    assert row is not None
    assert re.sub(r"<[^>]*>", " ", row[0]).split() == [
        "name",
        "changed",
        "Edsger",
        "Ada",
        "&lt;b&gt;",
    ]
    assert "<b>" not in page


def test_what_is_asked_wrongly_is_said_in_a_sentence_and_cells_need_the_token(
    web: httpx.Client, topic: str
) -> None:
    for asked, sentence in (
        ("at=x", "is no place"),
        ("at=7@0", "has no partition 7"),
        ("since=yesterday", "is no time"),
    ):
        answer = web.get(f"/topics/{topic}/find?{asked}")
        assert (answer.status_code, sentence in answer.text) == (422, True)
    assert web.get(f"/topics/{topic}/find").text.count("Edsger") == 0  # nothing was asked for
    web.cookies.clear()
    assert web.get(f"/topics/{topic}/find?key=7").headers["location"].startswith("/login")


def test_who_reads_a_topic_are_its_tasks_and_kafkas_groups(
    web: httpx.Client, bus: Bus, topic: str, kafka: str
) -> None:
    group = {"bootstrap.servers": kafka, "group.id": f"{topic}-others", "enable.auto.commit": False}
    reader = Consumer(group)
    reader.commit(offsets=[TopicPartition(topic, 0, 11)], asynchronous=False)
    reader.close()
    bus("offset", "reset", "242", "--to", "29", "--yes")
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", web.get(f"/topics/{topic}/readers").text))
    assert re.search(rf"{topic}-others \w+ 0 11 41 30 ", page)
    assert re.search(r" 242 0 30 41 11 ", page)


def test_a_topic_that_a_task_sends_rows_on_to_says_so(
    web: httpx.Client, bus: Bus, topic: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    make_topic(f"{topic}-on")
    text = FROM_KAFKA.format(task_id="forward", kafka=kafka, topic=topic, more="")
    text += f"loader.loaderName=KAFKA_SYNC\nloader.source.servers={kafka}\n"
    text += f"loader.source.topic={topic}-on\nloader.source.oggJson=false\n"
    bus.load(text)
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", web.get("/topics").text))
    assert re.search(rf"{topic}-on 1 1 0 forward forwards from {topic} ", page)
