"""Which conditions follow from what is seen of a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdcbus.ops.alarms.limits import Limits
from cdcbus.ops.alarms.rules import LONGEST_REASON, Seen, conditions
from cdcbus.plugins.task_status import State
from cdcbus.tasks.config.keys.schedule import Schedule
from cdcbus.tasks.verify.last import Begun, LastVerify, NotEqual
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.tasks import Run

LIMITS = Limits()
FINE = Stat(
    State.WORKING,
    lag_records=9_999,
    lag_seconds=299.0,
    idle_seconds=3599.0,
    still_seconds=299.0,
    batch_seconds=299.0,
)
WORKING = Seen(1_800_000_000.0, State.WORKING, stat=FINE, silent_seconds=5.0)


def rules(seen: Seen, limits: Limits = LIMITS) -> list[str]:
    return [condition.rule for condition in conditions(seen, limits)]


def working(limits: Limits = LIMITS, **fields: Any) -> list[str]:
    return rules(replace(WORKING, stat=replace(FINE, **fields)), limits)


def test_a_reason_that_is_cut_short_says_so() -> None:
    failed = replace(WORKING, state=State.ERROR, reason="x" * (LONGEST_REASON + 1))
    (condition,) = conditions(failed, LIMITS)
    assert condition.sentence.endswith("xxx…")
    whole = replace(failed, reason="x" * LONGEST_REASON)
    (condition,) = conditions(whole, LIMITS)
    assert condition.sentence.endswith("xxx")


def test_nothing_is_wrong_just_below_the_limits() -> None:
    assert rules(WORKING) == []


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"lag_records": 10_000}, "lag-records"),
        ({"lag_seconds": 300.0}, "lag-seconds"),
        ({"idle_seconds": 3600.0}, "idle"),
        ({"still_seconds": 300.0}, "position"),
        # which is why the position stands still
        ({"batch_seconds": 300.0, "still_seconds": 400.0}, "batch"),
        ({"beats": {"7": 1_800_000_000.0 - 300}}, "heartbeat 7"),
        ({"lag_seconds": 120.0, "retention_seconds": 240.0}, "retention"),
        ({"kept_unread": 0.5}, "retention-bytes"),
        ({"target_lost": "the target has lost commits"}, "target-behind"),
        ({"late_records": 3, "late_at": 1_800_000_000.0 - 3599}, "late-records"),
        ({"skipped": "a statement was skipped"}, "skipped"),
    ],
)
def test_each_limit_has_its_rule(fields: dict[str, Any], rule: str) -> None:
    assert working(**fields) == [rule]


@pytest.mark.parametrize(
    ("limits", "fields"),
    [
        (Limits(lag_records=0), {"lag_records": 10**9}),
        (Limits(lag_seconds=-1), {"lag_seconds": 1e9}),
        (Limits(idle_seconds=-1), {"idle_seconds": 1e9}),
        (Limits(stuck_seconds=0), {"still_seconds": 1e9, "batch_seconds": 1e9}),
        (Limits(heartbeat_seconds=0), {"beats": {"7": 0.0}}),
        (
            Limits(retention_percent=0),
            {"lag_seconds": 200.0, "retention_seconds": 1.0, "kept_unread": 1.0},
        ),
        (
            LIMITS,
            {
                "lag_records": None,
                "lag_seconds": None,
                "idle_seconds": None,
                "retention_seconds": None,
            },
        ),
        (LIMITS, {"beats": {"7": 1_800_000_000.0 - 299}}),
        # Kafka's times know nothing of the source's clock
        (LIMITS, {"beats": {"7": 1_800_000_000.0 - 290}, "skew_seconds": 18_000.0}),
        (LIMITS, {"late_records": 3, "late_at": 1_800_000_000.0 - 3600}),
    ],
)
def test_a_limit_below_one_is_none_and_what_is_not_known_is_not_wrong(
    limits: Limits, fields: dict[str, Any]
) -> None:
    assert working(limits, **fields) == []


def test_three_silent_sources_of_four_are_three_conditions() -> None:
    beats = {
        "1": 1_800_000_000.0 - 10,
        **{str(source): 1_800_000_000.0 - 1000 for source in (2, 3, 4)},
    }
    assert working(beats=beats) == ["heartbeat 2", "heartbeat 3", "heartbeat 4"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Seen(0, State.ERROR, "no topic"), ["error"]),
        (Seen(0, State.RETRYING, "Kafka is away"), ["retrying"]),
        (
            replace(WORKING, state=State.RETRYING, stat=replace(FINE, lag_records=10**6)),
            ["retrying", "lag-records"],
        ),
        (Seen(0, State.STARTING, "no node has taken it"), ["starting"]),
        (Seen(0, State.STARTING, is_wanted=False), []),
        # of which the rest is old
        (replace(WORKING, silent_seconds=60.0, stat=replace(FINE, lag_records=10**6)), ["silent"]),
        (Seen(0, State.STOPPED, stat=replace(FINE, lag_records=10**6), silent_seconds=1.0), []),
        (Seen(0, State.DONE), []),
        (Seen(0, State.NEW), []),
        (Seen(0, State.WORKING), []),
        # its process stands still, and so has lost its locks
        (Seen(0, State.WORKING, silent_seconds=60.0), ["silent"]),
        # it has no process until its next start
        (Seen(0, State.RETRYING, "Kafka is away", silent_seconds=600.0), ["retrying"]),
    ],
)
def test_the_state_of_a_task_is_looked_at(seen: Seen, expected: list[str]) -> None:
    assert rules(seen) == expected


HOUR = 3600


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        ((), []),
        ((10,), []),
        ((20, 10), []),
        ((HOUR, 20, 0), ["restarts"]),
        ((HOUR + 1, 20, 0), []),
        # It lasts for an hour after the last of three.
        ((HOUR + 300, HOUR + 150, HOUR - 1), ["restarts"]),
        ((HOUR + 300, HOUR + 150, HOUR), []),
        # Nor does a later one end it, or the end of two that are.
        ((5000, 4800, 3500, 100, 0), ["restarts"]),
        # of a clock that was ahead
        ((20, 10, -500), []),
    ],
)
def test_restarts_again_and_again_are_wrong_though_it_works_in_between(
    ago: tuple[int, ...], expected: list[str]
) -> None:
    times = tuple(int(WORKING.now) - each for each in ago)
    run = Run(State.WORKING, all_restarts=14, restarted_at=times)
    seen = replace(WORKING, run=run, failure="ended by signal 9 from outside")
    assert rules(seen) == expected
    assert rules(replace(seen, state=State.STOPPED)) == []
    assert rules(replace(seen, state=State.ERROR)) == ["error"]
    for each in conditions(seen, LIMITS):
        assert each.hold_seconds == 0
        assert each.sentence == (
            "it fails again and again: 14 restarts after failures since an operator started it; "
            "its last failure: ended by signal 9 from outside"
        )


def test_a_condition_says_numbers_and_how_long_it_must_last() -> None:
    (lag,) = conditions(
        replace(WORKING, stat=replace(FINE, lag_records=12_345)),
        Limits(lag_records_hold_seconds=7, repeat_seconds=99),
    )
    assert lag.sentence == "12,345 records behind, the limit is 10,000"
    assert (lag.hold_seconds, lag.repeat_seconds) == (7, 99)
    (error,) = conditions(Seen(0, State.ERROR, "no topic t"), LIMITS)
    assert (error.sentence, error.hold_seconds) == (
        "it stopped with an error and waits for a person: no topic t",
        0,
    )


DIFFERENT = NotEqual("shop.a", "different", 2, "2024-05-01 03:04:05")
AWAY = NotEqual("shop.b", "error", error="away")


@pytest.mark.parametrize(
    ("last", "wanted"),
    [
        (LastVerify("x"), []),
        (LastVerify("x", tables=(DIFFERENT,)), ["unequal"]),
        (LastVerify("x", tables=(AWAY,)), ["unverified"]),
        (LastVerify("x", tables=(DIFFERENT, AWAY)), ["unequal", "unverified"]),
        (LastVerify("x", error="away"), ["unverified"]),
        (LastVerify("x", tables=(NotEqual("shop.b", "behind"),)), ["unverified"]),
    ],
)
def test_what_a_verify_has_found_is_wrong_at_once_and_while_the_task_is_started(
    last: LastVerify, wanted: list[str]
) -> None:
    assert rules(replace(WORKING, verified=last)) == wanted
    found = conditions(replace(WORKING, verified=last), LIMITS)
    assert all(each.hold_seconds == 0 for each in found)
    starting = rules(replace(WORKING, state=State.STARTING, verified=last))
    assert [rule for rule in starting if rule != "starting"] == wanted
    assert rules(replace(WORKING, state=State.STOPPED, verified=last)) == []


@pytest.mark.parametrize(
    ("hours", "schedule", "is_over", "is_overdue"),
    [
        (47.9, Schedule(every=86_400.0), True, False),
        (48.1, Schedule(every=86_400.0), True, True),
        (48.1, Schedule(every=86_400.0), False, False),  # it runs
        (48.1, None, True, False),
    ],
)
@pytest.mark.parametrize("is_verified", [True, False])
def test_a_schedule_that_is_not_followed_is_wrong_after_a_day(
    hours: float, schedule: Schedule | None, is_over: bool, is_overdue: bool, is_verified: bool
) -> None:
    """Also an equal one: nobody knows whether that is still so."""
    begun = Begun(WORKING.now - hours * 3600, is_over=is_over)
    # One by hand is older than a new schedule.
    verified = LastVerify("x", "2001-01-01 00:00:00") if is_verified else None
    seen = replace(WORKING, verified=verified, begun=begun)
    found = conditions(seen, replace(LIMITS, schedule=schedule))
    assert [each.rule for each in found] == ["unverified"] * is_overdue
    assert all(each.hold_seconds == 86_400 for each in found)
