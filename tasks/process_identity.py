"""Who this process is, in words that another process can check: host, process id, and whether a
process is certainly gone."""

from __future__ import annotations

import ctypes
import getpass
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from cdcbus.plugins.errors import CdcError, PositionUnavailable

PARENT_VARIABLE = "CDCBUS_NODE_PROCESS"  # of a task that a node runs: the node's process id
NODE_VARIABLE = "CDCBUS_NODE_RUNS"  # and its id
WAIT_SECONDS = 0.5
LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")
_PR_SET_PDEATHSIG = 1


def identity() -> dict[str, Any]:
    """porter's fields `address`, `hostName`, `processId`, and `process`, which no other process
    ever has."""
    return {
        "address": _address(),
        "hostName": socket.gethostname(),
        "processId": os.getpid(),
        "process": _token(os.getpid()),
    }


def is_gone(holder: Mapping[str, Any]) -> bool:
    """Whether the process of an `identity` has certainly ended: it ran on this machine, where
    the kernel no longer knows it. A process elsewhere is never certain."""
    token = holder.get("process")
    if not isinstance(token, str) or token.count("/") != 3:
        return False
    pid = token.split("/")[2]
    if not pid.isdigit() or token.split("/")[:2] != _token(os.getpid()).split("/")[:2]:
        return False
    return _token(int(pid)) != token


def operator() -> str:
    """Who types, and where: `user@host`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def end_with_node() -> None:
    """Of a task that a node runs: from now on the kernel kills this process when the node ends,
    however it ends. Raises CdcError when the node has ended already."""
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if str(os.getppid()) != parent:
        raise CdcError(
            f"the node that started this task, process {parent}, has ended; another node takes "
            "the task"
        )


def patiently(ask: Callable[[], Answer], stop: Callable[[], bool] = lambda: False) -> Answer:
    """What `ask` gives. Of a task that a node runs, ZooKeeper is waited for until it answers, or
    `stop` is so: that it is away is not the task's failure. Else PositionUnavailable is raised
    at once, to whoever has started it by hand."""
    told = ""
    while True:
        try:
            return ask()
        except PositionUnavailable as error:
            if NODE_VARIABLE not in os.environ or stop():
                raise
            if str(error) != told:
                LOG.warning("%s; the task waits for it", error)
                told = str(error)
            time.sleep(WAIT_SECONDS)


def _token(pid: int) -> str:
    """Boot, process namespace, process id and its start: numbers come again, all four together
    never."""
    with suppress(OSError, IndexError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{boot}/{namespace}/{pid}/{started}"
    return f"{pid}"


def _address() -> str:
    """The address by which this machine goes out; sends nothing."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1"
