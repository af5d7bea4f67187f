"""By which task files and at which targets a direct load is continued."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, ZeroDate
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.cells.expression import read_expression
from cdcbus.plugins.transform.cells.mask import read_mask
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.direct.given import check_progress, given, has_loaded, refusal
from cdcbus.tasks.snapshots.direct import DirectLoad

RULE = MapperRule(
    schema=("shop", "store"),
    columns={"no": "number"},
    ignored=frozenset(("a", "b", "c")),
    computed={"shard": read_expression("{@table} {A:upper}")},
    masks={"pan": read_mask("hash:salt")},
)
TARGET = JdbcTarget("jdbc:postgresql://a/shop")
LOAD = LoadTask(
    "7",
    TopicConfig("k:9092", ("shop",)),
    "canalRow",
    "JdbcBatch",
    TARGET,
    includes=frozenset(("SHOP.A", "SHOP.B", "SHOP.C")),
    rules=(RULE,),
)
OFFSETS = {TopicPartition("shop", 0): 7, TopicPartition("shop", 1): 0}
FOUND = DirectLoad(OFFSETS, given=given(LOAD))
APPLIED = [AppliedOffset(*partition, offset, 1) for partition, offset in OFFSETS.items()]


def changed(**fields: Any) -> LoadTask:
    return replace(LOAD, **fields)


@pytest.mark.parametrize(
    "load",
    [
        LOAD,
        # The same target by another address, and what says nothing about rows.
        changed(target=JdbcTarget("jdbc:postgresql://b/shop", "u"), weights={"A": 1}, merge=False),
    ],
)
@pytest.mark.parametrize("applied", [APPLIED, None])
def test_a_load_goes_on_by_the_same_rules_at_the_same_target(
    load: LoadTask, applied: list[AppliedOffset] | None
) -> None:
    assert refusal(load, FOUND, applied) == ""


@pytest.mark.parametrize(
    ("load", "named"),
    [
        (changed(rules=()), "mapper[i]"),
        (changed(rules=(replace(RULE, masks={"pan": read_mask("hash:other")}),)), "mapper[i]"),
        (changed(rules=(replace(RULE, columns={"no": "id"}),)), "mapper[i]"),
        (changed(includes=LOAD.includes | {"SHOP.D"}), "consumer.includes"),
        (changed(exclude_patterns=("x",), regexes=("y",)), "consumer.source.filter; consumer.ex"),
        (changed(source=TopicConfig("k:9092", ("shop", "more"))), "consumer.source.topics"),
        (changed(processor="rules:change"), "consumer.eventProcessor.className"),
        (changed(target_zone="+08:00"), "loader.source.timeZone"),
        (changed(target=replace(TARGET, zero_date=ZeroDate.NULL)), "loader.zeroDate"),
    ],
)
def test_a_load_does_not_go_on_by_other_rules_which_are_named(load: LoadTask, named: str) -> None:
    assert f"begun with another value of {named}" in refusal(load, FOUND, APPLIED)


def test_a_load_that_an_earlier_version_began_goes_on() -> None:
    assert refusal(changed(rules=()), DirectLoad(OFFSETS), APPLIED) == ""


def test_a_load_that_a_newer_version_began_goes_on_with_that_one() -> None:
    newer = replace(FOUND, given={**FOUND.given, "consumer.sample": "1"})
    assert "a newer cdcbus, which also goes by consumer.sample: this" in refusal(LOAD, newer, None)


def test_a_load_does_not_go_on_without_the_progress_of_all_its_tables() -> None:
    known = [TableId("shop", "a"), TableId("shop", "b")]
    check_progress(LOAD, replace(FOUND, tables=2), known)
    # Begun by an earlier version.
    check_progress(LOAD, FOUND, known)
    for left in (known[:1], []):
        with pytest.raises(ConfigError, match=r"begun with 2 tables, and .* again with --anew"):
            check_progress(LOAD, replace(FOUND, tables=2), left)


@pytest.mark.parametrize("applied", [[], APPLIED[:1], [replace(APPLIED[0], next_offset=8)]])
def test_a_load_does_not_go_on_at_a_target_that_lacks_its_offsets(
    applied: list[AppliedOffset],
) -> None:
    assert "the target of task 7 is another one" in refusal(LOAD, FOUND, applied)


def test_what_was_given_is_the_same_in_each_process() -> None:
    """Sets of texts have another order there."""
    code = "from tests.unit.tasks.direct.test_given import FOUND; print(dict(FOUND.given))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(given(LOAD)), done.stderr


@pytest.mark.parametrize(
    ("progress", "is_there"),
    [
        (TableProgress(TableState.RUNNING, until=("9",)), False),
        (TableProgress(TableState.RUNNING, chunks=1, after=("2",)), True),
        (TableProgress(TableState.DONE), True),
    ],
)
def test_a_load_has_loaded_something_once_a_table_has_a_chunk(
    progress: TableProgress, is_there: bool
) -> None:
    assert has_loaded([TableProgress(), progress]) is is_there
