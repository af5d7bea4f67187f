"""The tasks beside a task, when some of them cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.beside import Beside, Unread, tasks_beside
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from cdcbus.tasks.control.source_of import consumer_task, feeds_of
from cdcbus.tasks.control.uses import Uses
from cdcbus.tasks.direct.run import run_direct
from cdcbus.tasks.verify.last import last_verify
from cdcbus.tasks.verify.report import Kind, TableReport, exit_code
from cdcbus.tasks.verify.run import _doubt, opened
from tests.unit.tasks.control.test_source_of import found, load, put


@pytest.fixture
def bus(tmp_path: Path) -> BusSettings:
    return read_bus_settings({}, environ={}, folder=tmp_path)


def beside(folder: Path, bus: BusSettings) -> Beside:
    return tasks_beside(load(folder, "shop"), bus)


def names(places: object) -> set[str]:
    assert isinstance(places, dict)
    return {Path(place).stem for place in places}


def test_a_file_that_is_no_task_s_is_none(tmp_path: Path, bus: BusSettings) -> None:
    put(tmp_path, "a", "shop")
    (tmp_path / "log4j.properties").write_text("rootLogger=INFO")
    (tmp_path / ".#a.properties").symlink_to(tmp_path / "of an editor")
    known = beside(tmp_path, bus)
    assert (names(known.tasks), known.unread) == ({"a", "load"}, {})


@pytest.mark.parametrize(
    "more",
    [
        "consumer.source.slaveId=abc",
        "environment=prod",
        "environment=prod\nconsumer.source.slaveId=abc",
    ],
)
def test_an_error_that_does_not_decide_about_rows_hides_no_task(
    tmp_path: Path, bus: BusSettings, more: str
) -> None:
    put(tmp_path, "a", "shop")
    put(tmp_path, "b", "shop", more=more)
    assert names(beside(tmp_path, bus).tasks) == {"a", "b", "load"}
    with pytest.raises(ConfigError, match=r"a\.properties and .*b\.properties write"):
        found(load(tmp_path, "shop"), bus)


def test_a_task_of_another_environment_writes_to_the_kafka_that_it_names(
    tmp_path: Path, bus: BusSettings
) -> None:
    put(tmp_path, "a", "shop")
    other = Path(put(tmp_path, "b", "shop", more="environment=test"))
    other.write_text(other.read_text().replace("k:9092", "other:9092"))
    assert found(load(tmp_path, "shop"), bus) == {"a": {"shop"}}
    other.write_text(other.read_text().replace("other:9092", "${env:NOT_THERE}"))
    assert beside(tmp_path, bus).unread == {}


@pytest.mark.parametrize(
    ("topic", "more", "why"),
    [
        ("", "", "loader.source.topic: missing"),
        ("${env:NOT_THERE}", "", "NOT_THERE"),
        ("shop", "consumer.source.sourceName=nowhere", "consumer.source.sourceName: "),
        ("shop", "mapper[0].schema=a,b,c", r"mapper\[0\]\.schema: wrong value"),
    ],
)
def test_what_is_not_known_to_leave_rows_alone_stops_what_cannot_be_undone(
    tmp_path: Path, bus: BusSettings, topic: str, more: str, why: str
) -> None:
    put(tmp_path, "a", "shop")
    put(tmp_path, "b", topic, more=more)
    word = load(tmp_path, "shop")
    assert names(beside(tmp_path, bus).unread) == {"b"}
    refusal = rf"is refused, as .* cannot be read .*b\.properties: .*{why}.* Correct what is wrong"
    with pytest.raises(ConfigError, match=refusal):
        run_direct(word, bus)
    with pytest.raises(ConfigError, match=refusal), opened(word, bus, None, is_repairing=True):
        pass
    # A comparison alone goes on.
    assert found(word, bus) == {"a": {"shop"}}


def test_a_file_without_rights_is_one_that_cannot_be_read(
    tmp_path: Path, bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a", "shop")
    unread = Path(put(tmp_path, "b", "shop"))
    opened_by_path = Path.open

    def refuse_one(file: Path, *args: Any, **kwargs: Any) -> Any:
        if file == unread:
            raise PermissionError(13, "Permission denied")
        return opened_by_path(file, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse_one)
    assert "Permission denied" in beside(tmp_path, bus).unread[str(unread)].reason


def test_a_consumer_task_that_cannot_be_read_feeds_nothing(
    tmp_path: Path, bus: BusSettings
) -> None:
    put(tmp_path, "a", "shop")
    word = load(tmp_path, "shop")
    text = Path(word).read_text().replace("taskId=load", "taskId=other").replace("=shop", "=")
    (tmp_path / "other.properties").write_text(text)
    known = tasks_beside(word, bus)
    assert (names(known.unread), known.unread_feeds) == ({"other"}, {})


def test_where_no_task_writes_the_topic_those_that_cannot_be_read_are_named(
    tmp_path: Path, bus: BusSettings
) -> None:
    put(tmp_path, "b", "")
    word = load(tmp_path, "shop")
    with pytest.raises(
        ConfigError, match=r"no fetch task .* writes to it: .*b\.properties: loader"
    ):
        feeds_of(word, consumer_task(word, bus, Uses.WRITE), bus, None)


def test_a_task_that_writes_to_a_database_feeds_nothing(tmp_path: Path, bus: BusSettings) -> None:
    put(tmp_path, "a", "shop")
    other = Path(put(tmp_path, "b", ""))
    assert names(beside(tmp_path, bus).unread_feeds) == {"b"}
    other.write_text(other.read_text().replace("KAFKA_SYNC", "JdbcOther"))
    known = beside(tmp_path, bus)
    assert (names(known.unread), known.unread_feeds) == ({"b"}, {})


@pytest.mark.parametrize(
    ("others", "differing", "result"), [(2, 0, "error"), (2, 1, "different"), (0, 0, "equal")]
)
def test_rows_that_may_be_of_an_unread_task_are_no_proof(
    others: int, differing: int, result: str
) -> None:
    report = TableReport("shop.orders", [], of_others=others, others=("8", "b.properties"))
    report.counts[Kind.MISSING] = differing
    _doubt(report, Beside(), {})
    assert report.result == ("different" if differing else "equal")
    _doubt(report, Beside(unread={"b.properties": Unread("no rights")}), {})
    assert report.result == result
    assert (result == "error") == ("b.properties: no rights" in report.error)


@pytest.mark.parametrize(("differing", "code"), [(0, 2), (1, 1)])
def test_rows_that_an_unread_feed_may_send_are_no_proof(differing: int, code: int) -> None:
    report = TableReport("shop.orders", [], source_rows=7)
    report.counts[Kind.MISSING] = differing
    unread = {"b.properties": Unread("no rights")}
    _doubt(report, Beside(unread=unread), unread)
    assert exit_code([report]) == code
    last = last_verify([report], None, "then", "now", "x")
    assert last.word == ("different" if differing else "error")
    assert differing or "b.properties: no rights" in last.tables[0].error
