from collections.abc import Callable
from pathlib import Path

import pytest

from cdcbus.ops.cli.task import list as listing


class Interrupted(Exception):
    pass


def test_all_lines_of_a_log_are_printed_though_it_is_rotated_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "task.log"
    file.write_text("begun\n")

    def rotate(number: int) -> None:
        with file.open("a") as log:
            log.write(f"last of {number}\n")
        file.rename(tmp_path / f"task.log.{number}")
        if number == 1:
            file.write_text("first of the next\n")

    def interrupt() -> None:
        raise Interrupted

    steps: list[Callable[[], object]] = [
        lambda: rotate(1),
        lambda: rotate(2),
        # It has no name for a moment.
        lambda: file.write_text("the third\n"),
        interrupt,
    ]
    pauses = iter(steps)
    monkeypatch.setattr("cdcbus.ops.cli.task.list.time.sleep", lambda _: next(pauses)())
    with pytest.raises(Interrupted):
        listing._follow(file, listing._opened(file))
    printed = "begun\nlast of 1\nfirst of the next\nlast of 2\nthe third\n"
    assert capsys.readouterr().out == printed
