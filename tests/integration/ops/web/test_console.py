"""The console over a real ZooKeeper and Kafka: what its pages say, to whom, and what its forms
do."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.ops.alarms.state import Alarm, Kind, Notice
from cdcbus.ops.alarms.store import AlarmNodes, Sent, TaskAlarms
from cdcbus.ops.services.dead_letter_counts import LetterCounts
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.task_status import State
from cdcbus.producer.publish.oversized import LargeRecord, dead_letter
from cdcbus.tasks.config.read_task import read_task
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.control.dead_letters import drop_letters
from cdcbus.tasks.runtime.throughput_history import Minute, ThroughputHistory, minute_of
from cdcbus.tasks.zookeeper.tasks import Run
from tests.support.processes.bus import Bus, fetch_text, open_bus, resting_text
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until
from tests.support.web import TOKEN, pages

pytestmark = pytest.mark.integration

CELL = "Ada's cell"
PAGES = ("/", "/nodes", "/topics", "/lineage", "/letters", "/alarms")


def keys(topic: str) -> dict[str, str]:
    login = {"loader.source.userName": "u", "loader.source.password": "${env:TARGET_PASSWORD}"}
    return {**login, "loader.onError": "deadletter", "loader.deadletterTopic": f"{topic}-dead"}


def record(number: int) -> bytes:
    row = {"id": str(number), "name": CELL}
    told = {
        "database": "shop",
        "table": "people",
        "type": "INSERT",
        "isDdl": False,
        "pkNames": ["id"],
        "data": [row],
        "old": None,
    }
    return json.dumps(
        {
            **told,
            "id": number,
            "es": 1,
            "ts": 1,
            "sql": "",
            "sqlType": {"id": 4, "name": 12},
            "mysqlType": {},
        }
    ).encode()


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


@pytest.fixture
def load(bus: Bus, kafka: str, name: str, make_topic: Callable[..., str]) -> str:
    """A consumer task, not started, without a position; its topic has ten records, and the
    fourth is a dead letter."""
    make_topic(name)
    producer = kafka_producer(kafka)
    for number in range(10):
        producer.produce(name, record(number))
    assert producer.flush(30) == 0
    bus.load(resting_text("242", kafka, name, **keys(name)))
    (bus.folder / "imported.properties").rename(bus.folder / "242.properties")
    put_letters(bus, name, 3)
    return "242"


def put_letters(bus: Bus, name: str, *offsets: int) -> None:
    """Dead letters of the consumer task's topic."""
    task = read_task(bus.folder / "242.properties", {"TARGET_PASSWORD": "s3cret"}).task
    assert isinstance(task, LoadTask)
    with DeadLetterTopic(task) as topic:
        topic.open()
        topic.put([DeadLetter(name, 0, offset, "the target refuses it") for offset in offsets])


@pytest.fixture
def web(bus: Bus) -> Iterator[httpx.Client]:
    """Of a browser: it says so, and where its forms come from."""
    with pages(bus.address, TARGET_PASSWORD="s3cret") as client:
        client.headers.update({"accept": "text/html", "origin": str(client.base_url).rstrip("/")})
        yield client


def log_in(web: httpx.Client) -> None:
    answer = web.post("/login", data={"name": "ada", "token": TOKEN, "next": "/"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def hidden(web: httpx.Client, path: str, action: str) -> dict[str, str]:
    """The hidden fields of a page's form."""
    page = web.get(path).text
    [form] = re.findall(
        rf'<form[^>]* method="post" action="[^"]*{action}".*?</form>', page, re.DOTALL
    )
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return {name: html.unescape(value) for name, value in fields}


def text(web: httpx.Client, path: str, status: int = 200) -> str:
    """What a page says, without its marks."""
    answer = web.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "text/html; charset=utf-8",
    ), answer.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))


def test_where_nothing_is_yet_each_page_says_how_to_begin(web: httpx.Client) -> None:
    for path, command in zip(
        PAGES,
        [
            "task import",
            "node run",
            "task import",
            "task import",
            "loader.onError=deadletter",
            "alarm.exec.command",
        ],
        strict=True,
    ):
        assert command in text(web, path), path
    assert "there is no such task" in text(web, "/tasks/none", 404)
    log_in(web)
    assert "no task names topic none" in text(web, "/topics/none", 404)


def test_addresses_that_people_guess_lead_on(web: httpx.Client) -> None:
    accept = {"accept": "text/html,*/*;q=0.8"}
    answer = web.get("/tasks?state=ERROR", headers=accept)
    assert (answer.status_code, answer.headers["location"]) == (307, "/?state=ERROR")
    answer = web.get("/nowhere", headers=accept)
    assert (answer.status_code, "To the overview" in answer.text) == (404, True)
    answer = web.get("/api/nowhere", headers=accept)
    assert (answer.status_code, answer.json()) == (404, {"error": "there is no such page"})


