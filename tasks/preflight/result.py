"""The results of checks, and probes that run checks so that one failure does not hide others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import Thread

from cdcbus.plugins.error_policy import Action, policy_of
from cdcbus.plugins.errors import CHECK_BROKERS, CHECK_SERVER, CdcError, ConfigError
from cdcbus.tasks.config.diagnostics import printable

PROBE_SECONDS = 10.0
# Below PROBE_SECONDS, so that a server's own error comes before the probe's timeout.
CONNECT_SECONDS, ANSWER_SECONDS = 5, 8
UNREACHED = "Check that it runs, that its address is right, and that it can be reached from here."

# For a column that a rule withholds, and that no table has.
IDLE_REMEDY = (
    "Correct the column's name in the task file: under its right name it is sent as it is. Keep "
    "the line only for a column that is still to be added."
)


class Outcome(StrEnum):
    """ERROR: a start would fail, or the task would stop. WARNING: the task runs, but an operator
    should look at this first."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. `remedy`: what to do; empty if nothing is wrong."""

    outcome: Outcome
    subject: str
    found: str
    remedy: str = ""


def ok(subject: str, found: str) -> CheckResult:
    return _result(Outcome.OK, subject, found)


def warning(subject: str, found: str, remedy: str) -> CheckResult:
    return _result(Outcome.WARNING, subject, found, remedy)


def error(subject: str, found: str, remedy: str) -> CheckResult:
    return _result(Outcome.ERROR, subject, found, remedy)


def failure(subject: str, cause: BaseException, outcome: Outcome = Outcome.ERROR) -> CheckResult:
    """An error as a result: its sentence, and the policy's advice."""
    # A foreign error's text may hold anything, even cell values, so only its class is shown.
    found = f"cannot be checked: unexpected {type(cause).__name__}"
    if isinstance(cause, CdcError):
        # What the remedy says as well.
        found = str(cause).removesuffix(CHECK_SERVER).removesuffix(CHECK_BROKERS)
    return _result(outcome, subject, found, _remedy(cause))


def _remedy(cause: BaseException) -> str:
    """What to do about an error. The policy's advice is for a running task, which waits where the
    policy is RETRY; before a start, a person should look."""
    if isinstance(cause, ConfigError):
        return "Correct what the sentence names."
    policy = policy_of(cause)
    if policy.action is Action.RETRY:
        return UNREACHED
    return policy.advice


def probe(
    subject: str, look: Callable[[], Iterable[CheckResult]], seconds: float = PROBE_SECONDS
) -> list[CheckResult]:
    """The results of `look`. Never raises: an error, or a timeout after `seconds`, becomes a result
    about `subject`."""
    seen: list[CheckResult] = []
    # The error that ended the check, if any.
    ended: list[CheckResult] = []

    def run() -> None:
        try:
            for result in look():
                seen.append(result)
        except Exception as cause:
            ended.append(failure(subject, cause))

    # A daemon: a check that hangs must not keep the process from ending.
    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        # A copy, as the thread may still add results.
        return [*seen, error(subject, f"no answer within {seconds:g} s", UNREACHED)]
    return seen + ended


def has_failed(results: Iterable[CheckResult]) -> bool:
    return any(result.outcome is Outcome.ERROR for result in results)


@contextmanager
def overheard(name: str) -> Iterator[list[str]]:
    """Collects the warnings of the logger `name` inside the block instead of logging them."""
    heard: list[str] = []
    logger = logging.getLogger(name)
    before = logger.propagate

    class Capture(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    capture = Capture(logging.WARNING)
    logger.addHandler(capture)
    logger.propagate = False
    try:
        yield heard
    finally:
        logger.removeHandler(capture)
        logger.propagate = before


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 partition`, `2 partitions`."""
    if number == 1:
        return f"{number} {noun}"
    return f"{number} {noun}s"


def _result(outcome: Outcome, subject: str, found: str, remedy: str = "") -> CheckResult:
    return CheckResult(outcome, printable(subject), printable(found), printable(remedy))
