"""What is wrong with a task, as conditions: from an observation of it and its limits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cdcbus.ops.alarms.limits import Limits
from cdcbus.plugins.task_status import State
from cdcbus.tasks.config.keys.schedule import Schedule
from cdcbus.tasks.verify.last import Begun, LastVerify, sentence_of_different, sentence_of_unproved
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.tasks import Run

# Tasks report every 5 s, and every 15 s while idle, so several reports were missed by then.
SILENT_SECONDS = 60.0
LONGEST_REASON = 1_000
# Alarms of a stuck task, which a restart can end.
RECOVERED_BY_RESTART = ("batch", "position", "silent")
# These repeat the reason of the task's state.
OF_STATE = ("error", "retrying", "starting")
# A start may take this many times as long as other conditions.
START_HOLDS = 3
# How long the alarm stays after the last late record.
LATE_SECONDS = 3600.0
# A verify of large tables takes hours, and waits for those of the node's other tasks.
OVERDUE_HOLD_SECONDS = 86_400.0
# This many restarts after failures within RESTARTS_SECONDS are an alarm, which stays for as long
# after the last of them.
RESTARTS = 3
RESTARTS_SECONDS = 3600.0
AT_REST = (State.NEW, State.STOPPED, State.DONE)


@dataclass(frozen=True, slots=True)
class Seen:
    """A task as observed at `now`, epoch seconds. `is_wanted`: operators want it to work.
    `stat`: as in `Status`. `silent_seconds`: since the last report of its process, as far as was
    seen. `verified`: the result of the last verify, None where the task is not verified by
    schedule; `begun`: when the schedule last began one, None before that. `run`: the task as its
    node last saw it, since its last start by an operator; `failure`: its last failure."""

    now: float
    state: State
    reason: str = ""
    is_wanted: bool = True
    stat: Stat | None = None
    silent_seconds: float = 0.0
    task_id: str = ""
    verified: LastVerify | None = None
    begun: Begun | None = None
    run: Run | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is wrong. It becomes an alarm once it has lasted `hold_seconds`; the alarm is
    sent again every `repeat_seconds`, and when it is of another event. `event_at`: when the last
    event was that it tells of, in epoch seconds, by any clock; 0: it is of none."""

    rule: str
    sentence: str
    hold_seconds: float
    repeat_seconds: float
    event_at: float = 0.0


def conditions(seen: Seen, limits: Limits) -> list[Condition]:
    """Everything that is wrong with a task; nothing for one that is meant to be stopped."""
    return list(_conditions(seen, limits))


def _conditions(seen: Seen, limits: Limits) -> Iterator[Condition]:
    def condition(
        rule: str,
        sentence: str,
        hold: float = limits.hold_seconds,
        repeat: float = limits.repeat_seconds,
    ) -> Condition:
        return Condition(rule, sentence, hold, repeat)

    reason = _shortened(seen.reason)
    if seen.state is State.ERROR:
        yield condition(
            "error",
            f"it stopped with an error and waits for a person: {reason or 'no reason is known'}",
            0,
        )
    elif seen.state is State.RETRYING:
        yield condition("retrying", f"it makes no progress and tries again: {reason}")
    elif seen.state is State.STARTING and seen.is_wanted:
        why = f": {reason}" if reason else ""
        hold_seconds = START_HOLDS * limits.hold_seconds
        yield condition("starting", f"it was started and is not at work yet{why}", hold_seconds)
    if seen.state not in AT_REST:
        # One in ERROR has that alarm, for the same failures.
        if seen.state is not State.ERROR:
            yield from _of_restarts(seen, condition)
        yield from _of_verify(seen, limits, condition)
    # Only a task at work has figures that are true now.
    if seen.state not in (State.WORKING, State.RETRYING):
        return
    # A task that is tried again has no process until its node starts it.
    if seen.stat is None and seen.state is State.RETRYING:
        return
    if seen.silent_seconds >= SILENT_SECONDS:
        sentence = f"its process has reported nothing for {seen.silent_seconds:.0f} s"
        yield condition("silent", sentence, 0)
        return  # the report is too old to say more
    if seen.stat is not None:
        yield from _of_work(seen, seen.stat, limits, condition)


def _of_restarts(seen: Seen, condition: Callable[..., Condition]) -> Iterator[Condition]:
    """Failures between which it works: each pause may be too short for the alarm `retrying`."""
    if seen.run is None or not _are_too_many(seen.run.restarted_at, seen.now):
        return
    sentence = (
        f"it fails again and again: {seen.run.all_restarts:,} restarts after failures since an "
        f"operator started it; its last failure: {seen.failure or 'no reason is known'}"
    )
    yield condition("restarts", _shortened(sentence), 0)


def _are_too_many(restarted_at: Sequence[int], now: float) -> bool:
    for first, last in zip(restarted_at, restarted_at[RESTARTS - 1 :], strict=False):
        # One in the future is of a clock that was ahead.
        if last - first <= RESTARTS_SECONDS and 0 <= now - last < RESTARTS_SECONDS:
            return True
    return False


