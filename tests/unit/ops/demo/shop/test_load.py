"""The pace of the demo's changes, and the command lines that it prints."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cdcbus.ops.demo.shop.load import Paced
from cdcbus.ops.demo.words import command, shown
from cdcbus.plugins.errors import CdcError


def test_steps_follow_each_other_until_it_is_stopped() -> None:
    steps, third = [0], threading.Event()

    def step() -> None:
        steps[0] += 1
        if steps[0] == 3:
            third.set()

    paced = Paced(step, 0.001)
    paced.start()
    assert third.wait(10)
    paced.stop()
    count = steps[0]
    paced.stop()
    assert steps[0] == count
    paced.check()


def test_a_step_that_fails_is_told_and_ends_the_steps() -> None:
    failed = threading.Event()

    def step() -> None:
        failed.set()
        raise ValueError("table is full")

    paced = Paced(step, 0.001)
    paced.start()
    assert failed.wait(10)
    paced.stop()
    with pytest.raises(CdcError, match="the source refuses a change of the demo: table is full"):
        paced.check()


def test_what_never_began_can_be_stopped() -> None:
    paced = Paced(lambda: None, 1)
    paced.stop()
    paced.check()


def test_a_command_names_the_home_only_where_it_has_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CDCBUS_STACK_HOME", str(tmp_path))
    assert command("stack", "up", home=tmp_path).endswith("cdcbus stack up")
    other = command("stack", "sql", home=Path("/other"), rest=("source", "SELECT 1"))
    assert other.endswith("cdcbus stack sql --home /other source 'SELECT 1'")


def test_a_path_below_the_users_home_is_shown_with_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert shown(Path("/home/someone/a/b")) == "~/a/b"
    assert shown(Path("/home/somebody/a")) == "/home/somebody/a"
