"""Compares clocks: lags are differences between the clock of a source and that of the measuring
machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.plugins.errors import CdcError
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.preflight.result import ANSWER_SECONDS, CheckResult, ok, warning
from cdcbus.tasks.zookeeper.node_registry import NODES, BusNodes
from cdcbus.tasks.zookeeper.znode import answer, get_node, reported

# A node reports its time in whole seconds.
MOST_SECONDS = 2.0
REMEDY = "Let all machines of the bus keep time by NTP: chronyc tracking."


def describe_skew(subject: str, whose: str, seconds: float) -> CheckResult:
    """`seconds`: how far this clock is ahead of the other."""
    if abs(seconds) <= MOST_SECONDS:
        return ok(subject, f"within {MOST_SECONDS:g} s of {whose}")
    direction = "ahead of" if seconds > 0 else "behind"
    found = f"{abs(seconds):.1f} s {direction} {whose}: lags in seconds are wrong by as much"
    return warning(subject, found, REMEDY)


def source_clock(config: SourceConfig) -> Iterator[CheckResult]:
    """The source's clock against this machine's, as it was halfway through the request."""
    with servers.reported(config):
        connection = servers.connect(config, ANSWER_SECONDS)
        try:
            asked = time.time()
            theirs = servers.now_ms(connection) / 1000
            answered = time.time()
        finally:
            connection.close()
    host, port = config.addresses[0]
    # Their time is assumed to be of the moment halfway between request and answer.
    skew_seconds = theirs - (asked + answered) / 2
    yield describe_skew(f"clock of source {host}:{port}", "this machine's", skew_seconds)


def node_clocks(client: KazooClient) -> Iterator[CheckResult]:
    """Each node's clock: the time in its last report against ZooKeeper's time of that report."""
    for node_id in BusNodes(client).ids():
        path = f"{NODES}/{node_id}/stat"
        try:
            node = get_node(client, path)
            if node is None:
                continue
            stamp = node.usable().text("heartbeat")
            heartbeat_at = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            with reported(path):
                _, stat = answer(client.get_async(path))
        except (CdcError, ValueError, NoNodeError):
            continue  # damaged: the check of nodes reports that
        # ZooKeeper stamps each change by its own clock.
        skew_seconds = heartbeat_at.timestamp() - stat.mtime / 1000
        yield describe_skew(f"clock of node {node_id}", "ZooKeeper's", skew_seconds)
