import pickle
from collections.abc import Callable
from threading import Event, Thread

import pytest

from cdcbus.plugins import errors
from cdcbus.plugins.error_policy import (
    POLICIES,
    UNKNOWN,
    Action,
    keep_trying,
    needs_person,
    policy_of,
    with_command,
)
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.task_status import TaskStatus
from tests.support.processes.no_threads import without_threads


def tree(root: type[CdcError] = CdcError) -> set[type[CdcError]]:
    return {root}.union(
        *(tree(child) for child in root.__subclasses__() if child.__module__ == errors.__name__)
    )


def test_each_class_of_the_tree_has_its_own_entry() -> None:
    assert set(POLICIES) == tree()


ERRORS: list[type[CdcError]] = sorted(tree(), key=lambda error: error.__name__)


@pytest.mark.parametrize("error", ERRORS)
def test_what_is_unavailable_or_may_be_added_is_tried_again_and_all_else_stops(
    error: type[CdcError],
) -> None:
    retried = error.__name__.endswith("Unavailable") or error in (
        errors.PositionConflict,
        errors.QuotaUsedUp,
        errors.OffsetConflict,
        errors.UnmappedColumn,
        errors.TargetTableUnfit,
    )
    assert policy_of(error("x")).action is (Action.RETRY if retried else Action.STOP)


def test_a_class_that_others_add_goes_by_its_nearest_ancestor() -> None:
    class LockedOut(errors.TargetUnavailable):
        pass

    assert policy_of(LockedOut()) is POLICIES[errors.TargetUnavailable]


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), MemoryError()])
def test_the_unknown_stops(error: BaseException) -> None:
    assert policy_of(error) is UNKNOWN
    assert UNKNOWN.action is Action.STOP


@pytest.mark.parametrize("policy", [*POLICIES.values(), UNKNOWN])
def test_advice_is_a_sentence_and_survives_pickling(policy: object) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy
    advice = getattr(policy, "advice")  # noqa: B009
    assert advice[0].isupper() and advice.endswith(".")


def test_the_advice_on_an_event_that_cannot_be_read_leaves_its_sentence_the_first_word() -> None:
    """A damaged one has a remedy of its own, which is neither to report nor to exclude it."""
    advice = POLICIES[errors.UnreadableEvent].advice
    assert advice.index("do what the sentence above says") < advice.index("report the event")


def raising(*raised: BaseException) -> Callable[[], None]:
    """Raises these in turn, then returns."""
    left = list(raised)

    def attempt() -> None:
        if left:
            raise left.pop(0)

    return attempt


def test_trying_goes_on_after_what_may_pass_and_ends_when_an_attempt_returns() -> None:
    attempt = raising(
        errors.PositionConflict("edited"),
        errors.BusUnavailable("away"),
        errors.PositionConflict("edited"),
    )
    keep_trying(TaskStatus("1"), attempt, lambda: 0, Event())
    attempt()  # all three have been raised


def test_a_process_that_may_have_no_more_threads_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = []

    def attempt() -> None:
        tries.append(1)
        Thread(target=list, name="one-more").start()

    def pause_seconds(_: int) -> float:
        monkeypatch.undo()
        return 0

    without_threads(monkeypatch, "one-more")
    keep_trying(TaskStatus("1"), attempt, lambda: 0, Event(), pause_seconds)
    assert len(tries) == 2


@pytest.mark.parametrize(
    "error", [errors.ConversionError("bad"), errors.PositionLost("gone"), RuntimeError("a fault")]
)
def test_trying_ends_with_what_will_not_pass(error: BaseException) -> None:
    with pytest.raises(type(error), match=str(error)):
        keep_trying(
            TaskStatus("1"), raising(errors.PositionConflict("edited"), error), lambda: 0, Event()
        )


def test_a_stop_ends_trying_and_its_pause() -> None:
    stop = Event()

    def attempt() -> None:
        stop.set()
        raise errors.SourceUnavailable("away")

    keep_trying(TaskStatus("1"), attempt, lambda: 0, stop)


MAY_PASS = {
    *(CdcError, errors.SourceError, errors.BusError, errors.TargetError, errors.DataError),
    errors.SourceBehind,  # until it has caught up
    errors.SparkEnded,  # a new process has another JVM
    errors.RowConflict,  # until another task has brought the rows that these are for
}


@pytest.mark.parametrize("error", ERRORS)
def test_what_stays_as_it_is_names_its_command_and_what_is_not_known_may_pass(
    error: type[CdcError],
) -> None:
    is_lasting = policy_of(error("x")).action is Action.STOP and error not in MAY_PASS
    assert needs_person(error("x")) is is_lasting
    assert ("cdcbus " in with_command(error("x"), "1084")) is is_lasting
    assert "{" not in with_command(error("x"), "1084")
    assert not needs_person(ValueError("x"))


def test_a_command_that_the_sentence_names_is_not_named_again() -> None:
    lost = errors.NoPosition("it is gone; set one by cdcbus offset reset 7 --to PLACE")
    assert with_command(lost, "7") == str(lost)
    assert with_command(errors.NoPosition("it is gone"), "7") == (
        "it is gone; set a position, and it starts automatically: cdcbus offset reset 7 --to PLACE"
    )
    assert with_command(errors.BusUnavailable("away"), "7") == "away"