def _of_verify(
    seen: Seen, limits: Limits, condition: Callable[..., Condition]
) -> Iterator[Condition]:
    unproved = ""
    if seen.verified is not None:
        # No hold: a verify compares rows for a while before it reports a difference.
        if sentence := sentence_of_different(seen.verified, seen.task_id):
            yield condition("unequal", _shortened(sentence), 0)
        unproved = sentence_of_unproved(seen.verified)
    if unproved:
        yield condition("unverified", _shortened(unproved), 0)
    elif sentence := _overdue(seen, limits.schedule):
        yield condition("unverified", sentence, OVERDUE_HOLD_SECONDS)


def _overdue(seen: Seen, schedule: Schedule | None) -> str:
    """A sentence about a schedule that is not followed; else empty. One that runs may last long."""
    if schedule is None or seen.begun is None or not seen.begun.is_over:
        return ""
    due = schedule.after(seen.begun.at)
    # A node runs one verify at a time: it is overdue once one more would have begun.
    later = None if due is None else schedule.after(due)
    if later is None or seen.now < later:
        return ""
    ended = ""
    if seen.verified is not None:
        ended = f"the last verify ended at {seen.verified.ended} UTC, and "
    return (
        f"{ended}verify.schedule has ordered more since, which were not begun: look at the log of "
        "the node that runs the task"
    )


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_REASON:
        return text
    return f"{text[: LONGEST_REASON - 1]}…"


def _of_work(
    seen: Seen, stat: Stat, limits: Limits, condition: Callable[..., Condition]
) -> Iterator[Condition]:
    yield from _of_losses(seen, stat, condition)
    yield from _of_lag(stat, limits, condition)
    yield from _of_quiet(seen, stat, limits, condition)
    yield from _of_retention(stat, limits, condition)


def _of_losses(seen: Seen, stat: Stat, condition: Callable[..., Condition]) -> Iterator[Condition]:
    """Rows that the target lacks."""
    if stat.target_lost:
        behind = condition("target-behind", stat.target_lost, 0)
        yield replace(behind, event_at=stat.target_lost_at)
    if stat.late_records and seen.now - stat.late_at < LATE_SECONDS:
        sentence = (
            f"{stat.late_records:,} records were left out: a process that had lost its "
            "fetch task's lock has sent them late"
        )
        yield condition("late-records", sentence, 0)
    if stat.skipped:
        yield condition("skipped", stat.skipped, 0)


def _of_lag(stat: Stat, limits: Limits, condition: Callable[..., Condition]) -> Iterator[Condition]:
    """More to read than there should be, or no progress in it."""
    if 0 < limits.lag_records <= (stat.lag_records or 0):
        sentence = f"{stat.lag_records:,} records behind, the limit is {limits.lag_records:,}"
        yield condition("lag-records", sentence, limits.lag_records_hold_seconds)
    if 0 < limits.lag_seconds <= (stat.lag_seconds or 0):
        yield condition(
            "lag-seconds", f"{stat.lag_seconds:,.0f} s behind, the limit is {limits.lag_seconds:,}"
        )
    # A long batch also keeps the position still; one alarm is enough.
    if 0 < limits.stuck_seconds <= stat.batch_seconds:
        yield condition(
            "batch",
            f"the batch in progress has taken {stat.batch_seconds:,.0f} s so far: look for locks "
            "at the target",
            0,
        )
    elif 0 < limits.stuck_seconds <= stat.still_seconds:
        yield condition(
            "position",
            f"its position has not moved for {stat.still_seconds:,.0f} s, though there is more to "
            "read",
            0,
        )


def _of_quiet(
    seen: Seen, stat: Stat, limits: Limits, condition: Callable[..., Condition]
) -> Iterator[Condition]:
    """Nothing new, neither rows nor heartbeats."""
    if 0 < limits.idle_seconds <= (stat.idle_seconds or 0):
        sentence = (
            f"no row has arrived for {stat.idle_seconds:,.0f} s, the limit is "
            f"{limits.idle_seconds:,}"
        )
        yield condition("idle", sentence, 0, limits.idle_repeat_seconds)
    for source, beat_seconds in stat.beats.items():
        # By Kafka's time of the record, as the source's clock can be wrong.
        silent = seen.now - beat_seconds
        if 0 < limits.heartbeat_seconds <= silent:
            sentence = (
                f"the last heartbeat of source {source or '?'} came into Kafka {silent:,.0f} s "
                "ago; others may still come"
            )
            yield condition(f"heartbeat {source}".strip(), sentence)


def _of_retention(
    stat: Stat, limits: Limits, condition: Callable[..., Condition]
) -> Iterator[Condition]:
    """What it has to read may be deleted before it comes to it."""
    if stat.retention_seconds:
        used_percent = 100 * (stat.lag_seconds or 0) / stat.retention_seconds
        if 0 < limits.retention_percent <= used_percent:
            hours = f"{stat.retention_seconds / 3600:,.1f} h"
            sentence = f"{stat.lag_seconds:,.0f} s behind, and its source keeps data for {hours}"
            yield condition("retention", f"{sentence}; keep it for longer, or rows are lost")
    if 0 < limits.retention_percent <= 100 * (stat.kept_unread or 0):
        yield condition("retention-bytes", f"{stat.kept_place}; keep more, or rows are lost")
