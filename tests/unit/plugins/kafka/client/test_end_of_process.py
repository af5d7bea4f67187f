"""What the end of a process waits for."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import time
from cdcbus.plugins.kafka.client.asking import start_asking

def ask():
    time.sleep({seconds})
    print("answered", flush=True)

start_asking(ask, "asking")
"""


@pytest.mark.parametrize(("seconds", "said"), [(0.5, "answered\n"), (600, "")])
def test_a_process_ends_after_an_answer_that_comes_soon(seconds: float, said: str) -> None:
    """An answer to librdkafka's own thread while the interpreter ends would crash it."""
    script = SCRIPT.format(seconds=seconds)
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == said
