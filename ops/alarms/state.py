"""From conditions to notices: an alarm is raised once, told of again after a while, and over
once. Pure; kept in ZooKeeper by `store`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cdcbus.ops.alarms.rules import Condition


class Kind(StrEnum):
    RAISED = "raised"
    REPEATED = "repeated"
    CLEARED = "cleared"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Alarm:
    """A condition that was seen, at times in epoch seconds. `since`: seen first; `raised_at`:
    became an alarm, 0: not yet; `told_at`: last told of; `gone_at`: since when it has not been
    seen, 0: it is there. `times`: how often it was told of."""

    sentence: str
    since: float
    raised_at: float = 0.0
    told_at: float = 0.0
    gone_at: float = 0.0
    times: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """What people are told. `at` and `since`: epoch seconds. `times`: how often, with this one."""

    kind: Kind
    rule: str
    sentence: str
    since: float
    at: float
    times: int = 1


def step(
    alarms: Mapping[str, Alarm],
    found: Iterable[Condition],
    now: float,
    clear_seconds: float,
    is_quiet: bool,
) -> tuple[dict[str, Alarm], list[Notice]]:
    """The alarms after another look, by rule, and what is to be told now. While it `is_quiet`
    nothing is: what is still so afterwards is told then."""
    after: dict[str, Alarm] = {}
    notices: list[Notice] = []
    for condition in found:
        alarm = replace(
            alarms.get(condition.rule) or Alarm("", now), sentence=condition.sentence, gone_at=0.0
        )
        kind = None if is_quiet else _due(alarm, condition, now)
        if kind is not None:
            alarm = replace(
                alarm, raised_at=alarm.raised_at or now, told_at=now, times=alarm.times + 1
            )
            notices.append(
                Notice(kind, condition.rule, alarm.sentence, alarm.since, now, alarm.times)
            )
        after[condition.rule] = alarm
    for rule, alarm in alarms.items():
        if rule in after or not alarm.raised_at:
            continue
        gone = replace(alarm, gone_at=alarm.gone_at or now)
        if is_quiet or now - gone.gone_at < clear_seconds:
            after[rule] = gone
        else:
            notices.append(
                Notice(Kind.CLEARED, rule, alarm.sentence, alarm.since, now, alarm.times)
            )
    return after, notices


def _due(alarm: Alarm, condition: Condition, now: float) -> Kind | None:
    if not alarm.raised_at:
        return Kind.RAISED if now - alarm.since >= condition.hold_seconds else None
    return Kind.REPEATED if now - alarm.told_at >= condition.repeat_seconds else None
