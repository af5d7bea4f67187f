"""Questions to Prometheus over a real connection, and what becomes of all that may come back."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cdcbus.ops.web.series import prometheus as client
from cdcbus.ops.web.series.prometheus import NoAnswer, Prometheus
from cdcbus.ops.web.series.queries import any_of, quoted, selector, span_of, task_charts
from cdcbus.ops.web.series.series import Mark
from cdcbus.ops.web.series.source import ChartSource, chart_source
from cdcbus.tasks.control.bus_settings import read_bus_settings
from tests.support.servers.prometheus_server import PrometheusServer, matrix, prometheus_server

NOW = 1_795_281_330.0


@pytest.fixture
def server() -> Iterator[PrometheusServer]:
    with prometheus_server() as server:
        yield server


def answers(path: str, arguments: dict[str, str]) -> list[object]:
    """Of a task with rows, lag, one stage and two tables, at the last two steps."""
    query = arguments["query"]
    if path.endswith("/query"):
        tables = (("shop.b", "5"), ("shop.a", "9"))
        return [{"metric": {"table": name}, "value": [1.5, value]} for name, value in tables]
    start = int(arguments["end"]) - int(arguments["step"])

    def series(labels: dict[str, str], *values: str) -> dict[str, object]:
        return matrix(labels, start, int(arguments["step"]), list(values))

    if "delay_seconds" in query:
        shares = ("0.5", "1"), ("0.95", "2"), ("0.99", "3"), ("0.9", "7")
        return [
            series({"stage": "source_to_read", "quantile": share}, value) for share, value in shares
        ]
    if "table_rows_total" in query:
        return [series({"table": "shop.a"}, "1"), series({"table": "shop.b"}, "2", "3")]
    if "lag_bytes" in query:
        return []
    return [series({}, "NaN", "4.5"), series({"of": "another"}, "1")]


def test_charts_are_made_of_what_prometheus_has(server: PrometheusServer) -> None:
    server.answer = answers
    span = span_of(3600, NOW)
    marks = [Mark(span.start + 5, "error", "x"), Mark(span.start - 5, "error", "old")]
    found = task_charts(Prometheus(f"{server.address}/prefix/", match='env="a"'), "x", span, marks)
    assert found is not None
    assert [(each.title, each.unit) for each in found.main] == [
        ("Rows", "a second"),
        ("Lag", "seconds"),
        ("Lag", "records"),
    ]
    rows = found.main[0]
    assert (len(rows.values), rows.values[-2:], rows.end) == (240, [None, 4.5], span.end)
    assert list(rows.marks) == marks[:1]
    [delay] = found.delays
    assert [line.values[-2] for line in delay.lines] == [1.0, 2.0, 3.0]
    assert [(each.title, list(each.values[-2:])) for each in found.tables] == [
        ("shop.a", [1.0, None]),
        ("shop.b", [2.0, 3.0]),
    ]
    assert {path for path, _ in server.asked} == {
        "/prefix/api/v1/query",
        "/prefix/api/v1/query_range",
    }
    assert all('{task="x",env="a"' in query for query in server.queries)
    assert server.queries[0] == 'max(rate(cdcbus_task_rows_total{task="x",env="a"}[120s]))'
    assert server.queries[-1] == (
        "sum by (table) (max by (swimlane, table, operation) (rate(cdcbus_table_rows_total"
        '{task="x",env="a",table=~"shop\\\\.a|shop\\\\.b"}[120s])))'
    )


def test_names_cannot_leave_their_places_in_a_query() -> None:
    assert selector('a"} or x{b="\\\n', "") == '{task="a\\"} or x{b=\\"\\\\\\n"}'
    assert any_of(["s.a|b", "größe x"]) == r"s\.a\|b|größe\ x"
    assert quoted(r"s\.a") == r'"s\\.a"'


def test_credentials_are_sent_and_nowhere_shown(server: PrometheusServer) -> None:
    Prometheus(server.address, token="t0ken").now("up", 1)
    assert server.headers["authorization"] == "Bearer t0ken"
    login = Prometheus(server.address, "ada", "s3cret")
    login.now("up", 1)
    assert server.headers["authorization"] == "Basic YWRhOnMzY3JldA=="
    server.status = 401
    with pytest.raises(NoAnswer, match=r"check prometheus\.user") as refused:
        login.now("up", 1)
    assert "s3cret" not in f"{refused.value} {login!r}"


def test_a_redirect_is_not_followed(server: PrometheusServer) -> None:
    with prometheus_server() as inside:
        server.status, server.more_headers = 302, {"Location": f"{inside.address}/secret"}
        with pytest.raises(NoAnswer, match=r"redirect \(302\), which is not followed"):
            Prometheus(server.address, token="t0ken").now("up", 1)
        assert inside.asked == []


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (422, b'{"status":"error","error":"too many\\nsamples"}', "answers 422: too many samples"),
        (503, b"<html>", "answers 503$"),
        (500, b"", "answers 500$"),
        (200, b"<html>", "does not answer as Prometheus does"),
        (200, b"[]", "does not answer as Prometheus does"),
        (200, b'{"status":"success","data":{"result":7}}', "does not answer as Prometheus does"),
        (200, b'{"status":"error","data":{"result":[]}}', "does not answer as Prometheus does"),
        (200, b" " * 4096, "more than 0 MB"),
    ],
)
def test_what_is_no_answer_is_said(
    server: PrometheusServer,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    body: bytes,
    said: str,
) -> None:
    monkeypatch.setattr(client, "ANSWER_BYTES", 2048)
    server.status, server.body = status, body
    with pytest.raises(NoAnswer, match=said):
        Prometheus(server.address).now("up", 1)


def test_samples_of_another_form_are_left_out(server: PrometheusServer) -> None:
    bad = [7, {"metric": 1}, {"metric": {}, "values": 5}, {"metric": {}, "histograms": []}]
    samples = [[1, "2"], [2, "+Inf"], [3, "x"], [4], "y", [5, 6]]
    server.answer = lambda path, arguments: [*bad, {"metric": {"a": "b"}, "values": samples}]
    [found] = Prometheus(server.address).range("up", 1, 2, 1)
    assert (found.labels, found.values) == ({"a": "b"}, {1.0: 2.0})


def test_one_that_is_away_or_stands_still_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NoAnswer, match="has not answered within"):
            Prometheus(address).now("up", 1)
    with pytest.raises(NoAnswer, match="cannot be reached"):
        Prometheus(address).now("up", 1)


def test_all_questions_of_a_page_have_an_end(server: PrometheusServer) -> None:
    with pytest.raises(NoAnswer, match="takes too long for all that charts need"):
        Prometheus(server.address, deadline=0.0).now("up", 1)
    assert server.asked == []


def test_many_who_look_ask_once_and_one_that_is_away_is_left_alone_for_a_while(
    server: PrometheusServer,
) -> None:
    clock = [100.0]
    source = ChartSource(Prometheus(server.address), clock=lambda: clock[0])
    server.answer = answers
    first = source.charts("x", 3600, NOW, ())
    count = len(server.asked)
    assert first.charts is not None
    assert source.charts("x", 3600, NOW + 1, ()) is first
    assert len(server.asked) == count
    source.charts("x", 3600, NOW, (Mark(1, "error", "x"),))
    assert len(server.asked) > count
    clock[0] += 16
    server.status = 500
    away = source.charts("x", 3600, NOW, ())
    count = len(server.asked)
    assert (away.charts, "answers 500" in away.why) == (None, True)
    assert source.charts("another", 60, NOW, ()) is away
    assert len(server.asked) == count
    clock[0] += 31
    server.status = 200
    assert source.charts("x", 3600, NOW, ()).charts is not None
    server.answer = lambda path, arguments: []
    assert "has nothing of this task" in source.charts("y", 3600, NOW, ()).why


def test_settings_say_whom_to_ask_and_a_broken_one_is_a_sentence() -> None:
    assert chart_source(read_bus_settings({}, None, {})).charts("x", 60, NOW, ()).why == ""
    settings = {"prometheus.url": "http://p:9090", "prometheus.token": "${env:NO_TOKEN}"}
    broken = chart_source(read_bus_settings(settings, None, {}))
    assert "NO_TOKEN" in broken.charts("x", 60, NOW, ()).why
    source = chart_source(read_bus_settings(settings, None, {"NO_TOKEN": "t"}))
    assert source.shown == "http://p:9090"
