import logging
from collections.abc import Iterator
from threading import Event

import pytest

from cdcbus.plugins.errors import BusUnavailable, ConfigError, PositionLost
from cdcbus.tasks.preflight.result import (
    UNREACHED,
    CheckResult,
    Outcome,
    error,
    failure,
    has_failed,
    ok,
    overheard,
    probe,
    warning,
)


def test_what_was_seen_before_an_error_is_kept() -> None:
    def look() -> Iterator[CheckResult]:
        yield ok("a", "there")
        raise PositionLost("gone")

    first, second = probe("b", look)
    assert first == ok("a", "there")
    assert (second.outcome, second.subject, second.found) == (Outcome.ERROR, "b", "gone")
    assert second.remedy.startswith("Choose a position")


def test_the_text_of_a_foreign_error_is_not_shown() -> None:
    def look() -> list[CheckResult]:
        raise ValueError("secret")

    (seen,) = probe("a", look)
    assert seen.found == "cannot be checked: unexpected ValueError"


def test_a_probe_that_hangs_is_an_error_and_lets_the_others_go_on() -> None:
    never = Event()

    def look() -> Iterator[CheckResult]:
        yield ok("a", "there")
        never.wait(30)

    began = probe("a", look, seconds=0.05)
    assert began == [ok("a", "there"), error("a", "no answer within 0.05 s", UNREACHED)]
    never.set()


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (BusUnavailable("x"), UNREACHED),
        # As of no Java: it need not be about a task file.
        (ConfigError("x"), "Correct what the sentence names."),
        (PositionLost("x"), "Choose"),
    ],
)
def test_an_error_that_a_running_task_would_wait_out_is_to_be_looked_into(
    cause: Exception, remedy: str
) -> None:
    assert failure("a", cause).remedy.startswith(remedy)


def test_only_errors_are_failures() -> None:
    assert not has_failed([ok("a", "x"), warning("a", "x", "y")])
    assert has_failed([ok("a", "x"), error("a", "x", "y")])


def test_a_server_cannot_steer_the_terminal() -> None:
    assert ok("a\x1b[2J", "b\n").subject == "a\\x1b[2J"


def test_warnings_are_overheard_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("cdcbus.test.overheard")
    with overheard(logger.name) as heard:
        logger.warning("reset to %d", 3)
        logger.debug("no")
    assert heard == ["reset to 3"]
    assert caplog.records == []
    logger.warning("again")
    assert [record.message for record in caplog.records] == ["again"]
