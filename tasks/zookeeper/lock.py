"""The right to run a swimlane: one ephemeral ZooKeeper node, `/datas/task/<id>/lock/<swimlane>`,
held by the process that does the work.

ZooKeeper gives the lock away SESSION_SECONDS after it last heard of its holder. The holder proves
all the time that ZooKeeper still knows it, and ends its work LEASE_SECONDS after the last proof,
which is before anybody else can get the lock: also when it was paused meanwhile, as by SIGSTOP or a
sleeping machine, in which case the first thing that it does is to see that its time is over.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread, current_thread, main_thread
from typing import NoReturn

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoNodeError

from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.tasks.process_identity import identity, is_gone
from cdcbus.tasks.zookeeper.positions import LOST, ROOT
from cdcbus.tasks.zookeeper.znode import JsonNode, answer, drop_node, get_node, is_own, take_node

LOG = logging.getLogger(__name__)
SESSION_SECONDS = 6.0
LEASE_SECONDS = SESSION_SECONDS * 2 / 3
PROOF_SECONDS = 0.5
LOOKS_AT_ONCE = 10
WAIT_SECONDS = 0.3
ANEW_VARIABLE = "CDCBUS_STARTED_ANEW"
_LIBC = ctypes.CDLL(None)
_CLOSE_RANGE = 436  # close_range(2)


def lock_path(task_id: str, swimlane: str = "") -> str:
    """The node of a swimlane, or the directory of all of a task's."""
    return f"{ROOT}/task/{task_id}/lock" + (f"/{swimlane}" if swimlane else "")


@contextmanager
def held(
    client: KazooClient,
    task_id: str,
    swimlanes: Sequence[str],
    node_id: str,
    stop: Event,
    on_lost: Callable[[], object],
) -> Iterator[bool]:
    """Holds the locks of the swimlanes during the block, as the only ones of this process: see
    `Guard`."""
    with (
        guarded(client, on_lost) as guard,
        guard.held(task_id, swimlanes, node_id, stop) as is_held,
    ):
        yield is_held


@contextmanager
def guarded(client: KazooClient, on_lost: Callable[[], object]) -> Iterator[Guard]:
    """A guard of all locks that this process takes during the block. To be called on the main
    thread, so that a process that was paused looks at its locks before all else."""
    over = Event()
    guard = Guard(client, on_lost, over)
    Thread(target=guard.watch, name="lock-guard", daemon=True).start()
    try:
        with _on_resume(guard):
            yield guard
    finally:
        over.set()


class Guard:
    """Takes locks by one ZooKeeper session, and proves that it still has them. `held` may be called
    on any thread.

    `on_lost` is called on another thread, or a signal handler, when a lock is lost, or may be
    before it can be known: whoever is called must end all work of the process at once.
    """

    def __init__(self, client: KazooClient, on_lost: Callable[[], object], over: Event) -> None:
        self._client, self._on_lost, self._over = client, on_lost, over
        self._lease = _Lease()
        self._held: dict[str, object] = {}  # path -> this holding of it
        self._changing = Lock()

    @contextmanager
    def held(
        self, task_id: str, swimlanes: Sequence[str], node_id: str, stop: Event
    ) -> Iterator[bool]:
        """Holds the locks of the swimlanes during the block; waits until whoever has one lets it
        go, or `stop` is set: then it gives False. Not for a task whose locks this process holds
        already."""
        paths = {
            lock_path(task_id, lane): {
                "taskId": task_id,
                "nodeId": node_id,
                "swimlaneId": lane,
                **identity(),
            }
            for lane in sorted(swimlanes)
        }
        try:
            taken = all(_take(self._client, path, fields, stop) for path, fields in paths.items())
            if taken:
                with self._changing:
                    if not self._held:
                        self._lease.prove(_Lease.now())
                    self._held |= {path: object() for path in paths}
            yield taken
        finally:
            with self._changing:
                self._held = {
                    path: holding for path, holding in self._held.items() if path not in paths
                }
            for path in paths:
                try:
                    self._let_go(path)
                # the session's end lets go of it too, but that may be far away
                except PositionUnavailable:
                    Thread(
                        target=self._let_go_later, args=(path,), name="lock-drop", daemon=True
                    ).start()

    def _let_go(self, path: str) -> None:
        if path not in self._held and is_own(self._client, get_node(self._client, path)):
            drop_node(self._client, path)

    def _let_go_later(self, path: str) -> None:
        while not self._over.wait(WAIT_SECONDS):
            with suppress(PositionUnavailable):
                self._let_go(path)
                return

    def look(self) -> None:
        """Ends all work if the locks may be lost."""
        if self._held and self._lease.is_over:
            self._on_lost()

    def watch(self) -> None:
        """Looks until all is over, or the locks are lost."""
        for number in count():
            if self._over.wait(PROOF_SECONDS):
                return
            held = list(dict(self._held).items())
            # any answer proves the session; each lock is looked at in its turn
            parts = len(held) // LOOKS_AT_ONCE + 1
            # The lease first of all: this process may have been paused.
            if held and (self._lease.is_over or self._is_lost(dict(held[number % parts :: parts]))):
                if not self._over.is_set():
                    self._on_lost()
                return

    def _is_lost(self, held: Mapping[str, object]) -> bool:
        """Whether ZooKeeper says so of one that is still wanted, or has said nothing for too
        long."""
        asked = _Lease.now()
        with suppress(*LOST):
            requests = {path: self._client.exists_async(path) for path in held}
            stats = {
                path: answer(request, self._lease.left_seconds)
                for path, request in requests.items()
            }
            session = self._client.client_id[0] if self._client.client_id else None
            others = {
                path
                for path, stat in stats.items()
                if stat is None or session is None or stat.ephemeralOwner != session
            }
            if any(self._held.get(path) is held[path] for path in others):
                return True
            self._lease.prove(asked)
        return self._lease.is_over


def start_anew() -> NoReturn:
    """Ends all work of this process at once, in whatever thread, and starts its command line
    again, which waits for the lock. The first thing to do there is `end_leftovers`."""
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
    # a kernel before 5.11
    if _LIBC.syscall(_CLOSE_RANGE, first, ctypes.c_uint(last), cloexec) != 0:
        for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            with suppress(OSError):
                os.set_inheritable(number, number < first)


class _Lease:
    """How long this process may take its locks for granted. Time goes on while it is paused, and
    while the machine sleeps."""

    def __init__(self) -> None:
        self._proved = self.now()

    @staticmethod
    def now() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def prove(self, asked: float) -> None:
        """ZooKeeper has answered what was asked at this time."""
        self._proved = asked

    @property
    def left_seconds(self) -> float:
        return max(0.0, self._proved + LEASE_SECONDS - self.now())

    @property
    def is_over(self) -> bool:
        return not self.left_seconds


@contextmanager
def _on_resume(guard: Guard) -> Iterator[None]:
    """A process that was stopped and goes on looks at its locks before it does anything else on
    its main thread."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGCONT, lambda _number, _frame: guard.look())
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
            sentence = (
                ""
                if holder is None
                else f"{path} is held by {_described(holder)}; waiting until it lets go"
            )
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
    lasting = (
        ""
        if holder.owner
        else ", in a node that stays for ever, as porter's do: delete it if porter does not run "
        "this task any more"
    )
    return who + node + lasting


def _kill_descendants(pid: int) -> None:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            text = stat.read_text()
            parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(
                int(text.split()[0])
            )
    found = list(parents.get(pid, []))
    for child in found:
        found += parents.get(child, [])
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)
