"""The API, porter's pages, health and metrics over a real ZooKeeper and Kafka: what they say,
what changes something and what does not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.ops.web import metrics
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.overview.read_ahead import metrics_ahead
from cdcbus.plugins.task_status import State
from cdcbus.tasks.config.read_task import read_task
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.znode import now
from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until
from tests.support.web import BEARER, TOKEN, pages

pytestmark = pytest.mark.integration

SECRET = "s3cret-of-the-target"
# What stands in the OpenAPI document and asks other servers, or needs them to be there.
GETS = (
    "/api/tasks",
    "/api/nodes",
    "/api/topics",
    "/api/audit",
    "/api/alarms",
    "/healthz",
    "/metrics",
    "/inspect/node/info.json",
    "/inspect/node/error.json",
)


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


@pytest.fixture
def web(bus: Bus) -> Iterator[httpx.Client]:
    with pages(bus.address) as client:
        yield client


@pytest.fixture
def load(bus: Bus, kafka: str, name: str, make_topic: Callable[..., str]) -> str:
    """A consumer task, not started; its topic has ten records."""
    make_topic(name)
    producer = kafka_producer(kafka)
    for _ in range(10):
        producer.produce(name, b"{}")
    assert producer.flush(30) == 0
    bus.load(
        resting_text(
            "242",
            kafka,
            name,
            **{"loader.onError": "deadletter", "loader.deadletterTopic": f"{name}-dead"},
        )
    )
    return "242"


def get(web: httpx.Client, path: str) -> Any:
    answer = web.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(web: httpx.Client, path: str, body: object = None, status: int = 202) -> Any:
    answer = web.post(path, json=body, headers={**BEARER, "X-Operator": "ada"})
    assert answer.status_code == status, answer.text
    return answer.json()


def tree(client: KazooClient, path: str = "/datas") -> dict[str, tuple[bytes, int]]:
    """All that ZooKeeper holds, with the number of each node's last change."""
    data, stat = client.get(path)
    found = {path: (data, stat.mzxid)}
    for child in client.get_children(path):
        found |= tree(client, f"{path}/{child}")
    return found


def test_what_the_api_orders_is_wanted_and_in_the_audit(
    bus: Bus, web: httpx.Client, load: str
) -> None:
    assert get(web, "/api/tasks")[0]["state"] == "NEW"
    started = post(web, f"/api/tasks/{load}/start")
    assert (started["state"], started["reason"]) == (
        "STARTING",
        "no node runs; start one: cdcbus node run",
    )
    first = bus.tasks.wanted(load)
    assert first is not None
    assert (first.is_working, first.by) == (True, "ada@127.0.0.1 by HTTP")
    post(web, f"/api/tasks/{load}/restart")
    second = bus.tasks.wanted(load)
    assert second is not None
    assert second.order > first.order
    assert post(web, f"/api/tasks/{load}/stop")["state"] == "STOPPED"
    bus.client.ensure_path("/datas/task/99")  # what is left of another task
    assert (
        "task 99 has no text in ZooKeeper" in post(web, "/api/tasks/99/start", status=409)["error"]
    )
    assert "99" in get(web, "/api/topics")["unreadable"]
    bus.client.create("/datas/node/n7/stat", b'{"hostName":"h7","workLimit":4}', makepath=True)
    assert post(web, "/api/nodes/n7/limit", {"swimlanes": 3})["host"] == "h7"
    post(web, "/api/nodes/n7/drain")
    assert json.loads(bus.text("/datas/node/n7/wanted") or "")["status"] == "SUSPEND"
    post(web, "/api/nodes/n7/resume")
    wanted = json.loads(bus.text("/datas/node/n7/wanted") or "")
    assert (wanted["status"], wanted["workLimit"]) == ("WORKING", 3)
    silent = post(web, f"/api/tasks/{load}/silence", {"seconds": 600}, 200)
    assert (silent["silent_by"], silent["raised"]) == ("ada@127.0.0.1 by HTTP", [])
    assert get(web, "/api/alarms")[0] == silent
    assert post(web, f"/api/tasks/{load}/silence", {"seconds": 0}, 200)["silent_until"] == ""
    bus("node", "drain", "n7")
    noted = [(each["what"], each["on"], each["failed"]) for each in get(web, "/api/audit")]
    assert noted == [
        ("task import", "task 242", ""),
        ("task start", "task 242", ""),
        ("task restart", "task 242", ""),
        ("task stop", "task 242", ""),
        ("node limit 3", "node n7", ""),
        ("node drain", "node n7", ""),
        ("node resume", "node n7", ""),
        ("alarm silence 600 s", "task 242", ""),
        ("alarm silence off", "task 242", ""),
        ("node drain", "node n7", ""),
    ]
    by = [each["by"] for each in bus.json("audit")]
    assert by[1:9] == ["ada@127.0.0.1 by HTTP"] * 8
    assert all(re.fullmatch(r"\S+@\S+", each) for each in (by[0], by[9]))


