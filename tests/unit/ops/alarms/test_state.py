"""Alarms over time: raised once, told of again after the interval, over once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.ops.alarms.rules import Condition
from cdcbus.ops.alarms.state import Alarm, Kind, Notice, step

HOLD, REPEAT, CLEAR = 30.0, 600.0, 60.0
RULES = ("lag-records", "idle")
BEGIN = 1_000_000.0


def condition(rule: str) -> Condition:
    return Condition(rule, f"{rule} is wrong", HOLD, REPEAT)


def course(looks: list[tuple[float, frozenset[str], bool]]) -> list[Notice]:
    """All notices of looks: seconds since the one before, what is wrong, whether it is quiet."""
    alarms: dict[str, Alarm] = {}
    now, told = BEGIN, list[Notice]()
    for seconds, wrong, is_quiet in looks:
        now += seconds
        alarms, notices = step(
            alarms, [condition(rule) for rule in RULES if rule in wrong], now, CLEAR, is_quiet
        )
        told += notices
    return told


LAG, NOTHING = frozenset({"lag-records"}), frozenset[str]()


def kinds(*looks: tuple[float, frozenset[str]]) -> list[tuple[Kind, float]]:
    return [
        (notice.kind, notice.at - BEGIN)
        for notice in course([(seconds, wrong, False) for seconds, wrong in looks])
    ]


def test_an_alarm_is_raised_after_it_has_lasted_told_again_after_the_interval_and_over_when_it_stays_away() -> (
    None
):
    assert kinds(
        (0, LAG),
        (20, LAG),
        (20, LAG),
        (300, LAG),
        (310, LAG),
        (10, NOTHING),
        (50, NOTHING),
        (20, NOTHING),
        (99, NOTHING),
    ) == [
        (Kind.RAISED, 40),
        (Kind.REPEATED, 650),
        (Kind.CLEARED, 730),
    ]


def test_a_clock_that_is_put_back_delays_no_notice_by_more_than_its_time() -> None:
    back = -36_000
    assert kinds((0, LAG), (back, LAG), (HOLD, LAG)) == [(Kind.RAISED, back + HOLD)]
    assert kinds((0, LAG), (HOLD, LAG), (back, LAG), (REPEAT, LAG))[1:] == [
        (Kind.REPEATED, back + HOLD + REPEAT)
    ]
    assert kinds((0, LAG), (HOLD, LAG), (1, NOTHING), (back, NOTHING), (CLEAR, NOTHING))[1:] == [
        (Kind.CLEARED, back + HOLD + 1 + CLEAR)
    ]


def test_what_goes_away_and_comes_back_at_once_is_the_same_alarm() -> None:
    assert kinds((0, LAG), (40, LAG), (10, NOTHING), (10, LAG), (10, NOTHING), (10, LAG)) == [
        (Kind.RAISED, 40)
    ]


def test_what_does_not_last_is_not_told() -> None:
    assert kinds((0, LAG), (20, NOTHING), (20, LAG), (20, NOTHING)) == []


def test_what_begins_or_ends_in_a_silence_is_told_after_it() -> None:
    told = course(
        [
            (0, LAG, True),
            (500, LAG, True),
            (10, LAG, False),
            (10, NOTHING, True),
            (100, NOTHING, True),
            (10, NOTHING, False),
        ]
    )
    assert [(notice.kind, notice.at - notice.since) for notice in told] == [
        (Kind.RAISED, 510),
        (Kind.CLEARED, 630),
    ]


def test_what_begins_and_ends_in_a_silence_is_not_told() -> None:
    assert (
        course(
            [
                (0, LAG, True),
                (500, LAG, True),
                (10, NOTHING, True),
                (99, NOTHING, False),
                (99, NOTHING, False),
            ]
        )
        == []
    )


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1.0, 10.0, 35.0, 65.0, 601.0]),
            st.frozensets(st.sampled_from(RULES)),
            st.sampled_from([False, False, True]),
        ),
        max_size=40,
    )
)
def test_no_alarm_is_raised_twice_without_an_end_or_the_interval_between_and_none_ends_twice(
    looks: list[tuple[float, frozenset[str], bool]],
) -> None:
    told = course(looks)
    for rule in RULES:
        is_raised, last = False, 0.0
        for notice in (notice for notice in told if notice.rule == rule):
            if notice.kind is Kind.RAISED:
                assert not is_raised
                assert notice.at - notice.since >= HOLD
                is_raised, last = True, notice.at
            elif notice.kind is Kind.REPEATED:
                assert is_raised
                assert notice.at - last >= REPEAT
                last = notice.at
            else:
                assert is_raised
                is_raised = False


@given(
    st.lists(
        st.tuples(st.sampled_from([1.0, 35.0, 601.0]), st.frozensets(st.sampled_from(RULES))),
        max_size=20,
    )
)
@settings(max_examples=30)
def test_what_stays_away_is_over_in_the_end(looks: list[tuple[float, frozenset[str]]]) -> None:
    told = course(
        [
            *((seconds, wrong, False) for seconds, wrong in looks),
            (1, NOTHING, False),
            (CLEAR, NOTHING, False),
        ]
    )
    for rule in RULES:
        of_rule = [notice.kind for notice in told if notice.rule == rule]
        assert of_rule.count(Kind.RAISED) == of_rule.count(Kind.CLEARED)
        assert of_rule[-1:] in ([], [Kind.CLEARED])


def test_what_may_only_follow_from_a_server_that_is_away_is_not_told_until_it_is_back() -> None:
    away, alarms, told = [condition("retrying")], dict[str, Alarm](), list[Notice]()
    lag = [condition("lag-records"), condition("idle")]
    looks = [
        (1_000.0, away),
        (1_030.0, away),
        (1_040.0, [*away, *lag]),
        (3_000.0, [*away, *lag]),
        (3_010.0, lag),
        (3_030.0, lag),
        (3_070.0, lag),
    ]
    for now, found in looks:
        alarms, notices = step(alarms, found, now, CLEAR, is_quiet=False)
        told += notices
    assert [(each.rule, each.kind, each.at) for each in told] == [
        ("retrying", Kind.RAISED, 1_030.0),
        ("retrying", Kind.REPEATED, 3_000.0),
        ("lag-records", Kind.RAISED, 3_030.0),
        ("idle", Kind.RAISED, 3_030.0),
        ("retrying", Kind.CLEARED, 3_070.0),
    ]


def test_a_second_loss_is_told_while_the_first_is_still_raised() -> None:
    """Also one with the same words; not the first one's end after an hour, which shortens them."""

    def told(*looks: tuple[str, float, bool]) -> list[tuple[Kind, str]]:
        alarms: dict[str, Alarm] = {}
        found: list[tuple[Kind, str]] = []
        for number, (sentence, event_at, is_quiet) in enumerate(looks):
            wrong = [Condition("target-behind", sentence, 0, REPEAT, event_at)]
            alarms, notices = step(alarms, wrong, BEGIN + number, CLEAR, is_quiet)
            found += [(notice.kind, notice.sentence) for notice in notices]
        return found

    assert told(
        ("t was emptied", 1.5, False),
        ("t was emptied", 1.5, False),
        ("t was emptied; t was emptied", 2.5, False),
        ("t was emptied", 2.5, False),
    ) == [(Kind.RAISED, "t was emptied"), (Kind.REPEATED, "t was emptied; t was emptied")]
    # One within a silence is told after it.
    assert told(("up to 7", 1.5, False), ("up to 9", 2.5, True), ("up to 9", 2.5, False)) == [
        (Kind.RAISED, "up to 7"),
        (Kind.REPEATED, "up to 9"),
    ]
