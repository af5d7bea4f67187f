"""The one table of what a task does on each error, and what the operator reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from threading import Event
from typing import Final

from cdcbus.plugins.errors import (
    BusError,
    BusRejected,
    BusUnavailable,
    CdcError,
    ConfigError,
    ConversionError,
    DataError,
    LogRefilled,
    NoPosition,
    OffsetConflict,
    PositionConflict,
    PositionError,
    PositionLost,
    PositionUnavailable,
    PositionUnusable,
    QuotaUsedUp,
    RecordsLost,
    RowConflict,
    SourceBehind,
    SourceError,
    SourceMisconfigured,
    SourceRefused,
    SourceUnavailable,
    SparkEnded,
    SparkUnavailable,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetReplaced,
    TargetTableUnfit,
    TargetUnavailable,
    TopicRemade,
    UnmappedColumn,
    UnreadableEvent,
    UnsafeOffsetTable,
    UnusableHistory,
)
from cdcbus.plugins.task_status import TaskStatus

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 20.0


class Action(StrEnum):
    """RETRY: start again from the stored position, indefinitely, with growing pauses. STOP: wait
    for a person."""

    RETRY = "retry"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens next, and a sentence that says what the operator has to do. `command`: for an
    error that lasts until a person acts, the command for that, of a task `{id}`; empty: the error
    may pass on its own, as far as known."""

    action: Action
    advice: str
    command: str = ""


_STARTED = "once that is done: cdcbus task start {id}"
_IMPORTED = "correct its text, and it starts automatically: cdcbus task import FILE --force"
_RESET = "set a position, and it starts automatically: cdcbus offset reset {id} --to PLACE"
_LOST = _RESET + "; then read the missing rows again: cdcbus snapshot start {id}"

NO_THREAD: Final = "can't start new thread"
"""The text of the RuntimeError that Python raises in a process that may have no more threads."""

NO_THREADS = Policy(
    Action.RETRY,
    "Nothing to do unless it lasts: then raise the limit of threads of the process or its "
    "container (ulimit -u, pids), or run fewer tasks there.",
)
UNKNOWN = Policy(
    Action.STOP,
    "This is a fault of cdcbus itself: report it with the log; the stored position has not moved "
    "past it.",
)

