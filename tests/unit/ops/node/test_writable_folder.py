"""Where logs cannot be written, somebody is told."""

from pathlib import Path

from cdcbus.ops.doctor.machine import check_machine
from cdcbus.ops.node.writable_folder import nearest, why_unwritable
from cdcbus.tasks.preflight.result import Outcome


def test_a_folder_that_is_made_later_can_be_written_if_the_one_above_can(tmp_path: Path) -> None:
    assert nearest(tmp_path / "a/b") == tmp_path
    assert why_unwritable(tmp_path / "a/b") == ""


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert why_unwritable(tmp_path / "a/b") == f"{tmp_path / 'a'} is not a folder"


def test_the_doctor_sees_it(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (logs,) = (each for each in check_machine(tmp_path / "a/b") if each.subject == "log folder")
    assert (logs.outcome, logs.found) == (Outcome.WARNING, f"{tmp_path / 'a'} is not a folder")
    assert "the tasks of a node write their logs there" in logs.remedy
