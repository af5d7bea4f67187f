"""Who may write to the bus's part of a real ZooKeeper, and how that is closed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from cdcbus.ops.cli.main import main
from cdcbus.ops.doctor.access import SUBJECT
from cdcbus.tasks.zookeeper.connection import connect
from tests.support.processes.bus import Bus, open_bus, resting_text

pytestmark = pytest.mark.integration
AUTH = "cdc:s3cret"


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def run(bus: Bus, *words: str, code: int = 0, **settings: str) -> str:
    """A command with settings of its own; what it prints."""
    done = CliRunner().invoke(main, words, env={**bus.environment, **settings})
    assert done.exit_code == code, done.output
    assert "s3cret" not in done.output
    return done.output


def access(bus: Bus, **settings: str) -> dict[str, Any]:
    """What the doctor finds."""
    done = CliRunner().invoke(main, ["doctor", "--json"], env={**bus.environment, **settings})
    (found,) = (each for each in json.loads(done.stdout) if each["subject"] == SUBJECT)
    return dict(found)


def test_an_open_zookeeper_is_a_finding_until_it_belongs_to_a_user(
    bus: Bus, zookeeper: str, kafka: str, name: str
) -> None:
    bus.load(resting_text("5201", kafka, name))
    found = access(bus)
    assert found["outcome"] == "warning"
    assert found["found"].startswith("anyone who reaches ZooKeeper may write /datas and ")
    assert "have nodes read files and import modules" in found["found"]
    assert "Set node.files and node.modules" in found["cure"]
    limited = access(bus, CDCBUS_NODE_FILES="none", CDCBUS_NODE_MODULES="none")
    assert "read files" not in limited["found"]
    assert limited["outcome"] == "warning"

    assert "zookeeper.auth is not set" in run(bus, "config", "protect", "--yes", code=1)
    assert access(bus, CDCBUS_ZOOKEEPER_AUTH=AUTH)["cure"].startswith("Give them to the user of")
    asked = run(bus, "config", "protect", code=130, CDCBUS_ZOOKEEPER_AUTH=AUTH)
    assert "Let only user cdc read and write" in asked
    done = run(bus, "config", "protect", "--yes", CDCBUS_ZOOKEEPER_AUTH=AUTH)
    assert "nodes in ZooKeeper belong to user cdc" in done

    assert access(bus, CDCBUS_ZOOKEEPER_AUTH=AUTH)["found"] == "only known users may write"
    assert "does not let this user use /datas" in access(bus)["found"]
    assert "ZooKeeper does not let this user" in run(bus, "task", "list", code=1)
    assert "5201" in run(bus, "task", "list", CDCBUS_ZOOKEEPER_AUTH=AUTH)
    assert "protect" in run(bus, "audit", CDCBUS_ZOOKEEPER_AUTH=AUTH)
    stranger = connect(zookeeper, auth="cdc:wrong")
    try:
        stranger.chroot = bus.client.chroot
        for path in ("/datas", "/datas/task/5201", f"/datas/task/5201/dist/{name}"):
            with pytest.raises(NoAuthError):
                stranger.set(path, b"{}")
        with pytest.raises(NoAuthError):
            stranger.create("/datas/task/5202", b"{}")
    finally:
        stranger.stop()
        stranger.close()


def test_one_task_that_was_made_without_the_user_is_found_among_all(
    bus: Bus, kafka: str, name: str
) -> None:
    bus.load(resting_text("5203", kafka, name))
    run(bus, "config", "protect", "--yes", CDCBUS_ZOOKEEPER_AUTH=AUTH)
    owner = connect(bus.environment["CDCBUS_ZOOKEEPER"], auth=AUTH)
    try:
        owner.set_acls("/datas/task/5203/dist", OPEN_ACL_UNSAFE)
    finally:
        owner.stop()
        owner.close()
    found = access(bus, CDCBUS_ZOOKEEPER_AUTH=AUTH)
    assert "may write /datas/task/5203/dist, so" in found["found"]
