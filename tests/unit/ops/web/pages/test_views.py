"""What pages show of tasks and topics, made from what is known."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.overview.stored_tasks import Route
from cdcbus.ops.web.overview.task_rows import TaskRow, overview_of
from cdcbus.ops.web.pages import live
from cdcbus.ops.web.pages.charts import line_chart
from cdcbus.ops.web.pages.task_details import LOG_LINES, log_tail, settings
from cdcbus.ops.web.pages.topics import CellChange, cells_of
from cdcbus.ops.web.series.marks import marks_of
from cdcbus.ops.web.series.throughput import throughput_charts
from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.plugins.rowchange import Op, Origin, RowChange, Table, TableId
from cdcbus.plugins.task_status import State
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.editing.masked import MASK
from cdcbus.tasks.runtime.throughput_history import Minute
from cdcbus.tasks.zookeeper.position.history import Change
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.tasks import Failure, Run

NOW = 1_795_281_330.0
LAST = 1_795_281_240  # when the last whole minute before it began


def row(task_id: str, state: State, source: str = "", **stat: Any) -> TaskRow:
    told = Stat(state, **stat) if stat else None
    return TaskRow(
        Status(task_id, state, node_id="n1", stat=told),
        Route("fetch", source, "topic t", ("t",)),
        (),
    )


ROWS = [
    row("a", State.ERROR),
    row("b", State.WORKING, "shop at db", rows_per_second=10.0, lag_seconds=2.0),
    row("c", State.WORKING, "stock at db", rows_per_second=5.0, lag_seconds=7.5),
    row("d", State.STOPPED, rows_per_second=9.0, lag_seconds=99.0),
]


def test_the_figures_are_of_all_tasks_that_run_and_the_rows_of_those_asked_for() -> None:
    found = overview_of(ROWS, "SHOP", "")
    assert [each.status.task_id for each in found.rows] == ["b"]
    assert (found.rows_per_second, found.most_behind_seconds, found.states[State.WORKING]) == (
        15.0,
        7.5,
        2,
    )
    assert [each.status.task_id for each in overview_of(ROWS, "", "WORKING").rows] == ["b", "c"]
    assert overview_of([], "", "").most_behind_seconds is None


def test_secrets_are_not_among_the_settings_and_placeholders_are() -> None:
    text = (
        'consumer.source.password=geheim\nloader.source.password=${env:P}\nkafka.sasl.jaas.config=x password="geheim"\n'
        "loader.source.url=jdbc:mysql://h/db?user=u&password=geheim\nconsumer.source.database=shop\nsome.secret=geheim\n"
    )
    shown = {
        setting.key: setting.shown
        for setting in settings(inspect_text(text, {}, sources=lambda _: None).entries.values())
    }
    assert "geheim" not in str(shown)
    assert shown["loader.source.password"] == "${env:P}"
    assert shown["consumer.source.database"] == "shop"
    assert (
        shown["consumer.source.password"]
        == shown["loader.source.url"]
        == shown["some.secret"]
        == MASK
    )


def test_charts_span_the_smallest_window_that_holds_all_and_leave_gaps() -> None:
    rows, lag = throughput_charts(
        [Minute(LAST - 120, 7, None, 0.5, "WORKING"), Minute(LAST, 9, None, None, "WORKING")], NOW
    )
    assert (rows.end, len(rows.values)) == (LAST + 60, 30)
    assert rows.values[-4:] == [None, 7, None, 9]
    assert (lag.unit, lag.values[-4:]) == ("seconds", [None, 0.5, None, None])
    assert (
        len(throughput_charts([Minute(LAST - 100 * 60, 7, 1, 0.5, "WORKING")], NOW)[0].values)
        == 180
    )
    assert throughput_charts([], NOW) == []


def test_a_range_of_hours_has_a_minute_a_point_and_one_of_days_an_hour() -> None:
    hour = NOW // 3600 * 3600
    minutes = [Minute(LAST, 9, None, 1.0, "WORKING")]
    hours = [Minute(int(hour) - 3600, 540, None, 7.5, "WORKING")]
    rows, lag = throughput_charts(minutes, NOW, hours, "6h")
    assert (rows.unit, len(rows.values), rows.values[-1]) == ("a minute", 360, 9)
    rows, lag = throughput_charts(minutes, NOW, hours, "30d")
    assert (rows.unit, len(rows.values), rows.values[-2:]) == ("an hour", 720, [540, 9])
    assert lag.values[-3:] == [None, 7.5, 1.0]
    assert len(throughput_charts([], NOW, [], "7d")[0].values) == 168


def test_errors_and_positions_set_by_hand_are_marked_where_they_are_in_the_range() -> None:
    failures = [
        Failure("2026-11-21 17:10:00", "node n1", "Kafka <a> is away"),
        Failure("2026-11-20 17:10:00", "node n1", "long ago"),
        Failure("damaged", "node n1", "x"),
    ]
    changes = [("shop", Change("2026-11-21 17:05:00", "ada", "offset reset", None, "x"))]
    marks = marks_of(failures, changes)
    assert [(mark.kind, mark.sentence) for mark in marks] == [
        ("error", "long ago"),
        ("set", "ada: offset reset"),
        ("error", "Kafka <a> is away"),
    ]
    chart = str(line_chart(throughput_charts([], NOW, [], "1h", marks)[0]))
    assert chart.count('class="mark') == 2
    assert "17:10 UTC, error: Kafka &lt;a&gt; is away" in chart and "Error at 17:10." in chart
    assert str(line_chart(throughput_charts([], NOW, [], "7d", marks)[0])).count('class="mark') == 3


def test_the_end_of_a_log_is_shown_where_it_lies(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(500)) + b"\xff\n")
    here = Run(State.WORKING, host=socket.gethostname(), log=str(log))
    lines, _ = log_tail(Status("x", State.WORKING, run=here), log)
    assert (len(lines), lines[-2:]) == (LOG_LINES, ["line 499", "\ufffd"])
    elsewhere = Run(State.WORKING, host="elsewhere.example", log=str(log))
    said = log_tail(Status("x", State.WORKING, run=elsewhere), log)[1]
    assert said.startswith("It is on elsewhere")
    log.unlink()
    assert "cannot be read" in log_tail(Status("x", State.WORKING, run=here), log)[1]
    assert log_tail(Status("x", State.NEW), log)[1] == "No node has run it yet."


def test_a_file_that_is_not_the_log_of_this_node_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("s3cret\n")
    named = Run(State.WORKING, host=socket.gethostname(), log=str(secret))
    lines, why = log_tail(Status("x", State.WORKING, run=named), tmp_path / "logs" / "x.log")
    assert lines == []
    assert why.startswith(f"It is {secret}, but this node would write it to {tmp_path}")


def test_an_update_shows_its_key_and_what_it_changed() -> None:
    table = Table(TableId("s", "t"), (), ("id",))
    before, after = (
        {"id": "1", "a": "x", "b": "same", "c": None},
        {"id": "1", "a": None, "b": "same", "c": "\x1b[0m"},
    )
    assert cells_of(RowChange(table, Op.UPDATE, before, after, Origin())) == [
        CellChange("id", "1", is_key=True),
        CellChange("a", None, "x", is_changed=True),
        CellChange("c", "\\x1b[0m", None, is_changed=True),
    ]
    inserted = cells_of(RowChange(table, Op.INSERT, None, {"id": "1", "a": "y" * 2000}, Origin()))
    assert [cell.name for cell in inserted] == ["id", "a"]
    assert (inserted[1].value or "").endswith("… (2,000 characters)")


class Request:
    """Of a browser that leaves after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.app = SimpleNamespace(
            state=SimpleNamespace(bus=WebBus(None, read_bus_settings({}, None, {}), "n1"))
        )

    async def is_disconnected(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def events(parts: Any, request: Request) -> list[tuple[str, Any]]:
    async def collect() -> list[bytes]:
        return [bytes(chunk) async for chunk in live.stream(request, parts, 0.0).body_iterator]  # type: ignore[arg-type]

    found = []
    for chunk in asyncio.run(collect()):
        name, data = chunk.decode().rstrip("\n").split("\n")
        found.append((name.removeprefix("event: "), orjson.loads(data.removeprefix("data: "))))
    return found


def test_a_stream_sends_what_has_changed_and_says_when_nothing_is_known() -> None:
    answers: list[Any] = [
        {"a": "1", "b": "2"},
        {"a": "1", "b": "3\n"},
        PositionUnavailable("ZooKeeper is away"),
        {"a": "1", "b": "3\n"},
    ]

    def parts() -> dict[str, str]:
        answer: Any = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    assert events(parts, Request(4)) == [
        ("parts", {"a": "1", "b": "2"}),
        ("parts", {"b": "3\n"}),
        ("away", "ZooKeeper is away"),
        ("parts", {}),
    ]


def test_a_stream_ends_with_its_node() -> None:
    request = Request(1000)

    def parts() -> dict[str, str]:
        request.app.state.bus.ending.set()
        return {"a": "1"}

    assert events(parts, request) == [("parts", {"a": "1"})]


def test_no_more_streams_are_open_than_a_node_can_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_open", set(range(live.STREAMS)))
    with pytest.raises(Refused) as refused:
        live.stream(Request(1), dict)  # type: ignore[arg-type]
    assert refused.value.status == 503


def test_rows_are_sorted_by_any_column_and_what_is_not_known_comes_last() -> None:
    def ids(sort: str) -> list[str]:
        return [each.status.task_id for each in overview_of(ROWS, "", "", "", sort).rows]

    assert ids("lag") == ["b", "c", "d", "a"]
    assert ids("-lag") == ["d", "c", "b", "a"]
    assert ids("-task") == ["d", "c", "b", "a"]
    assert ids("rate") == ["c", "d", "b", "a"]
    assert ids("state") == ["a", "b", "c", "d"] == ids("no such column") == ids("node")
    assert ids("-way")[:2] == ["c", "b"]


def test_tasks_are_found_by_their_tags_which_are_counted() -> None:
    rows = [replace(ROWS[0], tags=("orders", "late")), replace(ROWS[1], tags=("orders",)), ROWS[2]]
    found = overview_of(rows, "", "", "late")
    assert [each.status.task_id for each in found.rows] == ["a"]
    assert found.tags == {"orders": 2, "late": 1}
    assert [each.status.task_id for each in overview_of(rows, "ORDER", "").rows] == ["a", "b"]
