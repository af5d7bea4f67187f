"""The limits beyond which something is an alarm: from the settings for all tasks, and from a task's
text for the task itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cdcbus.ops.alarms.channels import Receiver
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.bus import ALARM_LIMIT_KEYS
from cdcbus.tasks.config.keys.schedule import Schedule
from cdcbus.tasks.config.keys.task import KEYS
from cdcbus.tasks.config.keys.types import Window
from cdcbus.tasks.config.placeholders import interpolate
from cdcbus.tasks.zookeeper.task_configs import Dist

SCHEDULE: Final = "verify.schedule"


@dataclass(frozen=True, slots=True)
class Limits:
    """A limit below 1 is off. `lag_records`: a lag that lasts `lag_records_hold_seconds`.
    `hold_seconds`: how long other conditions must last, and how long they must be absent for their
    alarm to be over. `repeat_seconds`: between two notices of the same alarm. `recoveries`: how
    often an hour a stuck task is restarted. `windows`: when notices are sent, in minutes of the day
    by this machine's clock; none: always. `receivers`: the people of the task. `is_verified`:
    whether the task is verified by schedule, so that differences are alarms; `schedule`: when, None
    where that cannot be read."""

    lag_records: int = 10_000
    lag_records_hold_seconds: int = 60
    lag_seconds: int = 300
    stuck_seconds: int = 300
    heartbeat_seconds: int = 300
    idle_seconds: int = 3600
    idle_repeat_seconds: int = 3600
    retention_percent: int = 50
    hold_seconds: int = 60
    repeat_seconds: int = 1800
    recoveries: int = 0
    windows: tuple[Window, ...] = ()
    receivers: tuple[Receiver, ...] = ()
    is_verified: bool = False
    schedule: Schedule | None = None

    def is_in_window(self, now: float) -> bool:
        """Whether notices are sent at this time."""
        if not self.windows:
            return True
        local = time.localtime(now)
        minute = local.tm_hour * 60 + local.tm_min
        for begin, end in self.windows:
            if begin < end and begin <= minute < end:
                return True
            # A window that ends before it begins spans midnight.
            if begin >= end and (minute >= begin or minute < end):
                return True
        return False


def _own(name: str, fields: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    """The value that a task's text, or an object in it, has for a key, else the key's default; None
    where there is neither."""
    key = KEYS[name]
    # The fields of `consumer`, an object in the text, lack its name.
    written = fields.get(name.removeprefix("consumer."))
    text = str(written)
    if written in (None, ""):
        text = key.default
    if not text:
        return None
    try:
        return key.value_type.read(interpolate(text, environ))
    except ValueError as error:
        raise ConfigError(
            f"{name}: wrong value; expected {key.value_type.expected}; example: "
            f"{name}={key.value_type.example}"
        ) from error


def limits_of(dist: Dist, settings: Mapping[str, Any], environ: Mapping[str, str]) -> Limits:
    """The limits of a task. `settings`: the typed values of all `alarm.*`; the task's own win.
    Raises ConfigError for a value that cannot be used."""
    consumer = dist.get("consumer")
    if not isinstance(consumer, dict):
        consumer = {}
    alarm = dict(settings)
    for key in ALARM_LIMIT_KEYS:
        value = _own(key.name, dist, environ)
        if value is not None:
            alarm[key.name] = value
    check_seconds = _own("positionCheckInterval", dist, environ)
    lag_records = _own("alarmPositionCount", dist, environ)
    if check_seconds < 1:
        lag_records = 0  # porter's way to turn it off
    idle_repeat_seconds = _own("consumer.emptyFetchNoticeSpan", consumer, environ)
    if idle_repeat_seconds < 1:
        # Else there would be a notice at each look, every few seconds.
        idle_repeat_seconds = alarm["alarm.intervalTime"]
    return Limits(
        lag_records=lag_records,
        lag_records_hold_seconds=check_seconds,
        lag_seconds=alarm["alarm.lagSeconds"],
        stuck_seconds=alarm["alarm.stuckSeconds"],
        heartbeat_seconds=alarm["alarm.heartbeatSeconds"],
        idle_seconds=_own("consumer.emptyFetchThreshold", consumer, environ),
        idle_repeat_seconds=idle_repeat_seconds,
        retention_percent=alarm["alarm.retentionPercent"],
        hold_seconds=alarm["alarm.holdSeconds"],
        repeat_seconds=alarm["alarm.intervalTime"],
        recoveries=alarm["alarm.recoveries"],
        windows=alarm["alarm.windows"] or (),
        receivers=_receivers(dist.get("receiver"), environ),
        is_verified=bool(dist.get(SCHEDULE)),
        schedule=_schedule(dist, environ),
    )


def _schedule(dist: Dist, environ: Mapping[str, str]) -> Schedule | None:
    try:
        found: Schedule | None = _own(SCHEDULE, dist, environ)
    # The node that cannot read it stores that as a failed verify: no reason to watch nothing else.
    except ConfigError:
        return None
    return found


def _receivers(value: Any, environ: Mapping[str, str]) -> tuple[Receiver, ...]:
    """The people of a task, without empty entries."""

    def part(person: Mapping[str, Any], field: str) -> str:
        try:
            return interpolate(str(person.get(field) or ""), environ).strip()
        except ValueError as error:
            raise ConfigError(f"receiver[i].{field}: {error}") from error

    if not isinstance(value, list):
        return ()
    receivers = []
    for person in value:
        if not isinstance(person, dict):
            continue
        receiver = Receiver(part(person, "realName"), part(person, "email"), part(person, "phone"))
        if receiver != Receiver():
            receivers.append(receiver)
    return tuple(receivers)