POLICIES: Mapping[type[CdcError], Policy] = {
    CdcError: Policy(Action.STOP, "Remove the cause named above, then start the task again."),
    ConfigError: Policy(
        Action.STOP,
        "Correct the task file; `cdcbus task check FILE` lists everything that is wrong with it.",
        _IMPORTED,
    ),
    PositionError: Policy(
        Action.STOP,
        "Look at the stored position with `cdcbus offset show ID` and set it to a form named "
        "above.",
        _STARTED,
    ),
    PositionUnusable: Policy(Action.STOP, "Set the position with the command named above.", _RESET),
    NoPosition: Policy(
        Action.STOP,
        "Give the task a start: `consumer.offset` in its file, or a position set in ZooKeeper.",
        _RESET,
    ),
    TargetReplaced: Policy(
        Action.STOP,
        "Load the target from scratch or restore it, then set the position with the command named "
        "above.",
        _RESET,
    ),
    TopicRemade: Policy(
        Action.STOP,
        "Decide from where to read the new topic, and set the position with the command named "
        "above.",
        _RESET,
    ),
    LogRefilled: Policy(
        Action.STOP,
        "Look at the records that the log holds now, and set the position before the first new one "
        "with the command above.",
        _RESET,
    ),
    PositionUnavailable: Policy(
        Action.RETRY,
        "Nothing to do unless it lasts: then check that ZooKeeper runs and its address is right, "
        "or that there is room for the file of positions.",
    ),
    QuotaUsedUp: Policy(
        Action.RETRY,
        "Raise the quota of the znode named above with zkCli (setquota), or delete what is not "
        "needed below it.",
    ),
    PositionConflict: Policy(
        Action.RETRY,
        "Nothing to do after a manual edit; else look for a second process that runs the same "
        "task.",
    ),
    SourceError: Policy(
        Action.STOP, "Remove the cause at the source database, then start the task again."
    ),
    SourceUnavailable: Policy(
        Action.RETRY,
        "Nothing to do unless it lasts: then check that the source runs and can be reached from "
        "here.",
    ),
    SourceMisconfigured: Policy(
        Action.STOP,
        "Change the server setting or grant named above, then start the task again.",
        _STARTED,
    ),
    SourceRefused: Policy(
        Action.STOP,
        "Correct user, password, TLS, the server setting or grant named above, then start the "
        "task again.",
        _STARTED,
    ),
    SourceBehind: Policy(
        Action.STOP,
        "Wait until the server has caught up; where it has lost these transactions, set a "
        "position.",
    ),
    PositionLost: Policy(
        Action.STOP,
        "Choose a position that the source still holds, reload the missing rows, and increase "
        "binlog retention.",
        _LOST,
    ),
    UnusableHistory: Policy(
        Action.STOP,
        "Delete the znode named above, then start the task again.",
        _STARTED,
    ),
    UnreadableEvent: Policy(
        Action.STOP,
        "Nothing was skipped: do what the sentence above says; where it says nothing, report the "
        "event, or exclude its table with `consumer.excludes`.",
        _STARTED,
    ),
    BusError: Policy(Action.STOP, "Remove the cause at Kafka, then start the task again."),
    BusUnavailable: Policy(
        Action.RETRY,
        "Nothing to do unless it lasts: then check that the brokers run and can be reached from "
        "here.",
    ),
    BusRejected: Policy(
        Action.STOP,
        "Create the topic, grant the right or raise the limit named above, then start the task "
        "again.",
        _STARTED,
    ),
    RecordsLost: Policy(
        Action.STOP,
        "Decide from where to send records again, and set the position with the command named "
        "above.",
        _RESET,
    ),
    SparkUnavailable: Policy(
        Action.RETRY,
        "Nothing to do unless it lasts: then see whether the cluster can be reached and has room, "
        "and in the executors' logs what ends them; too little memory: docs/loading.md.",
    ),
    SparkEnded: Policy(
        Action.STOP,
        "Start the task again, as a node does within seconds; where it ends again, look for what "
        "kills the JVM: too little memory: docs/loading.md.",
    ),
    DataError: Policy(
        Action.STOP,
        "Look at the record named above with kafka-console-consumer; nothing was skipped.",
    ),
    ConversionError: Policy(
        Action.STOP,
        "Check that `consumer.converter` names the format of this topic; nothing was skipped.",
        _STARTED,
    ),
    UnmappedColumn: Policy(
        Action.RETRY,
        "Add the table or column at the target, and the task continues automatically; or correct "
        "the mapper and start it again.",
    ),
    TargetError: Policy(
        Action.STOP, "Remove the cause at the target database, then start the task again."
    ),
    TargetUnavailable: Policy(
        Action.RETRY,
        "Nothing to do unless it lasts: then check the target and what holds locks there.",
    ),
    OffsetConflict: Policy(
        Action.RETRY,
        "Nothing to do unless it lasts: then look for a second process that runs the same task.",
    ),
    TargetMisconfigured: Policy(
        Action.STOP,
        "Correct user, password or rights at the target, then start the task again.",
        _STARTED,
    ),
    UnsafeOffsetTable: Policy(
        Action.STOP,
        "Run the statement named above at the target, then start the task again.",
        _STARTED,
    ),
    TargetTableUnfit: Policy(
        Action.RETRY,
        "Alter the table named above at the target, and the task continues automatically; or "
        "correct the mapper and start it again.",
    ),
    TargetRejected: Policy(
        Action.STOP,
        "Compare the table named above at source and target; nothing was skipped.",
        _STARTED,
    ),
    # Without a command, as rows that another task brings may end it.
    RowConflict: Policy(
        Action.STOP,
        "Compare the unique and foreign keys of the table at source and target; nothing was "
        "skipped.",
    ),
}


def policy_of(error: BaseException) -> Policy:
    """The entry of the error's class, else of its nearest ancestor; anything that is not a CdcError
    stops the task, except for a thread that cannot be started."""
    if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
        return NO_THREADS
    for ancestor in type(error).__mro__:
        if ancestor in POLICIES:
            return POLICIES[ancestor]
    return UNKNOWN


def needs_person(error: BaseException) -> bool:
    """Whether an error lasts until a person acts; an unknown error may pass."""
    return bool(policy_of(error).command)


def with_command(error: BaseException, task_id: str) -> str:
    """The error's sentence, with the policy's command where the sentence does not name it."""
    sentence = str(error)
    command = policy_of(error).command.format(id=task_id)
    words = command.partition("cdcbus ")[2].split()[:2]
    if not command or " ".join(("cdcbus", *words)) in sentence:
        return sentence
    return f"{sentence}; {command}"


def growing_pause(failures: int) -> float:
    """The pause in seconds, from half a second to twenty, by the number of consecutive failures
    before this one."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 9))


def keep_trying(
    status: TaskStatus,
    attempt: Callable[[], None],
    done: Callable[[], int],
    stop: Event,
    pause_seconds: Callable[[int], float] = growing_pause,
) -> None:
    """Calls `attempt` until it returns or `stop` is set; retries on errors whose policy is RETRY,
    and raises the others.

    Pauses grow with the number of failures, which is reset to zero once `done()`, a count of work,
    has grown. An operator's edit needs no pause. Each failure is reported to `status`.
    """
    failures = 0
    while not stop.is_set():
        before = done()
        try:
            attempt()
            return
        except PositionConflict as error:
            status.retrying(str(error))
        except Exception as error:
            if policy_of(error).action is Action.STOP:
                raise
            failures = 0 if done() > before else failures + 1
            pause = pause_seconds(failures)
            status.retrying(f"{error}; trying again in {pause:g} s")
            stop.wait(pause)
