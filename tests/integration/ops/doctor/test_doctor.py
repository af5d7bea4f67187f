"""`cdcbus doctor` on real servers, well and unwell."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from tests.support.processes.bus import Bus, fetch_text, load_text, open_bus

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(
    zookeeper: str, name: str, source: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bus]:
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def test_all_that_the_tasks_of_zookeeper_name_is_looked_at_once(
    bus: Bus,
    stack: Addresses,
    source: Database,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TARGET_PASSWORD", stack.postgresql.password)
    make_topic(name, 2)
    bus.load(fetch_text("5101", source, kafka, name))
    bus.load(fetch_text("5102", source, kafka, name))
    bus.load(load_text("5103", stack, name))
    bus.load(
        fetch_text("5106", source, kafka, name).replace(
            f"topic={name}\n", f"topic={name}-nowhere\n"
        )
    )
    BusNodes(bus.client).put_stat("north", {"status": "WORKING"})
    found = {seen["subject"]: seen for seen in bus.json("doctor")}
    assert len([subject for subject in found if subject.startswith("clock of source")]) == 1
    for subject in (
        "Java",
        f"Kafka {kafka}",
        f"Kafka topic {name}",
        "Kafka broker 1",
        "tasks",
        "clock of node north",
        "target of task 5103",
    ):
        assert found[subject]["outcome"] == "ok", found
    assert found[f"Kafka topic {name}-nowhere"]["found"] == "missing, though a task names it"
    # it has told once, but no process holds its lock
    assert found["node north"]["outcome"] == "warning"
    assert source.password not in str(found)


def test_a_task_that_cannot_be_read_is_an_error(bus: Bus) -> None:
    bus.client.create("/datas/task/5105/dist/a", b"{", makepath=True)
    found = {seen["subject"]: seen for seen in json.loads(bus("doctor", "--json", code=1).stdout)}
    assert found["task 5105"]["outcome"] == "error"
    assert "cdcbus task check 5105" in found["task 5105"]["cure"]


def test_what_is_away_is_named_with_a_cure_and_ends_with_1(
    bus: Bus, source: Database, name: str
) -> None:
    bus.load(
        fetch_text(
            "5104",
            Database("127.0.0.1", 1, source.user, source.password, source.database),
            "127.0.0.1:2",
            name,
        )
    )
    text = bus("doctor", code=1).output
    assert "127.0.0.1:2" in text
    assert "source 127.0.0.1:1" in text
    assert "→" in text
    assert "0 errors" not in text
