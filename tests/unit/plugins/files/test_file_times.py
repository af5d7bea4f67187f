"""Which certificates have become unusable, and which always were."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

from cdcbus.plugins.files.file_times import (
    are_written_since,
    begin_task,
    newer_than_taken,
    note_read,
    note_taken,
    written_at,
)
from cdcbus.plugins.log_context import TASK_AT_WORK


def test_files_count_only_together(tmp_path: Path) -> None:
    """A certificate can be used with one key and not with another."""
    certificate, key = tmp_path / "a.crt", tmp_path / "a.key"
    for path in (certificate, key):
        path.write_text("as it was")
    alone, both = [str(certificate)], [str(certificate), str(key)]
    note_read(written_at(both))
    assert not are_written_since(written_at(both))
    key.unlink()
    assert are_written_since(written_at(both))
    assert not are_written_since(written_at(alone))


def test_every_thread_of_a_task_knows_what_the_task_has_taken_over(tmp_path: Path) -> None:
    """A Kafka client calls back on whichever thread asks it, and each has a context of its own."""
    password = tmp_path / "password"
    password.write_text("former")

    def take(task_id: str, *paths: Path) -> None:
        TASK_AT_WORK.set(task_id)
        begin_task()
        for path in paths:
            note_taken(str(path))

    copy_context().run(take, "file-times-1", password)
    copy_context().run(take, "file-times-2")
    os.utime(password, ns=(1, 1))
    found = {}
    for task_id in ("file-times-1", "file-times-2"):
        with ThreadPoolExecutor(1, "partition", TASK_AT_WORK.set, (task_id,)) as pool:
            found[task_id] = pool.submit(newer_than_taken).result()
    assert found == {"file-times-1": [str(password)], "file-times-2": []}
