"""Which passwords a task would read anew."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pytest

from cdcbus.plugins.files.taken_texts import (
    all_taken,
    begin_task,
    changed_files,
    emptied_files,
    take,
)
from cdcbus.plugins.log_context import TASK_AT_WORK


@pytest.fixture(autouse=True)
def nothing_taken() -> None:
    begin_task()


def test_only_another_text_of_its_own_is_a_change(tmp_path: Path) -> None:
    """Tools write files again as they were, and a file of properties may hold passwords of others:
    neither can help a task whose login is refused."""
    alone, shared = tmp_path / "password", tmp_path / "all.properties"
    alone.write_text("one")
    shared.write_text("mine=two\nother=three\n")
    assert [take(str(alone), ""), take(str(shared), "mine")] == ["one", "two"]
    alone.write_text("one\n")
    os.utime(alone, ns=(1, 1))
    shared.write_text("mine=two\nother=four\n")
    assert changed_files() == []
    shared.write_text("mine=five\n")
    assert changed_files() == [str(shared)]


def test_a_file_that_could_not_be_read_at_first_is_a_change_once_it_can(tmp_path: Path) -> None:
    password = tmp_path / "password"
    with pytest.raises(FileNotFoundError):
        take(str(password), "")
    assert (changed_files(), emptied_files()) == ([], [])
    password.touch()
    assert (changed_files(), emptied_files()) == ([], [str(password)])
    password.write_text("present")
    assert (changed_files(), emptied_files()) == ([str(password)], [])
    take(str(password), "")
    assert changed_files() == []


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """Another read would wait for ever."""
    reading, writing = os.pipe()
    os.write(writing, b"secret")
    os.close(writing)
    path = f"/dev/fd/{reading}"
    assert take(path, "") == "secret"
    assert (changed_files(), emptied_files()) == ([], [])
    os.close(reading)


def test_every_thread_of_a_task_knows_what_the_task_has_taken_over(tmp_path: Path) -> None:
    """A Kafka client calls back on whichever thread asks it, and each has a context of its own."""
    password = tmp_path / "password"
    password.write_text("former")

    def start(task_id: str, *paths: Path) -> None:
        TASK_AT_WORK.set(task_id)
        begin_task()
        for path in paths:
            take(str(path), "")

    copy_context().run(start, "taken-1", password)
    copy_context().run(start, "taken-2")
    password.write_text("present")
    found = {}
    for task_id in ("taken-1", "taken-2"):
        with ThreadPoolExecutor(1, "partition", TASK_AT_WORK.set, (task_id,)) as pool:
            found[task_id] = pool.submit(changed_files).result()
    assert found == {"taken-1": [str(password)], "taken-2": []}


def test_another_process_of_a_task_counts_what_the_first_one_has_taken_over(tmp_path: Path) -> None:
    """Instead of what it counted for another task, or for a former start."""
    password = tmp_path / "password"
    password.write_text("former")
    take(str(password), "")
    of_driver = all_taken()
    begin_task({(str(tmp_path / "others"), ""): "former"})
    begin_task(of_driver)
    password.write_text("present")
    assert changed_files() == [str(password)]
