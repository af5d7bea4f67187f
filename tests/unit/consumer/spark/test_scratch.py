"""Spark's temporary files on a disk that is full, or becomes full."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from cdcbus.consumer.spark import scratch
from cdcbus.consumer.spark.kafka_stream import fresh_checkpoint
from cdcbus.consumer.spark.scratch import scratch_folder
from cdcbus.plugins.errors import SparkUnavailable
from cdcbus.plugins.positions import TopicPartition

OFFSETS = {TopicPartition("orders", 0): 5}


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_checkpoint_is_for_one_query(tmp_path: Path) -> None:
    with fresh_checkpoint(tmp_path, OFFSETS) as folder:
        assert (folder / "sources/0/0").read_bytes() == b'\0v1\n{"orders":{"0":5}}'
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("place", "call"), [(os, "mkdir"), (Path, "write_bytes")])
def test_a_checkpoint_without_room_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object, call: str
) -> None:
    monkeypatch.setattr(place, call, full)
    with (
        pytest.raises(SparkUnavailable, match=f"in {tmp_path}: No space left on device; make room"),
        fresh_checkpoint(tmp_path, OFFSETS),
    ):
        pass
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_an_application_without_room_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(SparkUnavailable, match=f"in {tmp_path}: No space"), scratch_folder():
        pass
    # As where no folder had room when the first one was looked for.
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", full)
    with pytest.raises(SparkUnavailable, match="in any folder: No space"), scratch_folder():
        pass


@pytest.mark.parametrize("is_alive", [False, True])
def test_a_folder_is_in_use_while_it_is_locked_whatever_its_process_id_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_alive: bool
) -> None:
    """Containers have process ids of their own, and the same ones again and again."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_is_alive", lambda _: is_alive)
    with scratch_folder() as used:
        killed = tmp_path / f"{scratch._SCRATCH}7-killed"
        killed.mkdir()
        with scratch_folder() as other:
            assert set(tmp_path.iterdir()) == {used, other}
        # systemd-tmpfiles skips what is locked.
        descriptor = os.open(used, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(descriptor)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_alive", [False, True])
def test_without_locks_the_process_id_says_whether_a_folder_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_alive: bool
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", no_locks)
    monkeypatch.setattr(scratch, "_is_alive", lambda _: is_alive)
    folder = tmp_path / f"{scratch._SCRATCH}7-x"
    folder.mkdir()
    with scratch_folder() as used:
        assert set(tmp_path.iterdir()) == ({used, folder} if is_alive else {used})


def test_a_folder_that_another_process_removes_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make, made = scratch.new_folder, list[Path]()
    held: list[int] = []

    def raced(parent: Path, prefix: str = "") -> Path:
        folder = make(parent, prefix)
        made.append(folder)
        if len(made) == 1:
            held.append(scratch._locked(folder))
        elif len(made) == 2:
            folder.rmdir()
        return folder

    monkeypatch.setattr(scratch, "new_folder", raced)
    with scratch_folder() as used:
        assert (used, used.exists(), len(made)) == (made[2], True, 3)
    os.close(held[0])
    assert list(tmp_path.iterdir()) == []


def test_a_leftover_stays_locked_until_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"{scratch._SCRATCH}7-x"
    folder.mkdir()
    removed: list[Path] = []

    def remove(path: Path, *, ignore_errors: bool) -> None:
        assert ignore_errors
        if path == folder:
            with pytest.raises(BlockingIOError):
                scratch._locked(path)
            removed.append(path)
        path.rmdir()

    monkeypatch.setattr(shutil, "rmtree", remove)
    with scratch_folder():
        pass
    assert removed == [folder]
