"""Spark's temporary files on a disk that is full, or becomes full."""

from __future__ import annotations

import errno
import fcntl
import os
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


def test_a_folder_in_use_is_locked_and_left_alone_whatever_its_process_id_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a container that shares the folder, and has process ids of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_is_alive", lambda _: False)
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