def test_the_pages_show_a_task_and_hold_no_secret_and_no_cell(
    web: httpx.Client, bus: Bus, load: str, name: str, kafka: str
) -> None:
    now = minute_of(time.time())
    ThroughputHistory(bus.client).put(
        load, [Minute(now - 60 * back, 100 * back, 7, 0.5, "WORKING") for back in range(5, 0, -1)]
    )
    said = {
        path: text(web, path)
        for path in (*PAGES, f"/tasks/{load}", f"/tasks/{load}/reset?to=latest", f"/letters/{load}")
    }
    assert not [
        path
        for path, words in said.items()
        if "s3cret" in words or "Ada" in words or TOKEN in words
    ]
    assert re.search(rf"242 .*NEW .*topic {name} → postgresql://127.0.0.1:1/none", said["/"])
    assert re.search(rf"{name} 1 1 10 no known task 242", said["/topics"])
    assert re.search(rf"no known task → topic {name} → 242 NEW", said["/lineage"])
    assert "TARGET_PASSWORD" in said[f"/tasks/{load}"]
    assert (
        "Highest 500 a minute" in said[f"/tasks/{load}"]
        and "Highest 7 records" in said[f"/tasks/{load}"]
    )
    assert (
        f"{name}[0]: continues at offset 10; nothing was stored"
        in said[f"/tasks/{load}/reset?to=latest"]
    )
    assert re.search(
        rf"1 open dead letter .*{name}/0/3 .*the target refuses it", said[f"/letters/{load}"]
    )
    assert re.search(r"242 .* 1 2\d{3}-", said["/letters"])
    log_in(web)
    # the record itself, for those who may see rows
    letters = text(web, f"/letters/{load}")
    assert "Ada&#39;s cell" in letters.replace('"', "")
    # decoded, as the row that was refused
    assert "INSERT shop.people Cells before and after Column Before After id key – 3" in letters


def test_open_letters_are_counted_on_the_overview(
    web: httpx.Client, bus: Bus, load: str, name: str, kafka: str
) -> None:
    bus.load(resting_text("away", "127.0.0.1:1", "away", **keys("away")))
    bus.load(
        resting_text("none", kafka, name, **{**keys(name), "loader.onError": "${env:ON_ERROR}"})
    )
    bus.client.create("/datas/task/broken/dist/x", b"{", makepath=True)
    environment = {"TARGET_PASSWORD": "s3cret", "ON_ERROR": "deadletter"}
    counts = LetterCounts(
        bus.client, read_bus_settings({"zookeeper": bus.address}, None, environment)
    )
    assert "letters" not in bus("task", "list").stdout
    counts.report()
    listed = {task["task_id"]: task["open_letters"] for task in bus.json("task", "list")}
    assert listed == {"242": 1, "none": 0, "away": None, "broken": None}
    heading, row = bus("task", "list").stdout.splitlines()[:2]
    assert row[heading.index("letters") :].startswith("1 ")
    assert "open dead letters: 1; cdcbus dlq list 242" in bus("task", "status", load).stdout
    assert re.search(r"Dead letters 1 .* NEW 1 dead letter ", text(web, "/"))
    task = read_task(bus.folder / "242.properties", {"TARGET_PASSWORD": "s3cret"}).task
    assert isinstance(task, LoadTask)
    with DeadLetterTopic(task) as topic:
        topic.open()
        topic.put([DeadLetter(name, 0, number, "the target refuses it") for number in (3, 4, 5)])
        counts.report()  # reads on from where it was
        assert bus.status(load).open_dead_letters == 3
        drop_letters(bus.client, topic, load, topic.dead_letters()[:2], "ada")
        assert bus.status(load).open_dead_letters == 1  # at once
        counts.report()
        assert bus.status(load).open_dead_letters == 1
        topic.drop(topic.dead_letters())
    counts.report()
    assert bus.status(load).open_dead_letters == 0


def test_rows_of_a_topic_are_for_those_who_have_the_token(
    web: httpx.Client, load: str, name: str
) -> None:
    for path in (f"/topics/{name}?task={load}", f"/live/topics/{name}?task={load}"):
        assert web.get(path).headers["location"] == f"/login?next={path.partition('?')[0]}"
    log_in(web)
    assert text(web, f"/topics/{name}").count(CELL.replace("'", "&#39;")) == 10
    assert text(web, f"/topics/{name}?task={load}&newest=3&key=8").count("Ada") == 1
    assert "None of the newest records matches" in text(web, f"/topics/{name}?op=DELETE")


