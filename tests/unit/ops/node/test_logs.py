"""The files of tasks' logs: who may read them, and how they are rotated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcbus.ops.node import task_process
from cdcbus.ops.node.task_process import RotatedLog


@pytest.fixture(autouse=True)
def _mask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


def test_a_log_is_for_its_owner_and_group_also_after_it_was_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_process, "LOG_BYTES", 10)
    with RotatedLog(tmp_path / "shop.log") as log:
        for line in (b"first line\n", b"second line\n", b"third line\n"):
            log.write(line)
    assert modes(tmp_path) == {"shop.log": 0o640, "shop.log.1": 0o640, "shop.log.2": 0o640}
    assert (tmp_path / "shop.log").read_bytes() == b"third line\n"
    assert (tmp_path / "shop.log.2").read_bytes() == b"first line\n"


def test_a_log_of_an_earlier_version_is_closed_to_others_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "shop.log").write_bytes(b"before\n")
    with RotatedLog(tmp_path / "shop.log") as log:
        log.write(b"now\n")
    assert modes(tmp_path) == {"shop.log": 0o640}
    assert (tmp_path / "shop.log").read_bytes() == b"before\nnow\n"
