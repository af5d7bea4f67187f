from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.ops.cli.task import list as listing
from cdcbus.tasks.zookeeper.lock import lock_path
from tests.unit.ops.cli.runs import in_memory


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


def test_a_lock_of_no_session_is_named_with_what_to_do_also_of_a_new_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zookeeper = in_memory(monkeypatch, listing)
    zookeeper.put("/datas/task/7/dist/lane", {})
    zookeeper.put(f"{lock_path('7')}/lane", {"processId": 2, "hostName": "h"})
    holder = "process 2 on h, in a persistent znode, as porter's are: delete it if porter does not"
    shown = CliRunner().invoke(main, ["task", "status", "7"]).output
    assert shown.startswith("task 7: NEW\n")
    assert f"  {lock_path('7')}/lane is held by {holder}" in shown
    assert f"  lane: {holder}" in shown
    fields = orjson.loads(CliRunner().invoke(main, ["task", "status", "7", "--json"]).stdout)
    assert fields["locks"]["lane"].startswith(holder)
    assert f"is held by {holder}" in CliRunner().invoke(main, ["task", "list"]).output


def test_a_refused_znode_hides_no_other_task(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = in_memory(monkeypatch, listing)
    for task_id in ("7", "8"):
        zookeeper.put(f"/datas/task/{task_id}/dist/lane", {})
    zookeeper.refused.add("/datas/task/7/state")
    seven, eight = orjson.loads(CliRunner().invoke(main, ["task", "list", "--json"]).stdout)
    assert (seven["task_id"], seven["state"], eight["state"]) == ("7", "ERROR", "NEW")
    assert "does not let this user use /datas/task/7/state" in seven["reason"]
