"""What a running task does for its process."""

from __future__ import annotations

import subprocess
import sys


def test_what_is_loaded_when_a_task_begins_to_read_is_not_looked_through_again_and_again() -> None:
    """In a process of its own: this one's garbage is to be found."""
    code = (
        "import gc; from cdcbus.tasks.runtime.runner import keep_what_is_loaded as keep; keep(); "
        "kept = gc.get_freeze_count(); later = [[] for _ in range(10)]; keep(); "
        "print(kept > 10_000, gc.get_freeze_count() == kept, gc.is_tracked(later[0]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True True True\n"
