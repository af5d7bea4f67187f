"""The names of /metrics: the page, the dashboard and the code agree; each kind of value comes
out."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from cdcbus.ops.web.metrics import (
    METRICS,
    Described,
    exposed,
    of_failures,
    of_node,
    of_task,
    of_verify,
)
from cdcbus.plugins.task_status import State
from cdcbus.tasks.verify.last import LastVerify, NotEqual
from cdcbus.tasks.zookeeper.node_registry import NodeInfo, NodeWish
from cdcbus.tasks.zookeeper.stat import Percentiles, Stat, TableCounts, TableRate
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.tasks import Failure, Run
from cdcbus.tasks.zookeeper.znode import now

ROOT = Path(__file__).parents[4]
HEAD = "| metric | labels | meaning |"
DASHBOARD = json.loads((ROOT / "ops" / "grafana" / "cdcbus.json").read_text(encoding="utf-8"))
NOT_ON_THE_DASHBOARD = {
    "cdcbus_task_rows_per_second": "the dashboard takes the rate of cdcbus_task_rows_total",
    "cdcbus_table_rows_per_second": "the dashboard takes the rate of cdcbus_table_rows_total",
}
STAT = Stat(
    State.WORKING,
    at=now(),
    rows=7,
    lag_records=1,
    lag_seconds=2.0,
    lag_bytes=3,
    idle_seconds=4.0,
    skew_seconds=5.0,
    retention_seconds=6.0,
    delays={"source_to_kafka": Percentiles(0.1, 0.2, 0.3)},
    stages_ms={"apply": 250.0},
    tables=(TableCounts("t", "shop.orders", 10, 1, 2, 3, 4, 5, 6, 7, 8),),
    queued_bytes=8,
    kept_unread=0.5,
    table_rates=(TableRate("t", "shop.orders", 2.5), TableRate("t", "shop.busy", 1.0)),
)
STATUS = Status(
    "shop",
    State.WORKING,
    node_id="n1",
    run=Run(State.WORKING, restarts=2, all_restarts=14),
    stat=STAT,
    open_dead_letters=4,
    reported_at=STAT.at,
)
FAILURES = [Failure("2024-05-01 03:04:05", "n1", "x")]


def row(metric: Described) -> str:
    return f"| `{metric.name}` | {', '.join(metric.labels)} | {metric.meaning} |"


def test_the_page_has_exactly_the_metrics_of_the_code() -> None:
    lines = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").splitlines()
    table = lines[lines.index(HEAD) + 2 :]
    assert table[: table.index("")] == [row(metric) for metric in METRICS.values()]


def targets() -> list[dict[str, str]]:
    """The queries of all panels."""
    found = []
    for panel in DASHBOARD["panels"]:
        found += panel["targets"]
    return found


def labels_by(query: str) -> set[str]:
    """The labels that a query groups or matches by."""
    lists = re.findall(r"(?:by|on) \(([^)]*)\)", query)
    return {label.strip() for listed in lists for label in listed.split(",")}


def test_the_dashboard_names_metrics_and_labels_that_are_there() -> None:
    for target in targets():
        query = target["expr"]
        names = set(re.findall(r"cdcbus_\w+", query))
        assert names and names <= METRICS.keys(), query
        known = {"instance"}
        for name in names:
            known.update(METRICS[name].labels)
        chosen = set(re.findall(r'(\w+)=~?"', query))
        assert labels_by(query) | chosen <= known, query
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels_by(query), query


def test_each_metric_is_on_the_dashboard_or_left_out_with_a_reason() -> None:
    shown = set()
    for target in targets():
        shown.update(re.findall(r"cdcbus_\w+", target["expr"]))
    assert METRICS.keys() - shown == NOT_ON_THE_DASHBOARD.keys()


def test_no_panel_of_the_dashboard_lies_over_another() -> None:
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24 and (x, y) not in taken, panel["title"]
                taken.add((x, y))


def test_every_metric_is_told_with_its_labels() -> None:
    info = NodeInfo(
        "n1", True, NodeWish(False), work_limit=9, tasks={"shop": ("t",)}, silent_seconds=1.0
    )
    verified = LastVerify("", "2024-05-01 03:04:05", results={"equal": 3})
    samples = [
        *of_node(info),
        *of_task(STATUS),
        *of_failures("shop", FAILURES),
        *of_verify("shop", verified),
    ]
    told = {name: labels for name, labels, value in samples if value is not None}
    assert {name: len(labels) for name, labels in told.items()} == {
        name: len(metric.labels) for name, metric in METRICS.items() if name != "cdcbus_build_info"
    }


def test_values_are_those_of_the_task() -> None:
    values = {
        (name, *labels): value
        for name, labels, value in [*of_task(STATUS), *of_failures("shop", FAILURES)]
    }
    assert values["cdcbus_task_state", "shop", "WORKING"] == 1
    assert values["cdcbus_task_restarts", "shop"] == 14
    assert values["cdcbus_task_last_failure_timestamp_seconds", "shop"] == 1714532645
    assert values["cdcbus_task_delay_seconds", "shop", "source_to_kafka", "0.99"] == 0.3
    assert values["cdcbus_task_stage_seconds", "shop", "apply"] == 0.25
    assert values["cdcbus_task_queued_bytes", "shop"] == 8
    assert [
        values["cdcbus_table_rows_total", "shop", "t", "shop.orders", each]
        for each in ("insert", "update", "delete", "truncate")
    ] == [
        1,
        2,
        3,
        4,
    ]
    others = ("failed", "missed", "dropped", "superseded")
    assert [
        values[f"cdcbus_table_{each}_rows_total", "shop", "t", "shop.orders"] for each in others
    ] == [5, 6, 7, 8]


def test_what_a_verify_has_found_is_told() -> None:
    last = LastVerify(
        "",
        "2024-05-01 03:04:05",
        seconds=7.5,
        results={"equal": 3, "different": 1, "error": 1},
        tables=(NotEqual("a", "different", 2, "2024-05-01 03:04:05"), NotEqual("b", "error")),
        left_out=("b.place",),
    )
    values = {(name, *labels): value for name, labels, value in of_verify("shop", last)}
    assert values == {
        ("cdcbus_task_verify_timestamp_seconds", "shop"): 1714532645,
        ("cdcbus_task_verify_seconds", "shop"): 7.5,
        ("cdcbus_task_verified_tables", "shop", "equal"): 3,
        ("cdcbus_task_verified_tables", "shop", "different"): 1,
        ("cdcbus_task_verified_tables", "shop", "error"): 1,
        ("cdcbus_task_unequal_tables", "shop"): 1,
        ("cdcbus_task_verify_failed", "shop"): 1,
        ("cdcbus_task_unverified_columns", "shop"): 1,
    }


def test_a_task_that_has_lost_its_lock_is_still_told_to_be_silent() -> None:
    lost = Status("shop", State.WORKING, reported_at="2024-05-01 03:04:05")
    silent = [value for name, _, value in of_task(lost) if name == "cdcbus_task_silent_seconds"]
    assert isinstance(silent[0], float) and silent[0] > 60


def test_what_is_not_known_of_a_task_is_not_told_as_zero() -> None:
    samples = list(of_task(Status("shop", State.NEW)))
    assert samples == [
        ("cdcbus_task_state", ("shop", State.NEW), 1),
        ("cdcbus_task_restarts", ("shop",), 0),
        ("cdcbus_task_open_letters", ("shop",), None),
        ("cdcbus_task_silent_seconds", ("shop",), None),
    ]
    idle = {
        name: value
        for name, _, value in of_task(Status("shop", State.WORKING, stat=Stat(State.WORKING)))
    }
    assert idle["cdcbus_task_lag_records"] is None
    assert idle["cdcbus_task_queued_bytes"] is None


def test_prometheus_reads_what_is_written() -> None:
    odd = 'a "quoted"\\n\nname'
    samples = [
        ("cdcbus_task_rows_total", ("shop",), 7),
        ("cdcbus_task_on_node", (odd, "n1"), True),
        ("cdcbus_task_rows_total", (odd,), 1e300),
        ("cdcbus_task_lag_bytes", ("shop",), None),
    ]
    families = list(text_string_to_metric_families(exposed(samples).decode()))
    read = [(each.name, each.type, each.documentation) for each in families]
    rows, node = METRICS["cdcbus_task_rows_total"], METRICS["cdcbus_task_on_node"]
    # The parser names a counter without its end.
    assert read == [
        ("cdcbus_task_rows", "counter", rows.meaning),
        ("cdcbus_task_on_node", "gauge", node.meaning),
    ]
    found = [(each.name, each.labels, each.value) for family in families for each in family.samples]
    assert found == [
        ("cdcbus_task_rows_total", {"task": "shop"}, 7.0),
        ("cdcbus_task_rows_total", {"task": odd}, 1e300),
        ("cdcbus_task_on_node", {"task": odd, "node": "n1"}, 1.0),
    ]