def test_a_reset_is_a_dry_run_unless_it_says_otherwise_and_is_undone(
    bus: Bus, web: httpx.Client, load: str, name: str
) -> None:
    before = tree(bus.client)
    dry = post(web, f"/api/tasks/{load}/positions/reset", {"to": "latest"}, 200)
    assert (dry["is_set"], dry["positions"][0]["means"][0]) == (
        False,
        f"{name}[0]: continues at offset 10; nothing was stored",
    )
    assert dry["positions"][0]["means"][-1].startswith("the target's offsets are unknown: ")
    assert tree(bus.client) == before
    assert post(web, f"/api/tasks/{load}/positions/reset", {"to": "latest", "dry_run": False}, 200)[
        "is_set"
    ]
    back = post(web, f"/api/tasks/{load}/positions/reset", {"to": "-3", "dry_run": False}, 200)
    assert "repeats 3 records" in back["positions"][0]["means"][0]
    assert json.loads(bus.text(f"/datas/task/{load}/position/{name}") or "")["offset"] == 6
    undo = f"/api/tasks/{load}/positions/undo"
    (position,) = get(web, f"/api/tasks/{load}/positions")
    last = position["history"][-1]
    named = {"swimlane": name, "at": last["at"], "after": last["after"]}
    for wrong in ({"at": "2020-01-01 00:00:00"}, {"after": "{}"}):
        refused = post(web, undo, {**named, **wrong}, 409)
        assert "nothing was undone" in refused["error"]
    undone = post(web, undo, named, 200)
    assert json.loads(undone["position"])["offset"] == 9
    (position,) = get(web, f"/api/tasks/{load}/positions")
    assert [each["how"] for each in position["history"]] == [
        "offset reset --to latest",
        "offset reset --to -3",
        "offset undo",
    ]
    assert [each["by"] for each in position["history"]] == ["ada@127.0.0.1 by HTTP"] * 3
    lock = b'{"processId":77,"hostName":"h"}'
    bus.client.create(f"/datas/task/{load}/lock/{name}", lock, makepath=True, ephemeral=True)
    assert (
        "process 77 on h"
        in post(
            web, f"/api/tasks/{load}/positions/reset", {"to": "earliest", "dry_run": False}, 409
        )["error"]
    )
    assert (
        "not a position in a topic"
        in post(web, f"/api/tasks/{load}/positions/reset", {"to": "the end"}, 409)["error"]
    )


