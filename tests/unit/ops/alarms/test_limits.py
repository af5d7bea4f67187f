"""The limits of a task: the settings of all, then its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cdcbus.ops.alarms.channels import Receiver
from cdcbus.ops.alarms.limits import Limits, limits_of
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.schedule import Schedule
from cdcbus.tasks.control.bus_settings import read_bus_settings


def limits(dist: dict[str, Any], tmp_path: Path, lines: str = "", **environ: str) -> Limits:
    file = tmp_path / "cdcbus.properties"
    file.write_text(lines)
    return limits_of(dist, read_bus_settings({}, file, environ).alarm, environ)


def test_the_defaults_watch_everything(tmp_path: Path) -> None:
    assert limits({}, tmp_path) == Limits()


def test_settings_are_for_all_and_a_task_has_its_own(tmp_path: Path) -> None:
    lines = "alarm.lagSeconds=60\nalarm.intervalTime=900\nalarm.windows=08:00-20:00\n"
    found = limits({"alarm.lagSeconds": 30, "alarm.recoveries": "2"}, tmp_path, lines)
    assert (found.lag_seconds, found.repeat_seconds, found.recoveries, found.windows) == (
        30,
        900,
        2,
        ((480, 1200),),
    )


def test_porters_keys_hold_and_its_check_can_be_switched_off(tmp_path: Path) -> None:
    consumer = {"emptyFetchThreshold": 10, "emptyFetchNoticeSpan": 20}
    receiver = [{"realName": "a", "email": "${env:WHO}@h"}, {"email": ""}, "junk", {"phone": 4711}]
    found = limits(
        {
            "positionCheckInterval": 5,
            "alarmPositionCount": 7,
            "consumer": consumer,
            "receiver": receiver,
        },
        tmp_path,
        WHO="somebody",
    )
    assert (
        found.lag_records,
        found.lag_records_hold_seconds,
        found.idle_seconds,
        found.idle_repeat_seconds,
    ) == (7, 5, 10, 20)
    assert found.receivers == (Receiver("a", "somebody@h", ""), Receiver("", "", "4711"))
    assert limits({"positionCheckInterval": -1}, tmp_path).lag_records == 0


@pytest.mark.parametrize("span", [0, -1])
def test_an_idle_task_is_not_told_of_at_each_look(span: int, tmp_path: Path) -> None:
    found = limits({"consumer": {"emptyFetchNoticeSpan": span}}, tmp_path)
    assert found.idle_repeat_seconds == found.repeat_seconds == 1800


@pytest.mark.parametrize(
    "dist",
    [
        {"alarm.windows": "8-20"},
        {"alarmPositionCount": "many"},
        {"receiver": [{"phone": "${env:NOBODY}"}]},
    ],
)
def test_what_cannot_be_used_is_named(dist: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=next(iter(dist))):
        limits(dist, tmp_path)


@pytest.mark.parametrize(
    ("windows", "hour", "expected"),
    [
        ((), 3, True),
        (((480, 1200),), 8, True),
        (((480, 1200),), 20, False),
        (((1320, 120),), 1, True),
        (((1320, 120),), 2, False),
    ],
)
def test_windows_are_by_this_machines_clock_and_may_pass_midnight(
    windows: tuple[tuple[int, int], ...], hour: int, expected: bool
) -> None:
    now = time.mktime((2026, 5, 4, hour, 0, 0, 0, 0, -1))
    assert Limits(windows=windows).is_in_window(now) is expected


def test_a_schedule_that_cannot_be_read_leaves_the_limits_as_they_are(tmp_path: Path) -> None:
    """The node that cannot read it stores a failed verify."""
    found = limits({"verify.schedule": "6h", "alarm.lagSeconds": 30}, tmp_path)
    assert (found.is_verified, found.schedule) == (True, Schedule(every=21_600.0))
    found = limits({"verify.schedule": "${env:WHEN}", "alarm.lagSeconds": 30}, tmp_path)
    assert (found.is_verified, found.schedule, found.lag_seconds) == (True, None, 30)
