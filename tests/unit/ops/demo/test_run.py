"""What is told of a demo that ends with an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcbus.ops.demo import run
from cdcbus.ops.demo.run import Options, alone
from cdcbus.plugins.errors import ConfigError


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setattr(run, "java", lambda: "java")
    return Options(tmp_path, 1, [], 0)


def test_a_second_demo_in_one_home_is_refused(options: Options) -> None:
    with (
        alone(options),
        pytest.raises(ConfigError, match="another demo runs in"),
        alone(options),
    ):
        pass


def test_a_process_that_the_machine_refuses_is_no_other_demo(options: Options) -> None:
    with pytest.raises(BlockingIOError, match="no more processes"), alone(options):
        raise BlockingIOError("no more processes")
