"""What an operator reads whose word names no task."""

from cdcbus.tasks.control.named_task import unknown_task


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
