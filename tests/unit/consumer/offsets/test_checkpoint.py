"""What a task's stored positions tell, on a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.tasks.local.state_file import StateFile
from cdcbus.tasks.local.stores import FilePositions


@pytest.mark.parametrize(
    ("named", "others"), [("a", ["b", "c"]), ("ab", ["c"]), ("d", ["a", "b", "c"]), ("abcd", [])]
)
def test_the_topics_that_a_task_has_read_and_does_not_read_now_are_known(
    tmp_path: Path, named: str, others: list[str]
) -> None:
    state = StateFile(tmp_path / "7.json", "7")
    for topic in "abc":
        store = FilePositions(state, topic)
        store.load()
        store.save("written")
    FilePositions(state, "seen").load()
    stores = {topic: FilePositions(state, topic) for topic in named}
    assert StoredPositions(stores, is_dry_run=False).other_topics() == others
