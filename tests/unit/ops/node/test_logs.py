"""The files of tasks' logs: who may read them, and how they are rotated."""

from __future__ import annotations

import os
import resource
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


def test_a_disk_that_is_full_where_a_log_is_rotated_ends_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of a file's size refuses lines as a full disk does."""
    monkeypatch.setattr(task_process, "LOG_BYTES", 130)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RotatedLog(tmp_path / "shop.log") as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            for _ in range(4):
                log.write(b"x" * 59 + b"\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        log.write(b"there is room again\n")
    assert (tmp_path / "shop.log").read_bytes().endswith(b"there is room again\n")