def test_forms_ask_who_it_is_then_do_what_the_commands_do(
    web: httpx.Client, bus: Bus, load: str, name: str
) -> None:
    assert web.post(f"/tasks/{load}/start").headers["location"].startswith("/login")
    assert bus.status(load).state is State.NEW
    log_in(web)
    assert (
        web.post(f"/tasks/{load}/start", headers={"origin": "http://evil.example"}).status_code
        == 403
    )
    assert web.post(f"/tasks/{load}/start").headers["location"] == "/tasks/242?done=start"
    assert bus.status(load).state is State.STARTING
    assert "The start is ordered" in text(web, "/tasks/242?done=start")
    web.post(f"/tasks/{load}/stop")
    assert bus.status(load).state is State.STOPPED
    assert re.search(r"ada@127.0.0.1 by HTTP task stop task 242 done", text(web, "/nodes"))
    bus.client.create("/datas/node/n7/stat", b'{"hostName":"h7","workLimit":4}', makepath=True)
    assert web.post("/nodes/n7/limit", data={"swimlanes": "-1"}).status_code == 422
    assert web.post("/nodes/n7/limit", data={"swimlanes": "3"}).headers["location"] == "/nodes"
    assert json.loads(bus.text("/datas/node/n7/wanted") or "")["workLimit"] == 3


def test_a_reset_shows_what_it_means_and_sets_nothing_before_it_is_told_to(
    web: httpx.Client, bus: Bus, load: str, name: str
) -> None:
    path, address = f"/datas/task/242/position/{name}", "/tasks/242/reset"
    log_in(web)
    assert "continues at offset 10" in text(web, f"{address}?to=latest")
    assert bus.text(path) is None
    form = hidden(web, f"{address}?to=latest", "/reset")
    assert web.post(address, data=form).headers["location"] == "/tasks/242?done=reset"
    assert json.loads(bus.text(path) or "")["offset"] == 9
    assert "4 records" in text(web, f"{address}?to=-4")
    assert "'soon' is not a position in a topic" in text(web, f"{address}?to=soon", 409).replace(
        "&#39;", "'"
    )
    assert "Kafka holds 0 to 10" in text(web, f"{address}?to=77", 409)
    for wrong in ({}, {"shown": "77"}, {"shown": '{"other":{"position":"{}","before":null}}'}):
        assert web.post(address, data={"to": "77", **wrong}).status_code == 422
    junk = {name: {"position": "{}", "before": bus.text(path), "numbers": [0]}}
    assert web.post(address, data={"to": "77", "shown": json.dumps(junk)}).status_code == 409
    assert json.loads(bus.text(path) or "")["offset"] == 9
    assert re.search(
        r"Set by hand .*ada@127.0.0.1 by HTTP offset reset --to latest", text(web, "/tasks/242")
    )
    form = hidden(web, "/tasks/242", "/undo")
    assert form["swimlane"] == name
    assert web.post("/tasks/242/undo", data=form).headers["location"] == "/tasks/242?done=undo"
    assert (bus.text(path) or "").strip() == ""
    again = web.post("/tasks/242/undo", data=form)
    assert (again.status_code, "nothing was undone" in again.text) == (409, True)
    assert (bus.text(path) or "").strip() == ""
    assert web.post("/tasks/242/undo", data={"swimlane": name}).status_code == 422
    # The page shows the undo as the last change.
    web.post("/tasks/242/undo", data=hidden(web, "/tasks/242", "/undo"))
    assert json.loads(bus.text(path) or "")["offset"] == 9


def test_a_task_in_error_can_be_stopped_and_its_reset_says_that_it_starts(
    web: httpx.Client, bus: Bus, load: str
) -> None:
    def is_enabled(button: str) -> bool:
        [tag] = re.findall(rf'<button[^>]* id="{button}"', web.get(f"/tasks/{load}").text)
        return " disabled" not in tag

    sentence = "was started, and is ERROR: the new position starts it within seconds"
    log_in(web)
    web.post(f"/tasks/{load}/start")
    order = bus.tasks.wanted(load)
    assert order is not None
    bus.tasks.put_run(load, Run(State.ERROR, "the topic is missing", order.order))
    assert all(map(is_enabled, ("start", "restart", "stop")))
    assert sentence in text(web, f"/tasks/{load}/reset?to=latest")
    assert "task 242 " + sentence in bus("offset", "reset", load, "--to", "latest", "--yes").stderr
    assert "this starts the task, as it is ERROR" in text(web, f"/tasks/{load}")
    web.post(f"/tasks/{load}/stop")
    assert (is_enabled("start"), is_enabled("restart"), is_enabled("stop")) == (True, False, False)
    assert sentence not in text(web, f"/tasks/{load}/reset?to=latest")


