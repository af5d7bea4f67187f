"""`cdcbus offset set` on a ZooKeeper in memory."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main
from cdcbus.ops.cli.offset import set as command
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from tests.unit.ops.cli.runs import in_memory

STORED = {
    "batchId": 7,
    "logfileName": "bin.000003",
    "offset": 400,
    "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-90",
    "timestamp": 1_700_000_000_000,
}


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> Any:
    """With fetch task 7."""
    found = in_memory(monkeypatch, command)
    found.put("/datas/task/7/dist/lane", {"taskId": "7"})
    found.put("/datas/task/7/position/lane", STORED)
    return found


def dry_run(task_id: str, fields: dict[str, Any], *options: str) -> Result:
    words = ["offset", "set", task_id, orjson.dumps(fields).decode(), "--dry-run", "--json"]
    return CliRunner().invoke(main, [*words, *options])


@pytest.mark.usefixtures("zookeeper")
def test_what_belongs_to_the_former_place_is_left_out() -> None:
    done = dry_run("7", {**STORED, "offset": 200})
    assert done.exit_code == 0, done.output
    (row,) = orjson.loads(done.stdout)
    assert orjson.loads(row["position"]) == {
        "batchId": 7,
        "logfileName": "bin.000003",
        "offset": 200,
    }
    assert "without gtid and timestamp" in done.stderr


@pytest.mark.usefixtures("zookeeper")
@pytest.mark.parametrize("fields", [STORED, {**STORED, "offset": 200, "gtid": "other:1"}])
def test_a_position_that_is_whole_is_taken_as_it_is(fields: dict[str, Any]) -> None:
    done = dry_run("7", fields)
    (row,) = orjson.loads(done.stdout)
    assert (orjson.loads(row["position"]), "without" in done.stderr) == (fields, False)


@pytest.mark.usefixtures("zookeeper")
def test_a_swimlane_that_the_task_does_not_have_is_refused_with_those_that_it_has() -> None:
    done = dry_run("7", STORED, "--swimlane", "lame")
    assert done.exit_code == 1
    assert "task 7 has no swimlane lame" in done.output
    assert "it has lane" in done.output
    assert dry_run("7", STORED, "--swimlane", "lane").exit_code == 0


@pytest.mark.parametrize(("wanted", "is_said"), [("WORKING", True), ("STOPPED", False)])
def test_a_task_in_error_is_started_by_a_position_and_the_question_says_so(
    zookeeper: Any, wanted: str, is_said: bool
) -> None:
    zookeeper.put("/datas/task/7/wanted", {"status": wanted})
    order = TaskNodes(zookeeper).wanted("7")
    assert order is not None
    TaskNodes(zookeeper).put_run("7", Run(State.ERROR, "no topic", order.order))
    words = ["offset", "set", "7", orjson.dumps({**STORED, "offset": 200}).decode()]
    done = CliRunner().invoke(main, words, input="n\n")
    assert done.exit_code == 130, done.output
    said = "task 7 was started, and is ERROR: the new position starts it within seconds"
    assert (said in done.stderr) is is_said


def test_a_swimlane_that_has_a_position_is_known_and_any_of_a_task_without_a_text(
    zookeeper: Any,
) -> None:
    zookeeper.put("/datas/task/7/position/former", STORED)
    assert dry_run("7", STORED, "--swimlane", "former").exit_code == 0
    assert dry_run("8", STORED, "--swimlane", "lane").exit_code == 0
