from pathlib import Path

import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config import read_task as module
from cdcbus.tasks.config.read_task import inspect_task, read_task

EXAMPLES = sorted((Path(module.__file__).parents[1] / "examples").glob("*.properties"))


def test_there_is_one_per_route() -> None:
    assert [path.stem for path in EXAMPLES] == [
        "kafka-to-kafka",
        "kafka-to-mysql",
        "kafka-to-oracle",
        "kafka-to-postgresql",
        "mysql-to-kafka",
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_clean(path: Path) -> None:
    read = read_task(path, {"SOURCE_PASSWORD": "a", "TARGET_PASSWORD": "b"})
    assert (read.warnings, read.notes) == ([], [])
    assert isinstance(read.task, FetchTask if path.stem.startswith("mysql") else LoadTask)
    assert read.task.task_id == path.stem


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_without_its_secret_an_example_only_has_a_note(path: Path) -> None:
    inspection = inspect_task(path, {})
    assert inspection.task is not None
    assert [diagnostic.severity for diagnostic in inspection.diagnostics.found] == ["note"] * (
        path.stem != "kafka-to-kafka"
    )
