"""Checks who may write to the bus's part of ZooKeeper, and what protects nodes from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import Permissions

from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.tasks.config.keys.allow_lists import FILES, MODULES
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.preflight.result import CheckResult, ok, warning
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.znode import answer, get_children, reported

SUBJECT = "ZooKeeper access"
# ADMIN changes the ACL, and with it everything else.
WRITING = Permissions.WRITE | Permissions.CREATE | Permissions.DELETE | Permissions.ADMIN


def check_access(bus: BusSettings) -> Iterator[CheckResult]:
    """Raises PositionUnavailable."""
    with bus_client(bus) as client:
        yield verdict(list(open_nodes(client)), bus)


def verdict(opened: list[str], bus: BusSettings) -> CheckResult:
    """The result for the znodes that anyone may write."""
    if not opened:
        return ok(SUBJECT, "only known users may write")
    missing = [key for key in (FILES, MODULES) if key not in bus.allow_lists]
    others = ""
    if len(opened) > 1:
        others = f" and {len(opened) - 1} more znodes"
    found = (
        f"anyone who reaches ZooKeeper may write {opened[0]}{others}, so change positions and tasks"
    )
    if missing:
        found += ", and have nodes read files and import modules of this machine"
    remedy = (
        "Set zookeeper.auth for all nodes and commands, then give it the existing znodes: cdcbus "
        "config protect."
    )
    if bus.zookeeper_auth:
        remedy = "Give them to the user of zookeeper.auth: cdcbus config protect."
    if missing:
        remedy += f" Set {' and '.join(missing)}, see docs/security.md."
    return warning(SUBJECT, found, remedy)


def open_nodes(client: KazooClient) -> Iterator[str]:
    """The znodes that define what tasks do and where they are, and that anyone may write or
    delete."""
    for path in _paths(client):
        try:
            with reported(path):
                acls, _ = answer(client.get_acls_async(path))
        except NoNodeError:
            # It was deleted meanwhile, or the task has none.
            continue
        if is_open(acls):
            yield path


def is_open(acls: Iterable[Any]) -> bool:
    """Whether an ACL lets anyone change the znode or what is below it."""
    return any(each.id.scheme == "world" and each.perms & WRITING for each in acls)


def _paths(client: KazooClient) -> Iterator[str]:
    yield ROOT
    for kind in get_children(client, ROOT):
        yield f"{ROOT}/{kind}"
        # Entries of the audit decide nothing that a node does.
        if kind == "audit":
            continue
        for name in get_children(client, f"{ROOT}/{kind}"):
            yield f"{ROOT}/{kind}/{name}"
            if kind == "task":
                yield from _of_task(client, f"{ROOT}/{kind}/{name}")


def _of_task(client: KazooClient, task: str) -> Iterator[str]:
    # What the task does and where it is; the rest is about progress.
    for part in ("dist", "position"):
        yield f"{task}/{part}"
        for swimlane in get_children(client, f"{task}/{part}"):
            yield f"{task}/{part}/{swimlane}"
