from pathlib import Path, PurePosixPath

import pytest

from tests.changed import needed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Tests of two rooms, and of a folder."""
    for name in ("consumer/apply/test_writer", "consumer/test_run", "ops/web/test_pages"):
        file = tmp_path / "tests" / "integration" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (["consumer/apply/writer.py"], ["tests/integration/consumer/apply"]),
        # a room without tests of its own: those of the folder above
        (["consumer/merge/fold.py"], ["tests/integration/consumer"]),
        # the folder has the room
        (["consumer/apply/writer.py", "consumer/run.py"], ["tests/integration/consumer"]),
        (["ops/web/templates/task.html"], ["tests/integration/ops/web"]),
        (
            ["tests/integration/ops/web/test_pages.py"],
            ["tests/integration/ops/web/test_pages.py"],
        ),
        # deleted, no test, and nothing of the package
        (["tests/integration/ops/web/test_old.py"], []),
        (["tests/support/processes/bus.py", "README.md", "docs/kafka.md"], []),
    ],
)
def test_a_changed_room_has_the_tests_that_mirror_it(
    root: Path, changed: list[str], tests: list[str]
) -> None:
    found = needed(map(PurePosixPath, changed), root)
    assert [str(each) for each in found] == tests


def test_each_room_of_the_package_has_some() -> None:
    for folder in ("plugins", "producer", "consumer", "tasks", "ops"):
        assert needed([PurePosixPath(folder) / "any.py"])
