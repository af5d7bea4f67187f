"""The right to run a swimlane: one ephemeral ZooKeeper node, `/datas/task/<id>/lock/<swimlane>`, held by the process that does the work.

ZooKeeper gives the lock away SESSION_SECONDS after it last heard of its holder. The holder proves all the time that ZooKeeper still knows
it, and ends its work LEASE_SECONDS after the last proof, which is before anybody else can get the lock: also when it was paused
meanwhile, as by SIGSTOP or a sleeping machine, in which case the first thing that it does is to see that its time is over.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import NoReturn

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoNodeError

from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.tasks.json_nodes import JsonNode, answer, drop_node, get_node, is_own, take_node
from cdcbus.tasks.positions import LOST, ROOT
from cdcbus.tasks.this_process import identity, is_gone

LOG = logging.getLogger(__name__)
SESSION_SECONDS = 6.0
LEASE_SECONDS = SESSION_SECONDS * 2 / 3
PROOF_SECONDS = 0.5
WAIT_SECONDS = 0.3
ANEW_VARIABLE = "CDCBUS_STARTED_ANEW"
_LIBC = ctypes.CDLL(None)
_CLOSE_RANGE = 436  # close_range(2)


def lock_path(task_id: str, swimlane: str = "") -> str:
    """The node of a swimlane, or the directory of all of a task's."""
    return f"{ROOT}/task/{task_id}/lock" + (f"/{swimlane}" if swimlane else "")


@contextmanager
def held(
    client: KazooClient, task_id: str, swimlanes: Sequence[str], node_id: str, stop: Event, on_lost: Callable[[], object]
) -> Iterator[bool]:
    """Holds the locks of the swimlanes during the block; waits until whoever has one lets it go, or `stop` is set: then it gives False.

    `on_lost` is called on another thread when the locks are lost, or may be before it can be known: whoever is called must end all work at
    once.
    """
    paths = {
        lock_path(task_id, lane): {"taskId": task_id, "nodeId": node_id, "swimlaneId": lane, **identity()} for lane in sorted(swimlanes)
    }
    over = Event()
    taken = all(_take(client, path, fields, stop) for path, fields in paths.items())
    lease = _Lease()
    try:
        if taken:
            Thread(target=_guard, args=(client, list(paths), lease, over, on_lost), name="lock-guard", daemon=True).start()
        with _on_resume(lease, on_lost):
            yield taken
    finally:
        over.set()
        for path in paths:
            with suppress(PositionUnavailable):  # the session's end lets go of it too
                if is_own(client, get_node(client, path)):
                    drop_node(client, path)


def start_anew() -> NoReturn:
    """Ends all work of this process at once, in whatever thread, and starts its command line again, which waits for the lock. The first
    thing to do there is `end_leftovers`."""
    _close_on_exec()
    os.environ[ANEW_VARIABLE] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def end_leftovers() -> None:
    """After a start anew: kills the processes that were started before."""
    if ANEW_VARIABLE in os.environ:
        _kill_descendants(os.getpid())


def _close_on_exec() -> None:
    """Connections end with the exec, also those of libraries that think otherwise."""
    first, last, cloexec = 3, 0xFFFFFFFF, 4
    if _LIBC.syscall(_CLOSE_RANGE, first, ctypes.c_uint(last), cloexec) != 0:  # a kernel before 5.11
        for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            with suppress(OSError):
                os.set_inheritable(number, number < first)


class _Lease:
    """How long this process may take its locks for granted. Time goes on while it is paused, and while the machine sleeps."""

    def __init__(self) -> None:
        self._proved = self.now()

    @staticmethod
    def now() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def prove(self, asked: float) -> None:
        """ZooKeeper has answered what was asked at this time."""
        self._proved = asked

    @property
    def is_over(self) -> bool:
        return self.now() - self._proved > LEASE_SECONDS


@contextmanager
def _on_resume(lease: _Lease, on_lost: Callable[[], object]) -> Iterator[None]:
    """A process that was stopped and goes on looks at its lease before it does anything else on its main thread."""
    if current_thread() is not main_thread():
        yield
        return

    def look(_number: int, _frame: object) -> None:
        if lease.is_over:
            on_lost()

    before = signal.signal(signal.SIGCONT, look)
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)


def _take(client: KazooClient, path: str, fields: dict[str, object], stop: Event) -> bool:
    told = ""
    while not stop.is_set():
        try:
            if take_node(client, path, fields) or is_own(client, holder := get_node(client, path)):
                return True
            if holder is not None and is_gone(holder.fields):
                _delete(client, path, holder)
                continue
            sentence = "" if holder is None else f"{path} is held by {_described(holder)}; waiting until it lets go"
        except PositionUnavailable as error:
            sentence = str(error)
        if sentence and sentence != told:
            LOG.warning("%s", sentence)
            told = sentence
        stop.wait(WAIT_SECONDS)
    return False


def _delete(client: KazooClient, path: str, holder: JsonNode) -> None:
    """Of a holder that has ended, whose session would keep it for some seconds more."""
    with suppress(NoNodeError, BadVersionError, *LOST):
        answer(client.delete_async(path, holder.version))


def _described(holder: JsonNode) -> str:
    who = f"process {holder.text('processId') or '?'} on {holder.text('hostName') or '?'}"
    node = f" (node {holder.text('nodeId')})" if holder.text("nodeId") else ""
    lasting = "" if holder.owner else ", in a node that stays for ever, as porter's do: delete it if porter does not run this task any more"
    return who + node + lasting


def _guard(client: KazooClient, paths: Sequence[str], lease: _Lease, over: Event, on_lost: Callable[[], object]) -> None:
    while not over.wait(PROOF_SECONDS):
        if not lease.is_over:  # first of all: this process may have been paused
            asked = lease.now()
            with suppress(*LOST):
                stats = [answer(request, PROOF_SECONDS) for request in [client.exists_async(path) for path in paths]]
                if not all(stat is not None and client.client_id and stat.ephemeralOwner == client.client_id[0] for stat in stats):
                    break
                lease.prove(asked)
        if lease.is_over:
            break
    if not over.is_set():
        on_lost()


def _kill_descendants(pid: int) -> None:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            text = stat.read_text()
            parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(text.split()[0]))
    found = list(parents.get(pid, []))
    for child in found:
        found += parents.get(child, [])
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)
