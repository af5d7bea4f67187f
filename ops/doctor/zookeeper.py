"""Checks each ZooKeeper server of the connection string, and whether enough of them answer."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from functools import partial

from kazoo.hosts import collect_hosts

from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.tasks.preflight.result import CheckResult, error, has_failed, ok, probe, warning

ANSWER_SECONDS = 3.0


def check_zookeeper(address: str) -> list[CheckResult]:
    """One result for each server, and one for all. `address`: `host:port[,host:port][/chroot]`."""
    # One that is named twice is one.
    servers = dict.fromkeys(collect_hosts(address)[0])
    results: list[CheckResult] = []
    answering = 0
    for host, port in servers:
        seen = probe(f"ZooKeeper {host}:{port}", partial(_server, host, port))
        results += seen
        if not has_failed(seen):
            answering += 1
    return [*results, quorum(len(servers), answering)]


def quorum(servers: int, answering: int) -> CheckResult:
    """Whether ZooKeeper as a whole works, and what it survives, if the connection string names
    all of its servers."""
    subject, needed = "ZooKeeper quorum", servers // 2 + 1
    found = f"{answering} of {servers} answer"
    if answering < needed:
        return error(
            subject,
            f"{found}, {needed} are needed",
            "Start the others; see the ZooKeeper logs of those that do not answer.",
        )
    if servers == 1:
        return warning(
            subject,
            "one server: while it is down no task starts or stores a position",
            "Use three, and name all in the address.",
        )
    if servers % 2 == 0:
        return warning(
            subject,
            f"{found}; an even number survives no more losses than one fewer",
            "Use an odd number of servers.",
        )
    if answering < servers:
        return warning(
            subject, f"{found}; {answering - needed} more may be lost", "Bring the others back."
        )
    return ok(subject, f"{found}; {servers - needed} may be lost")


def _server(host: str, port: int) -> Iterator[CheckResult]:
    said = ask(host, port)
    mode = re.search(r"^Mode: (\S+)", said, re.M)
    version = re.search(r"^Zookeeper version: ([^-,\s]+)", said, re.M)
    # A server that does not allow `srvr` says so in a sentence without these lines.
    found = "answers; its role is unknown, as 4lw.commands.whitelist lacks srvr"
    if mode is not None:
        found = mode[1]
        if version is not None:
            found += f", version {version[1]}"
    yield ok(f"ZooKeeper {host}:{port}", found)


def ask(host: str, port: int) -> str:
    """The answer to ZooKeeper's command `srvr`. Raises PositionUnavailable."""
    try:
        with socket.create_connection((host, port), ANSWER_SECONDS) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.sendall(b"srvr")
            parts = []
            # ZooKeeper closes the connection after its answer.
            while part := connection.recv(4096):
                parts.append(part)
    except OSError as cause:
        raise PositionUnavailable(
            f"ZooKeeper at {host}:{port} does not answer: {cause.strerror or cause}"
        ) from cause
    said = b"".join(parts).decode("utf-8", "replace")
    if not said or "not currently serving requests" in said:
        raise PositionUnavailable(
            f"ZooKeeper at {host}:{port} serves no requests: it has lost the other servers, or is "
            "starting"
        )
    return said
