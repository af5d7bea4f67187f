"""When Kafka counts as silent, and what a task's status is told then."""

from __future__ import annotations

from cdcbus.plugins.kafka.acknowledgement_watch import AcknowledgementWatch
from cdcbus.plugins.task_status import State, TaskStatus


def test_a_long_pause_between_two_looks_is_not_taken_for_silence() -> None:
    watched = AcknowledgementWatch("k:1", None, 0.0)
    watched.taken = 1
    assert not watched.are_missing(1)
    # Nothing was waited for meanwhile, as while the source had no rows.
    watched._looked_at -= 3600
    watched._moved_at -= 3600
    assert not watched.are_missing(1)
    assert watched.are_missing(1)


def test_what_a_client_counts_besides_records_is_no_progress() -> None:
    watched = AcknowledgementWatch("k:1", None, 0.0)
    watched.taken = 1
    assert not watched.are_missing(1)
    # Something that it has to say came, and was taken.
    assert watched.are_missing(2)
    assert watched.are_missing(1)


def test_the_status_is_told_once_of_silence_and_once_of_its_end() -> None:
    status = TaskStatus("7")
    watched = AcknowledgementWatch("k:1", status, 0.0)
    watched.taken = 2
    states = []
    watched.came()
    states.append(status.now[0])
    watched.wait(2, "they are sent when it answers")
    states.append(status.now[0])
    status.ended(State.STOPPED)
    watched.wait(2, "they are sent when it answers")
    states.append(status.now[0])
    # One of the two is acknowledged.
    assert not watched.are_missing(1)
    states.append(status.now[0])
    assert states == [State.STARTING, State.RETRYING, State.STOPPED, State.WORKING]
