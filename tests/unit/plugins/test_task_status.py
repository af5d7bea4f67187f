"""A task's state follows what its loops say of it, and a task that reads again is at work only
once it gets on."""

from __future__ import annotations

import logging

import pytest

from cdcbus.plugins.task_status import State, TaskStatus

REASON = "task 7: Kafka is away; trying again in 2 s"


def test_a_task_is_starting_until_it_reads() -> None:
    status = TaskStatus("7")
    assert status.now == (State.STARTING, "")
    status.reading("t[0]@5")
    assert status.now == (State.WORKING, "")


@pytest.mark.parametrize(
    ("position", "is_behind", "expected"),
    [(5, True, State.RETRYING), (6, True, State.WORKING), (5, False, State.WORKING)],
)
def test_a_task_that_reads_again_is_at_work_once_it_moves_or_has_nothing_left(
    position: int, is_behind: bool, expected: State
) -> None:
    now = [5]
    status = TaskStatus("7", lambda: now[0])
    status.reading("t[0]@5")
    status.retrying("Kafka is away; trying again in 2 s")
    status.observe(is_behind=False)  # it does not read yet
    assert status.now == (State.RETRYING, REASON)
    status.reading("t[0]@5")
    now[0] = position
    status.observe(is_behind=is_behind)
    assert status.now == (expected, REASON if expected is State.RETRYING else "")


def test_a_task_that_waits_says_for_what_and_another_failure_counts_from_its_own_position() -> None:
    now = [5]
    status = TaskStatus("7", lambda: now[0])
    status.waiting("for executors")
    assert status.now == (State.RETRYING, "task 7 waits for executors")
    now[0] = 6
    status.retrying("Kafka is away; trying again in 2 s")
    status.resumed("executors are available again")
    status.observe(is_behind=True)
    assert status.now == (State.RETRYING, REASON)


def test_states_do_not_depend_on_the_log_and_its_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "cdcbus")
    status = TaskStatus("7")
    status.reading("t[0]@5")
    assert (status.now, caplog.messages) == ((State.WORKING, ""), [])


def test_each_state_has_its_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cdcbus")
    status = TaskStatus("7")
    status.reading("the binlog from b.1:4")
    status.retrying("Kafka is away")
    status.waiting("for executors")
    status.resumed("executors are available again")
    status.ended(State.STOPPED)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "task 7 reads the binlog from b.1:4"),
        ("WARNING", "task 7: Kafka is away"),
        ("WARNING", "task 7 waits for executors"),
        ("INFO", "task 7: executors are available again"),
    ]
    assert status.now == (State.STOPPED, "")
