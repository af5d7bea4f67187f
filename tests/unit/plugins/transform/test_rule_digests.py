"""What a task notes of the rules by which it takes rows, and when it tells that they changed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import Op
from cdcbus.plugins.transform.rule_digests import changed, digests, warn_of_changes
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig


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


def test_a_fetch_task_notes_what_decides_which_rows_go_where() -> None:
    publish = PublishConfig("127.0.0.1:1", "t", "canalRow")
    task = FetchTask("7", "shop", SourceConfig((("a", 1),), "u"), FilterConfig(), publish)
    other = replace(task, source=SourceConfig((("b", 1),), "v"), rows_per_record=2)
    assert changed(task.row_rules, other.row_rules) == []
    other = replace(
        task,
        tables=FilterConfig(regexes=(r"s\..*",)),
        publish=replace(publish, partition_keys={"S.T": ("a",)}),
    )
    assert changed(task.row_rules, other.row_rules) == [
        "consumer.source.filter",
        "loader.source.partitionKey",
    ]
