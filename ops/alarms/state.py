"""From conditions to notices: an alarm is raised once, repeated after a while, and cleared once.
Pure; `store` keeps alarms in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cdcbus.ops.alarms.rules import Condition

AWAY = "retrying"
FOLLOWING = frozenset(("lag-records", "lag-seconds", "position", "batch", "idle", "heartbeat"))
"""Conditions that an unreachable server can cause as well."""


class Kind(StrEnum):
    RAISED = "raised"
    REPEATED = "repeated"
    CLEARED = "cleared"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Alarm:
    """A condition over time, in epoch seconds. `since`: first observed; `raised_at`: became an
    alarm, 0: not yet; `told_at`: the last notice; `gone_at`: no longer observed since then, 0:
    still observed. `times`: how many notices were made. `event_at`: of the condition, as last
    told. ZooKeeper holds these names."""

    sentence: str
    since: float
    raised_at: float = 0.0
    told_at: float = 0.0
    gone_at: float = 0.0
    times: int = 0
    event_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Notice:
    """A message about an alarm. `at` and `since`: epoch seconds. `times`: how many there were, this
    one included. `told`: the channels that have accepted it, of several.
    ZooKeeper holds these names, too."""

    kind: Kind
    rule: str
    sentence: str
    since: float
    at: float
    times: int = 1
    told: tuple[str, ...] = ()


def step(
    alarms: Mapping[str, Alarm],
    found: Iterable[Condition],
    now: float,
    clear_seconds: float,
    is_quiet: bool,
) -> tuple[dict[str, Alarm], list[Notice]]:
    """The alarms after another observation, by rule, and the notices that are due. There are none
    while it `is_quiet`: conditions that last are raised afterwards. A raised alarm `retrying` holds
    back those that may only follow from it, until it is over."""
    after: dict[str, Alarm] = {}
    notices: list[Notice] = []
    found = list(found)
    alarms = {rule: _not_ahead(alarm, now) for rule, alarm in alarms.items()}
    # Only once `retrying` was raised: until then nobody knows why others would be held back.
    is_away = any(condition.rule == AWAY for condition in found) and _is_raised(alarms, AWAY)
    for condition in found:
        known = alarms.get(condition.rule) or Alarm("", now)
        # It is observed again: its end must last from the beginning.
        alarm = replace(known, sentence=condition.sentence, gone_at=0.0)
        # The rule of a heartbeat also names its source.
        is_held = is_away and condition.rule.partition(" ")[0] in FOLLOWING
        if is_held and not alarm.raised_at:
            alarm = replace(alarm, since=now)  # it has time to catch up
        kind = None
        if not is_quiet and not is_held:
            kind = _due(alarm, condition, now)
        if kind is not None:
            raised_at = alarm.raised_at or now
            alarm = replace(
                alarm,
                raised_at=raised_at,
                told_at=now,
                times=alarm.times + 1,
                event_at=condition.event_at,
            )
            notices.append(_notice(kind, condition.rule, alarm, now))
        after[condition.rule] = alarm
    for rule, alarm in alarms.items():
        # A condition that ends before it became an alarm is forgotten.
        if rule in after or not alarm.raised_at:
            continue
        ended = replace(alarm, gone_at=alarm.gone_at or now)
        # An end is told neither while notices are not sent, nor before it has lasted.
        if is_quiet or now - ended.gone_at < clear_seconds:
            after[rule] = ended
        else:
            notices.append(_notice(Kind.CLEARED, rule, alarm, now))
    return after, notices


def _not_ahead(alarm: Alarm, now: float) -> Alarm:
    """The alarm without times in the future, of a clock that was put back since or of another
    node's: it would wait until they have come."""
    return replace(
        alarm,
        since=min(alarm.since, now),
        raised_at=min(alarm.raised_at, now),
        told_at=min(alarm.told_at, now),
        gone_at=min(alarm.gone_at, now),
    )


def _is_raised(alarms: Mapping[str, Alarm], rule: str) -> bool:
    return rule in alarms and alarms[rule].raised_at > 0


def _notice(kind: Kind, rule: str, alarm: Alarm, now: float) -> Notice:
    return Notice(kind, rule, alarm.sentence, alarm.since, now, alarm.times)


def _due(alarm: Alarm, condition: Condition, now: float) -> Kind | None:
    if alarm.raised_at:
        is_another = condition.event_at != alarm.event_at
        if is_another or now - alarm.told_at >= condition.repeat_seconds:
            return Kind.REPEATED
    elif now - alarm.since >= condition.hold_seconds:
        return Kind.RAISED
    return None