def test_a_reset_sets_what_was_shown_whatever_has_come_since(
    web: httpx.Client, bus: Bus, load: str, kafka: str, name: str
) -> None:
    path, address = f"/datas/task/242/position/{name}", "/tasks/242/reset"
    log_in(web)
    form = hidden(web, f"{address}?to=latest", "/reset")
    producer = kafka_producer(kafka)
    producer.produce(name, record(10))
    assert producer.flush(30) == 0
    assert web.post(address, data=form).headers["location"] == "/tasks/242?done=reset"
    assert json.loads(bus.text(path) or "")["offset"] == 9
    # Somebody else has set the position since: what was shown no longer holds.
    form = hidden(web, f"{address}?to=latest", "/reset")
    bus("offset", "reset", load, "--to", "earliest", "--yes")
    refused = web.post(address, data=form)
    assert (refused.status_code, "moved meanwhile" in refused.text) == (409, True)
    assert json.loads(bus.text(path) or "")["offset"] == -1


def test_a_letters_row_is_beside_the_targets_for_those_who_may_see_cells_only(
    web: httpx.Client, bus: Bus, load: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is away: a sentence says so, beside what is known of the letter."""
    page = f"/letters/{load}/row?record={name}/0/3"
    refused = web.get(page)
    assert (refused.status_code, "Ada" in refused.text) == (403, False)
    log_in(web)
    assert f"/letters/{load}/row?record={name}/0/3" in web.get(f"/letters/{load}").text
    said = text(web, page)
    assert "The target's row is unknown" in said.replace("&#39;", "'")
    assert re.search(r"127\.0\.0\.1:1\b", said) and "s3cret" not in said
    assert "this one is 1 of 1" in said and "the target refuses it" in said
    assert "no such open dead letter" in text(web, f"/letters/{load}/row?record={name}/0/4", 404)
    monkeypatch.setenv("TARGET_PASSWORD", "s3cret")
    shown = bus.json("dlq", "show", load, f"{name}/0/3", "--target")
    assert "127.0.0.1:1" in shown[0]["target"][0]["reason"]


def test_letters_are_replayed_when_they_are_chosen(web: httpx.Client, load: str, name: str) -> None:
    log_in(web)
    assert "no dead letter was chosen" in web.post(f"/letters/{load}/replay").text
    chosen = {"record": [f"{name}/0/3"]}
    assert "back in time" in web.post(f"/letters/{load}/replay", data=chosen).text
    assert (
        web.post(f"/letters/{load}/replay", data={**chosen, "force": "true"}).headers["location"]
        == "/letters/242?done=replay"
    )
    assert "No dead letter is open." in text(web, f"/letters/{load}")
    assert text(web, f"/topics/{name}?newest=20").count("Ada") == 11


def test_all_letters_are_only_those_that_the_page_has_counted(
    web: httpx.Client, bus: Bus, load: str, name: str
) -> None:
    log_in(web)
    page = f"/letters/{load}"
    form = {"all": "true", "force": "true", **hidden(web, page, "/replay")}
    put_letters(bus, name, 4)
    for action in ("replay", "drop"):
        refused = web.post(f"{page}/{action}", data=form)
        assert (refused.status_code, "2 by now" in refused.text) == (409, True)
        assert web.post(f"{page}/{action}", data={"all": "true"}).status_code == 409
    assert "2 open dead letters" in text(web, page)
    # A letter that is ticked is the same one, whatever has come since.
    ticked = web.post(f"{page}/drop", data={**form, "all": "false", "record": f"{name}/0/4"})
    assert ticked.headers["location"] == "/letters/242?done=drop"
    answer = web.post(f"{page}/drop", data={"all": "true", **hidden(web, page, "/replay")})
    assert answer.headers["location"] == "/letters/242?done=drop"
    assert "No dead letter is open." in text(web, page)


def test_letters_of_a_fetch_task_say_where_the_row_is_and_can_be_dropped_not_replayed(
    web: httpx.Client, bus: Bus, kafka: str, name: str, make_topic: Callable[..., str]
) -> None:
    make_topic(f"{name}-dead")
    source = Database("127.0.0.1", 1, "u", "p", "")
    keys = f"loader.onError=deadletter\nloader.deadletterTopic={name}-dead\n"
    bus.load(
        fetch_text("7", source, kafka, name).replace(
            "${env:SOURCE_PASSWORD}", "${env:TARGET_PASSWORD}"
        )
        + keys
    )
    producer = kafka_producer(kafka)
    letters = []
    for pos in (4, 900):
        record = LargeRecord(name, "shop.people", ("id",), "bin.000003", pos, 1, 0)
        letter = dead_letter("7", record, b"Ada_", 2_000_000)
        producer.produce(f"{name}-dead", **letter)
        letters.append(letter["key"].decode().partition("\n")[2])
    assert producer.flush(30) == 0
    first, second = letters
    assert re.search(r" 7 .* 2 2\d{3}-", text(web, "/letters"))
    said = text(web, "/letters/7")
    assert (
        "position bin.000003:900" in said
        and "table shop.people" in said
        and "is too large for topic" in said
    )
    assert "The letters of a fetch task hold no records" in said
    assert "Ada" not in said
    log_in(web)
    assert "key Ada_" in text(web, "/letters/7")
    assert web.post("/letters/7/replay", data={"record": [first]}).status_code == 409
    assert (
        web.post("/letters/7/drop", data={"record": [first]}).headers["location"]
        == "/letters/7?done=drop"
    )
    assert (first in text(web, "/letters/7"), second in text(web, "/letters/7")) == (False, True)
    assert re.search(rf"dlq drop {first} task 7 done", text(web, "/nodes"))


def test_alarms_are_shown_with_who_was_told_and_tasks_are_silenced(
    web: httpx.Client, bus: Bus, load: str
) -> None:
    at = time.time() - 100
    raised, waiting = (
        Alarm("20,000 records behind", at, at, at, times=2),
        Notice(Kind.RAISED, "idle", "no row has come", at, at),
    )
    sent = Sent(Notice(Kind.REPEATED, "lag-records", "20,000 records behind", at, at, 2), "mail")
    AlarmNodes(bus.client).put(
        load,
        TaskAlarms({"lag-records": raised, "idle": replace(raised, times=1)}, (waiting,), (sent,)),
        -1,
    )
    page = text(web, "/alarms")
    assert re.search(r"242 lag-records .* 20,000 records behind 2 × mail", page)
    assert re.search(r"242 idle .* 1 × nobody yet", page)
    assert re.search(r"242 lag-records repeated 20,000 records behind mail", page)
    assert re.search(r"242 .*NEW .*lag-records 20,000 records behind", text(web, "/"))
    assert re.search(r"Alarms 2 ", text(web, "/"))
    assert re.search(
        r"lag-records 20,000 records behind .*Last notices .* idle raised no row has come nobody "
        r"yet",
        text(web, f"/tasks/{load}"),
    )

    assert web.post("/alarms/silence", data={"for": "1h"}).headers["location"].startswith("/login")
    log_in(web)
    assert web.post(f"/tasks/{load}/silence", data={"for": "soon"}).status_code == 422
    assert web.post("/alarms/silence", data={"for": "1h", "task": "none"}).status_code == 404
    assert not AlarmNodes(bus.client).silence(load).is_on(time.time())
    assert (
        web.post("/alarms/silence", data={"for": "2h"}).headers["location"]
        == "/alarms?done=silence"
    )
    assert AlarmNodes(bus.client).silence(load).is_on(time.time() + 7000)
    assert re.search(r"242 20\S+ \S+ ada@127.0.0.1 by HTTP End silence", text(web, "/alarms"))
    wait_until(
        lambda: "NEW silent" in text(web, "/"),
        "the overview, which all who look share for a second",
    )
    assert "Silent until 20" in text(web, f"/tasks/{load}")
    assert (
        web.post(f"/tasks/{load}/silence", data={"for": "off"}).headers["location"]
        == "/tasks/242?done=told"
    )
    assert "No task is silent." in text(web, "/alarms")
    assert re.search(
        r"alarm silence off task 242 done .*alarm silence 7200 s task 242 done", text(web, "/nodes")
    )


def test_a_page_is_kept_up_to_date_by_its_stream(web: httpx.Client, bus: Bus, load: str) -> None:
    live = re.search(r'data-live="([^"]*)"', web.get("/").text)
    assert live is not None
    with web.stream("GET", live[1].replace("&amp;", "&")) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        parts = (
            json.loads(line.removeprefix("data: "))
            for line in answer.iter_lines()
            if line.startswith("data: ")
        )
        assert "NEW" in next(parts)["live_tasks"]
        bus.tasks.want(load, is_working=True, by="test")
        assert any("STARTING" in found.get("live_tasks", "") for found in parts)
