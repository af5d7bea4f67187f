"""Few messages for many tasks: what belongs together, and when it is told."""

import pytest

from cdcbus.ops.alarms.channels import Receiver
from cdcbus.ops.alarms.grouping import (
    Entry,
    Severity,
    cause_of,
    groups,
    is_due,
    message_of,
    severity_of,
    subject_of,
)
from cdcbus.ops.alarms.state import Kind, Notice
from cdcbus.plugins.task_status import State

AWAY = "it makes no progress and tries again: task {}: no Kafka broker answers at a:9092: timed out"


def entry(
    task_id: str,
    rule: str = "retrying",
    sentence: str = AWAY,
    kind: Kind = Kind.RAISED,
    at: int = 9,
) -> Entry:
    notice = Notice(kind, rule, sentence.format(task_id), 1.0, float(at))
    return Entry(task_id, notice, State.RETRYING)


@pytest.mark.parametrize(
    ("sentence", "cause"),
    [
        (AWAY, "Kafka a:9092"),
        (
            "tries again: Kafka at a:1092,b-1.x:1093 does not say what was committed",
            "Kafka a:1092,b-1.x:1093",
        ),
        (
            "tries again: source db.example:3306 cannot be reached: refused",
            "source db.example:3306",
        ),
        (
            "postgresql://10.0.0.1:5432/shop, connecting: the connection is lost",
            "target 10.0.0.1:5432",
        ),
        ("ZooKeeper does not answer for /datas/task/1/position/shop; check", "ZooKeeper"),
        ("it waits for XA transaction 7, prepared 70 s ago", "retrying"),
    ],
)
def test_what_is_away_is_the_cause(sentence: str, cause: str) -> None:
    assert cause_of(entry("1", sentence=sentence).notice) == cause


def test_any_other_alarm_is_its_own_cause() -> None:
    assert cause_of(entry("1", "lag-records", "9 behind at a:9092").notice) == "lag-records"
    assert cause_of(entry("1", "error", AWAY).notice) == "error"


def test_tasks_of_one_cause_are_told_of_together_the_first_first() -> None:
    lag = entry("4", "lag-records", "it is behind", at=3)
    found = groups([entry("1"), lag, entry("2"), entry("3", kind=Kind.CLEARED, at=10)])
    assert [[each.task_id for each in group] for group in found] == [["4"], ["1", "2"], ["3"]]


@pytest.mark.parametrize(
    ("kind", "rule", "count", "subject"),
    [
        (Kind.RAISED, "retrying", 2, "Kafka a:9092 is away: 2 tasks (1, 2)"),
        (Kind.REPEATED, "retrying", 2, "Kafka a:9092 is still away: 2 tasks (1, 2)"),
        (Kind.CLEARED, "retrying", 2, "Kafka a:9092 is back: 2 tasks (1, 2)"),
        (Kind.RAISED, "error", 2, "error: 2 tasks (1, 2)"),
        (Kind.CLEARED, "error", 2, "error is over: 2 tasks (1, 2)"),
        (Kind.RAISED, "error", 1, f"task 1: error: {AWAY.format('1')}"),
        (Kind.CLEARED, "error", 1, "task 1: error is over; the task is RETRYING"),
        (Kind.RAISED, "error", 12, "error: 12 tasks (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)"),
    ],
)
def test_the_subject_says_what_it_is_and_of_how_many(
    kind: Kind, rule: str, count: int, subject: str
) -> None:
    group = [entry(str(number + 1), rule, kind=kind) for number in range(count)]
    assert subject_of(group) == subject


def test_the_critical_is_told_at_once_and_all_else_with_what_joins_it() -> None:
    assert is_due([entry("1", "error")], 10.0, 30.0)
    assert not is_due([entry("1"), entry("2", at=12)], 20.0, 30.0)
    assert is_due([entry("1"), entry("2", at=12)], 39.0, 30.0)


def test_who_wants_to_hear_of_the_critical_only_hears_of_nothing_else() -> None:
    assert severity_of("error") is Severity.CRITICAL
    assert severity_of("retrying") is Severity.WARNING
    assert Severity.CRITICAL.is_for("critical") and Severity.CRITICAL.is_for("warning")
    assert Severity.WARNING.is_for("warning") and not Severity.WARNING.is_for("critical")


def test_a_message_names_each_task_and_all_their_people_once() -> None:
    ada, bob = Receiver("Ada", "ada@example.com"), Receiver("Bob", "bob@example.com")
    group = [
        Entry(str(number), entry(str(number)).notice, State.RETRYING, people)
        for number, people in enumerate(((ada,), (ada, bob)), 1)
    ]
    message = message_of(group, "n1")
    assert message.receivers == (ada, bob)
    assert [each["task"] for each in message.fields["tasks"]] == ["1", "2"]
    assert message.fields["task"] == "1"
    assert (message.fields["cause"], message.fields["severity"]) == ("Kafka a:9092", "warning")
