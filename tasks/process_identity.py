"""The identity of this process, in a form that other processes can check: host, process id, and
whether a process has certainly ended."""

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

# For a task that a node runs: the node's process id.
PARENT_VARIABLE = "CDCBUS_NODE_PROCESS"
# And the node's id.
NODE_VARIABLE = "CDCBUS_NODE_RUNS"
WAIT_SECONDS = 0.5
LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")
# Of prctl(2), which Python does not wrap.
_PR_SET_PDEATHSIG = 1


def identity() -> dict[str, Any]:
    """porter's fields `address`, `hostName` and `processId`, and `process`, a value that no other
    process ever has."""
    return {
        "address": _address(),
        "hostName": socket.gethostname(),
        "processId": os.getpid(),
        "process": process_token(os.getpid()),
    }


def is_gone(holder: Mapping[str, Any]) -> bool:
    """Whether the process of an `identity` has certainly ended: it ran on this machine, and the
    kernel no longer knows it. False for a process on another machine."""
    token = holder.get("process")
    if not isinstance(token, str) or token.count("/") != 3:
        return False
    pid = token.split("/")[2]
    # Another boot or namespace: its process ids say nothing here.
    if not pid.isdigit() or token.split("/")[:2] != process_token(os.getpid()).split("/")[:2]:
        return False
    try:
        return _started_at(int(pid)) != token.split("/")[3]
    except (FileNotFoundError, ProcessLookupError):
        return not _is_there(int(pid))
    except (OSError, IndexError):
        return False


def _is_there(pid: int) -> bool:
    """Whether the kernel knows a process: /proc can hide those of other users (`hidepid`)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def operator() -> str:
    """Who gives a command, and where: `user@host`."""
    try:
        user = getpass.getuser()
    # Containers often run as a user id without an entry in /etc/passwd.
    except (OSError, KeyError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def end_with_node() -> None:
    """For a task that a node runs: has the kernel kill this process when the node ends, however it
    ends. Raises CdcError when the node has already ended."""
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Asked after prctl: a node that ended before that sends no signal any more.
    if str(os.getppid()) != parent:
        raise CdcError(
            f"the node that started this task, process {parent}, has ended; another node takes "
            "the task"
        )


def patiently(ask: Callable[[], Answer], stop: Callable[[], bool] = lambda: False) -> Answer:
    """The result of `ask`. In a task that a node runs, waits until ZooKeeper answers or `stop` is
    true, as an unavailable ZooKeeper is not the task's failure. In a task that was started by hand,
    raises PositionUnavailable immediately."""
    logged = ""
    while True:
        try:
            return ask()
        except PositionUnavailable as error:
            if NODE_VARIABLE not in os.environ or stop():
                raise
            if str(error) != logged:
                LOG.warning("%s; the task waits for it", error)
                logged = str(error)
            time.sleep(WAIT_SECONDS)


def process_token(pid: int) -> str:
    """The boot, the process namespace, the process id and its start time. Ids are reused, in a
    container that starts again nearly always, but the four together never recur."""
    with suppress(OSError, IndexError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
        return f"{boot}/{namespace}/{pid}/{_started_at(pid)}"
    # Without /proc only the id is known, which `is_gone` never takes as proof.
    return f"{pid}"


def _started_at(pid: int) -> str:
    """When a process started, in ticks since the boot. Raises OSError, IndexError."""
    # Field 22; the name before it is in brackets and may hold any character.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _address() -> str:
    """The address that this machine uses for outgoing connections; sends nothing."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # An address reserved for documentation: connecting a datagram socket only selects a route.
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1"
