"""Tasks that an earlier demo has left running."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cdcbus.ops.stack.demo_tasks import leftovers, stop_leftovers
from cdcbus.plugins.own_program import own_program
from tests.support.waiting import wait_until


def test_what_an_earlier_demo_left_running_is_found_and_stopped(tmp_path: Path) -> None:
    """Its command line is that of a task of this folder; what the process does meanwhile does
    not matter."""
    mine = tmp_path / "demo-fetch.properties"
    idle = "import signal; signal.pause()"
    package = tmp_path / "cdcbus.py"
    package.write_text(idle)
    left = subprocess.Popen(
        own_program("cdcbus", "task", "run", str(mine)),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        start_new_session=True,
    )
    wait_until(lambda: leftovers(tmp_path) == [left.pid], "the task to be found")
    assert leftovers(tmp_path / "elsewhere") == []
    assert stop_leftovers(tmp_path) == 1
    assert left.wait(10) != 0
    assert leftovers(tmp_path) == []