def test_dead_letters_are_listed_without_their_rows_replayed_and_dropped(
    bus: Bus, web: httpx.Client, load: str, name: str, kafka: str
) -> None:
    task = read_task(bus.folder / "imported.properties", {}).task
    assert isinstance(task, LoadTask)
    with DeadLetterTopic(task) as topic:
        topic.open()
        topic.put([DeadLetter(name, 0, offset, "no JSON") for offset in (1, 2, 3)])
    listed = get(web, f"/api/tasks/{load}/dlq")
    assert [(each["record"], each["reason"]) for each in listed] == [
        (f"{name}/0/{offset}", "no JSON") for offset in (1, 2, 3)
    ]
    assert (
        "no open dead letter: x/0/1"
        in post(web, f"/api/tasks/{load}/dlq/drop", {"records": ["x/0/1"]}, 409)["error"]
    )
    for neither in ({}, {"records": ["x/0/1"], "all": True}):
        assert '"all": true' in post(web, f"/api/tasks/{load}/dlq/drop", neither, 422)["error"]
    assert (
        "back in time"
        in post(web, f"/api/tasks/{load}/dlq/replay", {"records": [f"{name}/0/2"]}, 409)["error"]
    )
    assert post(
        web, f"/api/tasks/{load}/dlq/replay", {"records": [f"{name}/0/2"], "force": True}, 200
    ) == {"count": 1}
    assert post(web, f"/api/tasks/{load}/dlq/drop", {"all": True}, 200) == {"count": 2}
    assert get(web, f"/api/tasks/{load}/dlq") == []
    assert [each["what"] for each in get(web, "/api/audit")][1:] == [
        *[f"dlq replay {name}/0/2"] * 2,
        f"dlq drop {name}/0/1 {name}/0/3",
    ]


def test_porters_pages_speak_of_this_node(
    bus: Bus, web: httpx.Client, load: str, name: str
) -> None:
    told = {"workLimit": 4, "healthLevel": "GREEN", "tasks": {load: [name]}, "heartbeat": now()}
    bus.client.create("/datas/node/n1/stat", json.dumps(told).encode(), makepath=True)
    working(
        bus,
        load,
        name,
        Stat(State.WORKING, at=now(), process_id=77, lag_records=12, idle_seconds=3.4),
    )
    for path in ("/inspect/node/info", "/inspect/node/info.json"):
        info = get(web, path)
        assert (info["nodeId"], info["workLimit"], info["workUsed"], info["dnodeSnapshot"]) == (
            "n1",
            4,
            1,
            told,
        )
        assert (info["consumeProcess"], info["consumerIdle"]) == (
            {f"{load}_{name}": "12"},
            {f"{load}_{name}": "3s"},
        )
    assert get(web, "/inspect/node/error") == []
    stacks = web.get("/inspect/node/jstack").text
    assert "test_porters_pages_speak_of_this_node" in stacks
    assert '"http" daemon' in stacks
    # a JVM below this process is one of tests that ran before
    for page in ("jstack", "jstat", "jmap", "jinfo"):
        assert re.search(
            r"no task of this node runs on Spark just now|process \d+, java",
            web.get(f"/inspect/node/{page}").text,
        )


def working(bus: Bus, task_id: str, swimlane: str, stat: Stat) -> None:
    """As if node n1 ran the task."""
    bus.tasks.want(task_id, is_working=True, by="x")
    wanted = bus.tasks.wanted(task_id)
    assert wanted is not None
    bus.client.ensure_path(f"/datas/task/{task_id}")
    lock = json.dumps({"processId": stat.process_id, "nodeId": "n1"}).encode()
    bus.client.create(f"/datas/task/{task_id}/lock/{swimlane}", lock, makepath=True, ephemeral=True)
    bus.client.create(f"/datas/task/{task_id}/claim", b'{"nodeId":"n1"}', ephemeral=True)
    state = {"state": stat.state, "order": wanted.order, "nodeId": "n1", "reason": stat.reason}
    bus.client.create(f"/datas/task/{task_id}/state", json.dumps(state).encode())
    bus.tasks.put_stat(task_id, stat)


def test_health_fails_while_a_task_has_lag_and_makes_no_progress(
    bus: Bus, web: httpx.Client, load: str, name: str
) -> None:
    assert get(web, "/healthz")["status"] == "ok"
    bus.client.create(
        "/datas/node/n1/stat",
        json.dumps({"tasks": {load: [name]}, "heartbeat": now()}).encode(),
        makepath=True,
    )
    stat = Stat(State.WORKING, at=now(), process_id=77, lag_records=12, still_seconds=20)
    working(bus, load, name, stat)
    assert get(web, "/healthz")["status"] == "ok"
    bus.tasks.put_stat(
        load, Stat(State.WORKING, at=now(), process_id=77, lag_records=12, still_seconds=301)
    )
    failing = web.get("/healthz")
    assert failing.status_code == 503
    assert failing.json()["reasons"] == ["task 242 has lag, and has made no progress for 301 s"]
    bus.tasks.put_stat(load, Stat(State.WORKING, at="2024-01-01 00:00:00", process_id=77))
    assert "task 242 has reported nothing for" in web.get("/healthz").json()["reasons"][0]
    with pages(bus.address, bind="0.0.0.0:0") as everywhere:
        assert everywhere.get("/healthz").json() == {
            "status": "failing",
            "node": "n1",
            "reasons": [],
        }
        assert everywhere.get("/healthz", headers=BEARER).json()["reasons"] != []
        assert everywhere.get("/metrics").status_code == 401
        assert everywhere.get("/metrics", headers=BEARER).status_code == 200


