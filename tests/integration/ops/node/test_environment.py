"""Nodes and tasks of different environments that share a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PROD, TEST = "prod", "test"


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def run(bus: Bus, environment: str, *words: str, code: int = 0) -> str:
    """A command where `environment` is set."""
    done = CliRunner().invoke(
        main, words, env={**bus.environment, "CDCBUS_ENVIRONMENT": environment}
    )
    assert done.exit_code == code, done.output
    return done.output


def test_a_task_is_refused_and_left_alone_where_its_environment_is_another(
    bus: Bus, name: str
) -> None:
    file = bus.folder / "shop.properties"
    file.write_text(resting_text("5301", "127.0.0.1:2", name, environment="prod"))
    refused = run(bus, TEST, "task", "import", str(file), code=1)
    assert "the task is of environment prod, and this machine is of environment test" in refused
    run(bus, PROD, "task", "import", str(file))

    bus.node("other", CDCBUS_ENVIRONMENT=TEST)
    wait_until(lambda: "node other takes tasks" in bus.said(), "the other node")
    assert "this machine has no environment" in run(bus, "", "task", "run", "5301", code=1)
    reason = "no node of its environment runs (environment=prod)"
    assert reason in run(bus, PROD, "task", "start", "5301", "--timeout", "0", code=1)

    bus.node("right", CDCBUS_ENVIRONMENT=PROD)
    wait_until(lambda: bus.tasks.claimed_by("5301") == "right", "the claim of the right node")
    # A node takes tasks before its first report.
    wait_until(
        lambda: "environment prod" in run(bus, PROD, "node", "info", "right"), "the node's report"
    )
