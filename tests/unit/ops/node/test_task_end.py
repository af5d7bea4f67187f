"""What a task's end tells its node."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from cdcbus.ops.node.task_end import CRASHED, FAILED, NEEDS_PERSON, end_of, reported_to_node
from cdcbus.plugins.errors import BusError, BusRejected, CdcError, SparkEnded, TargetMisconfigured
from cdcbus.plugins.files.taken_texts import begin_task
from cdcbus.tasks.config.placeholders import interpolate
from cdcbus.tasks.process_identity import NODE_VARIABLE


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    """Other tests of this process have read files, and written them since."""
    begin_task()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BusError("topic t: unknown"), FAILED),
        (BusRejected("topic t: no right"), NEEDS_PERSON),
        (SparkEnded("the JVM of Spark has ended"), CRASHED),
    ],
)
def test_its_code_says_whether_a_start_may_help_and_how_soon(error: CdcError, code: int) -> None:
    assert end_of(error, "7")[0] == code


def test_another_start_takes_the_password_that_was_written_meanwhile(tmp_path: Path) -> None:
    error = TargetMisconfigured("postgresql://db: the login is refused")
    password = tmp_path / "password"
    password.write_text("former")
    assert interpolate(f"${{file:{password}}}", {}) == "former"
    assert end_of(error, "7")[0] == NEEDS_PERSON
    password.write_text("present")
    code, sentence = end_of(error, "7")
    assert code == CRASHED
    assert sentence.endswith(f"as {password} was written since this one read it")
    # The next start of it, in the process that tasks share.
    begin_task()
    interpolate(f"${{file:{password}}}", {})
    assert end_of(error, "7")[0] == NEEDS_PERSON
    # As while it is written: it is started again, but not at once for ever.
    password.write_text("")
    code, sentence = end_of(error, "7")
    assert code == FAILED
    assert sentence.endswith(f"{password} is empty, as while it is being written")
    # One that stays empty is no passing state.
    os.utime(password, (1, 1))
    assert end_of(error, "7")[0] == NEEDS_PERSON
    # Another start would say only that it is missing.
    password.unlink()
    assert end_of(error, "7")[0] == NEEDS_PERSON


def test_a_start_by_hand_is_told_of_files_that_were_written_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NODE_VARIABLE, raising=False)
    password = tmp_path / "password"
    password.write_text("former")
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(TargetMisconfigured),
        reported_to_node("7"),
    ):
        interpolate(f"${{file:{password}}}", {})
        password.write_text("present")
        raise TargetMisconfigured("postgresql://db: the login is refused")
    assert f"task 7: another start may help, as {password} was written" in caplog.text