def test_metrics_tell_of_all_tasks_and_nodes(
    bus: Bus, web: httpx.Client, load: str, name: str
) -> None:
    bus.client.create(
        "/datas/node/n1/stat",
        json.dumps({"tasks": {load: [name]}, "workLimit": 4}).encode(),
        makepath=True,
    )
    working(
        bus,
        load,
        name,
        Stat(
            State.RETRYING,
            "away",
            at=now(),
            node_id="n1",
            process_id=77,
            rows=5,
            lag_records=12,
            lag_seconds=1.5,
        ),
    )
    answer = web.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert f'cdcbus_task_state{{state="RETRYING",task="{load}"}} 1.0' in lines
    assert f'cdcbus_task_rows_total{{task="{load}"}} 5.0' in lines
    assert f'cdcbus_task_lag_records{{task="{load}"}} 12.0' in lines
    assert f'cdcbus_task_lag_seconds{{task="{load}"}} 1.5' in lines
    assert f'cdcbus_task_on_node{{node="n1",task="{load}"}} 1.0' in lines
    assert 'cdcbus_node_swimlanes{node="n1"} 0.0' in lines  # it is not there
    # not known, so not 0
    assert not [line for line in lines if line.startswith("cdcbus_task_lag_bytes")]


def test_metrics_wait_for_no_znode_of_a_single_task(
    bus: Bus, load: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of tasks would be thousands of round trips."""
    working(bus, load, name, Stat(State.WORKING, at=now(), node_id="n1", process_id=77, rows=5))
    ahead = metrics_ahead
    asked: list[str] | None = None

    def noted(client: Any, task_ids: Sequence[str]) -> Any:
        nonlocal asked
        found = ahead(client, task_ids)
        asked = []
        return found

    def asking(ask: Any) -> Any:
        def get(path: str, watch: Any = None) -> Any:
            if asked is not None:
                asked.append(path)
            return ask(path, watch=watch)

        return get

    for method in ("get_async", "get_children_async"):
        monkeypatch.setattr(bus.client, method, asking(getattr(bus.client, method)))
    monkeypatch.setattr(metrics, "metrics_ahead", noted)
    found = metrics.of_all(WebBus(bus.client, read_bus_settings({}, None, {}), "n1"))
    assert f'cdcbus_task_rows_total{{task="{load}"}} 5.0' in metrics.exposed(found).decode()
    assert asked == []


DAMAGE = {
    "wanted": [b"{", b'"x"', b'{"status":"MAYBE"}', b"\xff\xfe"],
    "state": [b"[]", b'{"state":"FLYING"}', b'{"state":5,"reason":{},"restarts":"x"}'],
    "stat": [b"nonsense", b'{"state":"FLYING"}',
             b'{"state":"WORKING","rows":"many","tables":7,"beats":[],"delays":{"a":[1]},"stagesMs":{"a":"b"}}'],
    "claim": [b"{", b"7", b'{"nodeId":[]}'],
    "error": [b"{", b'{"failures":[[1]]}', b'{"failures":{}}'],
    "occurrences": [b"{", b'{"occurrences":[[1]]}', b'{"occurrences":{}}'],
    "delays": [b"{", b'{"delays":[[1,{"a":[1]}],[1]]}', b'{"delays":{}}'],
    "minutes": [b"{", b'{"minutes":[1,[2]]}'],
    "position/SWIMLANE": [b"{", b"\xff", b'{"offset":"x"}', b'{"offset":-5,"partition":0,"topic":"other"}', b"[" * 2000],
    "history/SWIMLANE": [b"{", b'{"changes":[{"x":1}]}', b'{"changes":7}', b'{"changes":[7]}'],
    "lock/SWIMLANE": [b"{", b"[]", b'{"processId":"x"}'],
    "alarm": [b"{", b"[]", b'{"alarms":7}', b'{"alarms":{"idle":{"sentence":5,"since":"x","raised_at":1}}}',
              b'{"alarms":{"idle":{"sentence":"x","since":1e300,"raised_at":1}}}',
              b'{"sent":[{"notice":{"kind":"raised","rule":7,"sentence":"","since":0,"at":[]},"by":7}]}'],
    "alarm/silence": [b"{", b'{"until":1e300,"by":7}', b'{"until":"x"}'],
    "dist/SWIMLANE": [b"", b"{", b"[]", b"null", b'{"consumer":5}', b'{"taskId":"other"}', b"\xff", b'{"consumer":{"source":7}}'],
    "dist/other": [b"{"],
}  # fmt: skip


def test_pages_that_are_asked_again_and_again_leave_no_thread_and_no_connection(
    web: httpx.Client, load: str, name: str
) -> None:
    """Those that ask Kafka, too: a client of it is six threads and some connections. Threads and
    files are those of this process, which serves the pages."""

    own = (f"/tasks/{load}", f"/letters/{load}", f"/topics/{name}", f"/topics/{name}/readers")

    def ask(times: int) -> None:
        for _ in range(times):
            for path in (*GETS, f"/api/tasks/{load}/dlq", *own):
                assert web.get(path, headers=BEARER).status_code == 200, path

    def held() -> tuple[int, int]:
        process = Path("/proc/self")
        return len([*(process / "task").iterdir()]), len([*(process / "fd").iterdir()])

    ask(3)
    threads, files = held()
    ask(20)
    wait_until(
        lambda: held()[0] < threads + 10 and held()[1] < files + 10,
        f"the {threads} threads and {files} files of before",
    )


def test_nodes_that_somebody_damaged_are_told_of_and_nothing_fails(
    bus: Bus, web: httpx.Client, load: str, name: str
) -> None:
    directory = f"/datas/task/{load}"
    bus.tasks.want(load, is_working=True, by="x")
    own = [
        "/api/tasks",
        "/healthz",
        "/metrics",
        f"/api/tasks/{load}",
        f"/api/tasks/{load}/positions",
        "/api/alarms",
        "/alarms",
        f"/tasks/{load}",
    ]
    for node, texts in DAMAGE.items():
        path = f"{directory}/{node.replace('SWIMLANE', name)}"
        before = bus.client.get(path)[0] if bus.client.exists(path) else None
        bus.client.ensure_path(path)
        is_text = node.startswith("dist")
        for text in texts:
            bus.client.set(path, text)
            for page in [*own, "/api/topics"] if is_text else own:
                answer = web.get(page)
                assert answer.status_code in (200, 409), (path, text, page, answer.text)
        if is_text or node.startswith(("position", "history")):
            found = tree(bus.client)
            preview = web.post(
                f"/api/tasks/{load}/positions/reset", json={"to": "earliest"}, headers=BEARER
            )
            assert preview.status_code in (200, 409), (path, texts[-1], preview.text)
            assert tree(bus.client) == found
        if before is None:
            bus.client.delete(path, recursive=True)
        else:
            bus.client.set(path, before)
    bus.client.set(f"{directory}/wanted", b"{")
    assert "wanted does not hold a JSON object" in get(web, f"/api/tasks/{load}")["reason"]
    # writing it again is the remedy
    assert post(web, f"/api/tasks/{load}/start")["state"] == "STARTING"
    for node_text in (
        b"{",
        b"[]",
        b'{"tasks":[1],"workLimit":"x","heartbeat":5}',
        b'{"tasks":{"a":7,"b":[{}]}}',
        b"\xff",
    ):
        for node in ("n1/stat", "n1/lock", "n1/wanted"):
            bus.client.ensure_path(f"/datas/node/{node}")
            bus.client.set(f"/datas/node/{node}", node_text)
            for page in (*GETS, "/api/nodes/n1"):
                answer = web.get(page)
                assert answer.status_code == 200 or (
                    page == "/healthz" and answer.status_code == 503
                ), (node, node_text, page, answer.text)
    bus.client.create("/datas/audit/by hand", b"{")
    assert "does not hold a JSON object" in get(web, "/api/audit")[-1]["failed"]


def test_no_answer_holds_a_secret(bus: Bus, web: httpx.Client, load: str, name: str) -> None:
    """Also of a task that porter left with its password in clear."""
    path = f"/datas/task/{load}/dist/{name}"
    dist = json.loads(bus.text(path) or "")
    dist["loader"]["source"] |= {
        "password": SECRET,
        "url": f"jdbc:postgresql://127.0.0.1:1/none?user=cdc&password={SECRET}",
    }
    bus.client.set(path, json.dumps(dist).encode())
    post(web, f"/api/tasks/{load}/start")
    pages = (
        *GETS,
        f"/api/tasks/{load}",
        f"/api/tasks/{load}/positions",
        f"/api/tasks/{load}/dlq",
        "/api/openapi.json",
        "/",
        f"/tasks/{load}",
        "/nodes",
        "/topics",
        f"/topics/{name}",
        "/lineage",
        "/inspect/node/jstack",
    )
    answers = list(map(web.get, pages))
    answers.append(
        web.post(f"/api/tasks/{load}/positions/reset", json={"to": "earliest"}, headers=BEARER)
    )
    answers.append(web.get("/api/tasks", headers={"Authorization": "Bearer wrong"}))
    answers.append(web.post("/api/nodes/n1/limit", json={"swimlanes": SECRET}, headers=BEARER))
    for answer in answers:
        assert SECRET not in answer.text, answer.url
        assert TOKEN not in answer.text, answer.url
        assert answer.status_code < 500, (answer.url, answer.text)


ODD = (
    "..",
    ".",
    "zookeeper",
    "../../x",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "%2e%2e",
    "%00",
    "a/b",
    "a\\b",
    "imported.properties",
    "😀",
    " ",
)
NAMES = st.sampled_from(ODD) | st.text(max_size=30)
FIELDS = st.sampled_from(["to", "topic", "partition", "live", "swimlane", "x"])
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner),
    max_leaves=5,
)
BODIES = st.none() | st.binary(max_size=200) | JSONS.map(lambda value: json.dumps(value).encode())
PATHS = (
    "/api/tasks/{}",
    "/api/tasks/{}/start",
    "/api/tasks/{}/stop",
    "/api/tasks/{}/restart",
    "/api/tasks/{}/positions",
    "/api/tasks/{}/positions/reset",
    "/api/tasks/{}/positions/undo",
    "/api/tasks/{}/dlq/drop",
    "/api/nodes/{}",
    "/api/nodes/{}/drain",
    "/api/nodes/{}/limit",
    "/{}",
    "/static/{}",
    "/inspect/node/{}",
    "/tasks/{}",
    "/topics/{}",
    "/api/tasks/242/positions/reset",
    "/api/tasks/242/positions/undo",
)


def test_whatever_is_asked_no_page_fails_and_nothing_changes(
    bus: Bus, web: httpx.Client, load: str
) -> None:
    before = tree(bus.client)

    @settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
    @given(
        method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD"]),
        path=st.sampled_from(PATHS),
        name=NAMES,
        body=BODIES,
        is_quoted=st.booleans(),
    )
    def ask(method: str, path: str, name: str, body: bytes | None, is_quoted: bool) -> None:
        word = name
        if is_quoted:
            word = "".join(f"%{byte:02x}" for byte in name.encode(errors="replace"))
        try:
            request = web.build_request(
                method,
                path.format(word),
                content=body,
                headers={**BEARER, "content-type": "application/json"},
            )
        except (httpx.InvalidURL, UnicodeEncodeError):
            return  # no client can ask so
        if word in (load, "login", "logout"):
            return
        answer = web.send(request)
        assert answer.status_code < 500, (answer.url, answer.text)
        assert "root:" not in answer.text

    ask()
    assert tree(bus.client) == before
