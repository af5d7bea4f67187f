"""What commands say of a target's offsets, of answers that are given to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, OffsetTable
from cdcbus.plugins.errors import TargetUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition
from cdcbus.tasks.control import target_offsets as asked
from cdcbus.tasks.control.target_offsets import target_offsets
from cdcbus.tasks.preflight.result import CheckResult, error, ok

TASK = LoadTask("7", TopicConfig("k:9092", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget(""))
ONE, TWO = TopicPartition("shop", 0), TopicPartition("shop", 1)
APPLIED = OffsetTable(True, None, [AppliedOffset(*ONE, 7, 0)])


def answer(monkeypatch: pytest.MonkeyPatch, results: list[CheckResult], table: OffsetTable) -> None:
    monkeypatch.setattr(asked, "check_target", lambda *_: (results, table))


def test_each_partition_is_told_apart_and_one_that_the_target_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(monkeypatch, [ok("target", "user u can log in")], APPLIED)
    found = target_offsets(TASK)
    assert found.says(ONE) == "the target is at offset 7"
    assert found.beside(TWO) == "; the target has no offset of it"


def test_a_target_that_is_away_is_unknown_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise TargetUnavailable("the target is away")

    monkeypatch.setattr(asked, "check_target", away)
    found = target_offsets(TASK)
    assert found.unknown == "the target's offsets are unknown: the target is away"
    assert found.beside(ONE) == ""


def test_a_target_is_not_asked_without_the_secrets_of_its_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asked, "check_target", lambda _: pytest.fail("the target was asked"))
    found = target_offsets(TASK, "variable 'X' is not set")
    assert found.unknown == "the target's offsets are unknown: variable 'X' is not set"
    assert not found.offsets


def test_a_check_that_failed_says_why_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = error("target", "user u may not log in", "Correct the password.")
    answer(monkeypatch, [ok("x", "y"), failed], APPLIED)
    found = target_offsets(TASK)
    assert (found.unknown, dict(found.offsets)) == (
        "the target's offsets are unknown: user u may not log in",
        {},
    )


def test_a_target_without_a_table_of_offsets_has_none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, [], OffsetTable(False, True))
    assert "it keeps no offsets, or none yet" in target_offsets(TASK).unknown


def test_a_target_that_is_kafka_is_asked_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "check_forward", lambda *_: ([], APPLIED))
    task = replace(TASK, target=PublishConfig("k:9092", "copy", "canalRow"))
    assert target_offsets(task).offsets == {ONE: 7}
