"""What a task notes of the rules by which it takes rows, and when it tells that they changed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from cdcbus.consumer.config import RECORD_ZONE, LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.transform.rule_digests import changed, digests, warn_of_changes
from cdcbus.producer.config import (
    DdlConfig,
    Elsewhere,
    FetchTask,
    FilterConfig,
    HeartbeatConfig,
    SourceConfig,
)

PUBLISH = PublishConfig("127.0.0.1:1", "t", "canalRow")
FETCH = FetchTask("7", "shop", SourceConfig((("a", 1),), "u"), FilterConfig(), PUBLISH)
TARGET = JdbcTarget("jdbc:postgresql://a/shop")
LOAD = LoadTask("7", TopicConfig("k:9092", ("shop",)), "canalRow", "JdbcBatch", TARGET)
# What an earlier version has noted of these tasks, which had fewer names.
NONE, NO_TABLES = "4f53cda18c2baa0c", "643d5437104296e2"
FETCH_NOTED = {
    "consumer.source.filter": NONE,
    "consumer.source.blackFilter": NONE,
    "consumer.includes": NO_TABLES,
    "consumer.excludes": NO_TABLES,
    "consumer.skippedOperations": NONE,
    "consumer.eventProcessor.className": "12ae32cb1ec02d01",
    "mapper[i]": NONE,
    "loader.source.topic, dynamicTopic": "cb98367780dc914f",
    "loader.source.partitionKey": "7a38905296006c57",
}
LOAD_NOTED = {
    "consumer.source.topics": "a7374cb33201cd4e",
    "consumer.source.partition": NONE,
    "consumer.source.filter": NONE,
    "consumer.includes": NO_TABLES,
    "consumer.excludes": NO_TABLES,
    "consumer.skippedOperations": NONE,
    "consumer.eventProcessor.className": "12ae32cb1ec02d01",
    "mapper[i]": NONE,
}


def test_equal_values_have_equal_digests_whatever_their_order() -> None:
    values = {
        "sets": frozenset({Op.DELETE, Op.INSERT}),
        "patterns": re.compile("a.*"),
        "map": {1: 2},
    }
    again = {
        "sets": frozenset({Op.INSERT, Op.DELETE}),
        "patterns": re.compile("a.*"),
        "map": {1: 2},
    }
    assert changed(digests(values), digests(again)) == []
    assert changed(digests(values), digests({**again, "patterns": re.compile("b")})) == ["patterns"]


def test_only_names_that_were_noted_and_differ_are_told(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_changes("7", {}, {"a": "1"}, "x:4", "Do it.")
    warn_of_changes("7", {"a": "1"}, {"a": "1", "b": "2"}, "x:4", "Do it.")
    assert not caplog.messages
    warn_of_changes("7", {"a": "1", "b": "3"}, {"a": "2", "b": "2"}, "x:4", "Do it.")
    [line] = caplog.messages
    assert line.startswith("task 7 goes on from x:4 with another value of a; b ")
    assert line.endswith("Do it.")


def test_names_that_only_a_newer_cdcbus_knows_are_told_as_such(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_of_changes("7", {"a": "1", "b": "2", "c": "3"}, {"a": "1"}, "x:4", "Do it.")
    [line] = caplog.messages
    assert line.startswith("task 7 goes on from x:4, up to which a newer cdcbus ran it")
    assert "goes by b; c: this one does not know that" in line
    assert changed({"b": "2"}, {"a": "1"}) == []


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (
            {
                "source": SourceConfig((("b", 1),), "v"),
                "rows_per_record": 2,
                "heartbeat": HeartbeatConfig(TableId("s", "h")),
                "ddl": DdlConfig(definitions=True),
            },
            [],
        ),
        (
            {
                "tables": FilterConfig(regexes=(r"s\..*",)),
                "publish": replace(PUBLISH, partition_keys={"S.T": ("a",)}),
            },
            ["consumer.source.filter", "loader.source.partitionKey"],
        ),
        (
            {"ddl": DdlConfig(truncates=False)},
            ["loader.source.truncate, consumer.skippedOperations"],
        ),
        ({"skips_statements": True}, ["consumer.onStatement"]),
        (
            {"elsewhere": Elsewhere(server_ids=frozenset({7}))},
            ["consumer.source.excludeServerIds"],
        ),
        (
            {"elsewhere": Elsewhere(gtid_sources=frozenset({"0-7"}))},
            ["consumer.source.excludeGtidSources"],
        ),
        ({"elsewhere": Elsewhere(marks=frozenset({"b"}))}, ["consumer.source.excludeMarks"]),
    ],
)
def test_a_fetch_task_notes_what_decides_which_rows_go_where(
    fields: dict[str, Any], names: list[str]
) -> None:
    assert changed(FETCH.row_rules, replace(FETCH, **fields).row_rules) == names


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ({}, {"merge": False, "weights": {"A": 1}}, []),
        ({}, {"time_zone": "Asia/Shanghai"}, [RECORD_ZONE]),
        ({"time_zone": "+08:00"}, {"time_zone": "GMT+8"}, []),
        ({"time_zone": "+08:00"}, {}, [RECORD_ZONE]),
        ({"converter": "auto"}, {"converter": "auto", "time_zone": "+1"}, [RECORD_ZONE]),
        # The zone of `op_ts`, which is no cell.
        ({"converter": "oggJson"}, {"converter": "oggJson", "time_zone": "+08:00"}, []),
        ({}, {"target_zone": "+08:00"}, ["loader.source.timeZone"]),
        ({}, {"target_zone": "UTC"}, []),
    ],
)
def test_a_consumer_task_notes_the_zones_that_change_cells(
    before: dict[str, Any], now: dict[str, Any], names: list[str]
) -> None:
    assert changed(replace(LOAD, **before).row_rules, replace(LOAD, **now).row_rules) == names


def test_a_fetch_task_notes_the_cluster_that_rows_go_to() -> None:
    assert changed(FETCH.rules_at("a"), FETCH.rules_at("b")) == ["loader.source.servers"]
    assert changed(FETCH.rules_at("a"), FETCH.rules_at("a")) == []
    # Of an earlier version.
    assert changed(FETCH.row_rules, FETCH.rules_at("b")) == []


def test_notes_of_an_earlier_version_tell_of_no_change(caplog: pytest.LogCaptureFixture) -> None:
    fetch = replace(
        FETCH,
        ddl=DdlConfig(truncates=False),
        skips_statements=True,
        elsewhere=Elsewhere(frozenset({7}), frozenset({"0-7"}), frozenset({"b"})),
    )
    load = replace(LOAD, time_zone="+08:00", target_zone="+08:00")
    warn_of_changes("7", FETCH_NOTED, fetch.row_rules, "x:4", "Do it.")
    warn_of_changes("7", LOAD_NOTED, load.row_rules, "x:4", "Do it.")
    assert not caplog.messages
    assert FETCH_NOTED.items() <= FETCH.row_rules.items()
    assert LOAD_NOTED.items() <= LOAD.row_rules.items()
