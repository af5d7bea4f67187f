"""What a word means: a file or an id; and what an operator reads whose word names no task."""

from pathlib import Path

import pytest

from cdcbus.tasks.control.named_task import is_file, unknown_task
from cdcbus.tasks.process_identity import NODE_VARIABLE


def test_a_node_means_the_stored_task_also_where_a_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop").touch()
    assert is_file("shop") and is_file("db1.properties") and not is_file("other")
    monkeypatch.setenv(NODE_VARIABLE, "n1")
    assert not is_file("shop") and not is_file("db1.properties")


def test_a_similar_id_is_named() -> None:
    sentence = str(unknown_task("shop-to-kafk", ["other", "shop-to-kafka"], "z:1"))
    assert sentence.startswith("there is no task shop-to-kafk at z:1, but there is shop-to-kafka;")


def test_without_one_the_commands_are_named_that_help() -> None:
    sentence = str(unknown_task("1", ["shop"], "z:1"))
    assert sentence == (
        "there is no task 1 at z:1; cdcbus task list shows all, cdcbus task import FILE adds one"
    )


def test_a_task_that_was_only_run_from_a_file_is_not_denied() -> None:
    sentence = str(unknown_task("shop", ["shop"], "z:1"))
    assert sentence.startswith("task shop is run from a file, and its text is not in ZooKeeper")
    assert "cdcbus task import FILE" in sentence
