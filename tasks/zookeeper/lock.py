"""The right to run a swimlane: one ephemeral znode, `/datas/task/<id>/lock/<swimlane>`, held by the
process that does the work.

ZooKeeper releases the lock one session time after it last heard from the holder. The holder
continually proves that ZooKeeper still knows its session. One lease after the last proof, the work
is asked to end; it resumes in the same process as soon as ZooKeeper confirms that the lock is still
its own. Work that still runs shortly before the session may expire is ended by force, before any
other process can get the lock. This holds even if the holder was paused, as by SIGSTOP or a
sleeping machine: when it resumes, it first checks whether its time is over.

    last proof ... lease: work is asked to end ... FORCE_SECONDS before the session's end: by force
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from threading import Event, Lock, Thread, current_thread, main_thread

from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.tasks.process_identity import identity, is_gone
from cdcbus.tasks.zookeeper.connection import LOST, ROOT, session_seconds
from cdcbus.tasks.zookeeper.znode import (
    JsonNode,
    answer,
    get_children,
    get_node,
    give_up,
    is_own,
    take_free,
)

LOG = logging.getLogger(__name__)
# Between the ends of lease and session: the time for work to end when it is asked to.
LEAST_GAP_SECONDS = 1.0
# Before the session's end: enough to end work by force on a busy machine.
FORCE_SECONDS = 0.5
# Several proofs fit into a lease of 4 s, so a single slow answer does not end work.
PROOF_SECONDS = 0.5
# At most about this many locks are checked in one turn of the watch.
LOOKS_AT_ONCE = 10
# Between two attempts to take or to release a lock.
WAIT_SECONDS = 0.3


def lock_path(task_id: str, swimlane: str = "") -> str:
    """The znode of a swimlane, or the parent of all locks of a task."""
    directory = f"{ROOT}/task/{task_id}/lock"
    return f"{directory}/{swimlane}" if swimlane else directory


def other_holders(
    client: KazooClient, task_id: str, swimlanes: Collection[str]
) -> dict[str, JsonNode]:
    """The other swimlanes of this id that another process has locked, and their locks. Raises
    PositionUnavailable, PositionError."""
    found = {}
    for swimlane in get_children(client, lock_path(task_id)):
        if swimlane in swimlanes:
            continue
        holder = get_node(client, lock_path(task_id, swimlane))
        # Only a process that works with this ZooKeeper has an ephemeral znode.
        if holder is None or not holder.owner or is_own(client, holder):
            continue
        if not is_gone(holder.fields):
            found[swimlane] = holder
    return found


@dataclass(frozen=True, slots=True)
class LockTimes:
    """`session_seconds`: how long ZooKeeper keeps the locks of a silent process; `lease_seconds`:
    how long a process keeps working while ZooKeeper does not answer. Raises ConfigError where the
    lease does not end at least LEAST_GAP_SECONDS before the session."""

    session_seconds: float = 6.0
    lease_seconds: float = 4.0

    def __post_init__(self) -> None:
        if self.lease_seconds > self.session_seconds - LEAST_GAP_SECONDS:
            raise ConfigError(
                f"zookeeper.leaseSeconds={self.lease_seconds:g} leaves no time to end work before "
                f"ZooKeeper gives its locks away: zookeeper.sessionSeconds={self.session_seconds:g}"
                f" must be {LEAST_GAP_SECONDS:g} or more above it; raise the session or lower the "
                "lease"
            )


DEFAULT_TIMES = LockTimes()


class Stop(Event):
    """Tells work to end. `is_lost`: because its locks may be lost, so it may begin again later."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lost = False
        self._parts: list[Stop] = []

    def part(self) -> Stop:
        """A stop that is set together with this one, but can also be set alone. It replaces the
        previous part."""
        part = Stop()
        # The previous part belongs to work that has ended.
        self._parts = [part]
        # The stop may have been set before this part existed.
        if self.is_set():
            part.set()
        return part

    def set(self) -> None:
        super().set()
        for part in self._parts:
            part.set()

    def lose(self) -> None:
        self.is_lost = True
        self.set()


@contextmanager
def held(
    client: KazooClient,
    task_id: str,
    swimlanes: Sequence[str],
    node_id: str,
    stop: Event,
    on_lost: Callable[[], object],
    times: LockTimes = DEFAULT_TIMES,
) -> Iterator[bool]:
    """Holds the locks of the swimlanes during the block, as the only locks of this process: see
    `Guard`. Yields False if `stop` was set first. Work is not asked to end: `on_lost` ends it once
    the lease is over."""
    with (
        guarded(client, on_lost, times) as guard,
        guard.locks(task_id, swimlanes, node_id) as locks,
    ):
        yield locks.take(stop, None)


@contextmanager
def guarded(
    client: KazooClient, on_lost: Callable[[], object], times: LockTimes = DEFAULT_TIMES
) -> Iterator[Guard]:
    """A guard of all locks that this process takes during the block. Call it on the main thread, so
    that a paused process checks its locks first when it resumes. Raises ConfigError where the
    server keeps sessions for too short a time."""
    # Servers cut what a client asks for to their own limits, so the granted time is compared.
    kept_seconds = session_seconds(client)
    if times.lease_seconds > kept_seconds - LEAST_GAP_SECONDS:
        raise ConfigError(
            f"ZooKeeper keeps a session for {kept_seconds:g} s at most: too short for "
            f"zookeeper.leaseSeconds={times.lease_seconds:g}, which must be {LEAST_GAP_SECONDS:g} "
            "or more below; lower it, or raise maxSessionTimeout at the servers"
        )
    over = Event()
    guard = Guard(client, on_lost, over, times)
    Thread(target=guard.watch, name="lock-guard", daemon=True).start()
    try:
        with _on_resume(guard):
            yield guard
    finally:
        over.set()


@dataclass(frozen=True, eq=False, slots=True)
class _Holding:
    """A lock that protects running work. `session`: the one that took it, None if unknown. `end`:
    asks the work to end; None: it cannot be asked."""

    session: int | None
    end: Stop | None


class Guard:
    """Takes locks in one ZooKeeper session, and proves that it still has them. `locks` may be
    called on any thread.

    `on_lost` is called, on another thread or in a signal handler, when a lock is lost, or may be
    lost before that can be known. It must end all work of the process immediately.
    """

    def __init__(
        self,
        client: KazooClient,
        on_lost: Callable[[], object],
        over: Event,
        times: LockTimes = DEFAULT_TIMES,
    ) -> None:
        self._client, self._on_lost, self._over = client, on_lost, over
        self._lease = _Lease(client, times)
        self._held: dict[str, _Holding] = {}
        # Paths whose locks a block wants, taken or not; a late release must leave these alone.
        self._wanted: set[str] = set()
        # Threads that release locks which could not be released at the end of their block.
        self._leaving: dict[str, Thread] = {}
        self._changing = Lock()

    @contextmanager
    def locks(self, task_id: str, swimlanes: Sequence[str], node_id: str) -> Iterator[Locks]:
        """The locks of the swimlanes, not taken yet; they are released at the end of the block. Not
        for a task whose locks this process already has."""
        paths: dict[str, dict[str, object]] = {}
        # Sorted, so that no two processes each hold one of the locks and wait for the other's.
        for swimlane in sorted(swimlanes):
            fields = {"taskId": task_id, "nodeId": node_id, "swimlaneId": swimlane}
            paths[lock_path(task_id, swimlane)] = {**fields, **identity()}
        with self._changing:
            self._wanted |= paths.keys()
            leaving = [self._leaving.pop(path, None) for path in paths]
        # A thread that still releases a path would release the lock that is taken now.
        for thread in filter(None, leaving):
            thread.join()
        try:
            yield Locks(self, paths)
        finally:
            # First, so that the watch does not take the release for a loss.
            self.rest(paths)
            with self._changing:
                self._wanted -= paths.keys()
            is_silent = False
            for path in paths:
                try:
                    # Waited for once, not for each swimlane: a task can have many.
                    if not is_silent:
                        self._let_go(path)
                        continue
                except PositionUnavailable:
                    is_silent = True
                # The end of the session also releases it, but that may be far away.
                self._start_letting_go(path)

    def take(self, paths: Mapping[str, dict[str, object]], stop: Event, end: Stop | None) -> bool:
        """See `Locks`."""
        for path, fields in paths.items():
            asked = _take(self._client, path, fields, stop)
            # Locks taken so far stay until the block ends, which releases them.
            if asked is None:
                return False
            self._lease.prove(asked)
        with self._changing:
            # Noted with the lock: a later session of this client does not own it.
            session = self._session()
            self._held |= {path: _Holding(session, end) for path in paths}
        return True

    def rest(self, paths: Mapping[str, object]) -> None:
        """See `Locks`."""
        with self._changing:
            self._held = {path: each for path, each in self._held.items() if path not in paths}

    def _let_go(self, path: str) -> None:
        # A path that is wanted again is left alone: its lock may be the new one.
        if path not in self._wanted:
            give_up(self._client, path)

    def _start_letting_go(self, path: str) -> None:
        thread = Thread(target=self._let_go_later, args=(path,), name="lock-drop", daemon=True)
        with self._changing:
            self._leaving[path] = thread
            thread.start()

    def _let_go_later(self, path: str) -> None:
        while path not in self._wanted and not self._over.wait(WAIT_SECONDS):
            with suppress(PositionUnavailable):
                self._let_go(path)
                return

    def look(self) -> None:
        """Ends all work by force if the locks may be lost and it is too late to ask."""
        # Runs in a signal handler too, so it takes no lock and asks ZooKeeper nothing.
        if self._held and self._lease.is_over and self._must_end_by_force():
            self._on_lost()

    def watch(self) -> None:
        """Watches the locks until the guard ends, or the locks are lost."""
        for number in count():
            # Without a lock there is no lease to watch.
            pause = PROOF_SECONDS
            if self._held:
                pause = min(pause, self._lease.left_seconds)
            if self._over.wait(pause):
                return
            held = list(dict(self._held).items())
            if not held:
                continue
            # Any answer proves the session, so locks are checked in turns: a node has hundreds.
            parts = len(held) // LOOKS_AT_ONCE + 1
            looked_at = dict(held[number % parts :: parts])
            # The lease is checked first, as this process may have been paused, and again, as the
            # request may have taken long.
            if self._ends() or self._is_lost(looked_at) or self._ends():
                # The guard may have ended during the request; then there is nothing left to end.
                if not self._over.is_set():
                    self._on_lost()
                return

    def _must_end_by_force(self) -> bool:
        return self._lease.is_spent or not self._is_asked()

    def _ends(self) -> bool:
        """Asks work to end once the lease is over. Returns whether it must be ended by force."""
        if not self._lease.is_over:
            return False
        held = list(self._held.values())
        # A set, because all swimlanes of a task share one stop.
        for end in {holding.end for holding in held}:
            if end is not None and not end.is_lost:
                end.lose()
        # Work that was asked still has until the end of its session less FORCE_SECONDS.
        return bool(held) and self._must_end_by_force()

    def _is_asked(self) -> bool:
        """Whether all work can be asked to end."""
        return all(holding.end for holding in list(self._held.values()))

    def _is_lost(self, held: Mapping[str, _Holding]) -> bool:
        """Whether ZooKeeper says that a lock of running work is lost. Waits for its answers until
        the end of the lease, or, after that, until work must have ended."""
        asked = _Lease.now()
        # No answer proves nothing either way; the lease then runs out on its own.
        try:
            # All requests are sent before the first wait: one round trip, not one each.
            requests = {path: self._client.exists_async(path) for path in held}
            stats = {}
            for path, request in requests.items():
                stats[path] = answer(request, self._lease.left_seconds)
            session = self._session()
            # The connection has ended since the answers: whose the locks are is not known.
            if session is None:
                return False
            for path, stat in stats.items():
                is_ours = stat is not None and stat.ephemeralOwner == session
                # Work under the lock may have ended since the request.
                if not is_ours and self._held.get(path) is held[path]:
                    return True
            # Locks that were not checked in this turn: a new session owns none of the old one's.
            for holding in list(self._held.values()):
                if holding.session not in (None, session):
                    return True
            self._lease.prove(asked)
        except LOST:
            pass
        # Nor does one that nobody expects. Without this watch, nothing would end the work.
        except Exception as error:
            LOG.error("unexpected %s at a look at locks, please report it", type(error).__name__)
        return False

    def _session(self) -> int | None:
        """The id of the client's session; None while it has no connection."""
        # Once, as the connection may end between two looks.
        session = self._client.client_id
        return session[0] if session else None


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of a task's swimlanes, on one thread."""

    _guard: Guard
    _paths: Mapping[str, dict[str, object]]

    def take(self, stop: Event, end: Stop | None) -> bool:
        """Takes the locks, waiting until their holders release them. Returns False if `stop` was
        set first; else work may run under them until `rest`. If ZooKeeper stops answering, `end`
        asks the work to end, which may then take the locks again; None: it cannot be asked."""
        return self._guard.take(self._paths, stop, end)

    def rest(self) -> None:
        """Declares that no work runs under the locks any longer; they are kept."""
        self._guard.rest(self._paths)


class _Lease:
    """How long this process may rely on its locks. The clock also runs while the process is paused
    or the machine sleeps."""

    def __init__(self, client: KazooClient, times: LockTimes) -> None:
        self._client, self._times = client, times
        self._proved = self.now()

    @staticmethod
    def now() -> float:
        # CLOCK_MONOTONIC stands still while the machine sleeps; ZooKeeper's session does not.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def prove(self, asked: float) -> None:
        """Notes that ZooKeeper has answered a request sent at this time."""
        # Of the request, not of the answer: ZooKeeper cannot have heard of this process earlier.
        self._proved = max(self._proved, asked)

    def _left(self) -> tuple[float, float]:
        """Seconds left of the lease, and until work must have ended, by the session time of the
        current server, which may be another one than at the start."""
        kept_seconds = session_seconds(self._client)
        lease_seconds = min(self._times.lease_seconds, kept_seconds - LEAST_GAP_SECONDS)
        passed = self.now() - self._proved
        return lease_seconds - passed, kept_seconds - FORCE_SECONDS - passed

    @property
    def left_seconds(self) -> float:
        """Seconds left of the lease; once it is over, until work must have ended."""
        lease, work = self._left()
        return max(0.0, lease if lease > 0 else work)

    @property
    def is_over(self) -> bool:
        return self._left()[0] <= 0

    @property
    def is_spent(self) -> bool:
        """Whether work must have ended by now."""
        return self._left()[1] <= 0


@contextmanager
def _on_resume(guard: Guard) -> Iterator[None]:
    """During the block, a paused process checks its locks when it resumes, before it does anything
    else on its main thread."""
    if current_thread() is not main_thread():
        yield
        return
    # A stopped process resumes by SIGCONT; the handler runs before other code of the main thread.
    before = signal.signal(signal.SIGCONT, lambda _number, _frame: guard.look())
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)


def _take(client: KazooClient, path: str, fields: dict[str, object], stop: Event) -> float | None:
    """Waits until ZooKeeper grants the lock, and returns when that was requested; None: `stop` was
    set."""
    logged = ""
    while not stop.is_set():
        asked = _Lease.now()
        try:
            holder = take_free(client, path, fields)
            if holder is None:
                return asked
            sentence = f"{path} is held by {described(holder)}; waiting until it is released"
        except PositionUnavailable as error:
            sentence = str(error)
        # Once for each holder or error, not every 0.3 s.
        if sentence != logged:
            LOG.warning("%s", sentence)
            logged = sentence
        stop.wait(WAIT_SECONDS)
    return None


def without_gone(locks: Mapping[str, JsonNode]) -> dict[str, JsonNode]:
    """The locks, by swimlane, that the next process has to wait for."""
    return {swimlane: lock for swimlane, lock in locks.items() if not is_gone(lock.fields)}


def live(locks: Mapping[str, JsonNode]) -> dict[str, JsonNode]:
    """The locks, by swimlane, that sessions hold: beside one of these, a lock of no session is of a
    former swimlane, as of a renamed topic, which the task does without."""
    return {swimlane: lock for swimlane, lock in locks.items() if lock.owner}


def left_lock(task_id: str, locks: Mapping[str, JsonNode]) -> str:
    """A sentence about a lock, by swimlane, that is of no session, so that no command ends it;
    empty where there is none."""
    for swimlane, holder in locks.items():
        if not holder.owner:
            return f"{lock_path(task_id, swimlane)} is held by {described(holder)}"
    return ""


def described(holder: JsonNode) -> str:
    """The process that holds a lock, in words."""
    who = f"process {holder.text('processId') or '?'} on {holder.text('hostName') or '?'}"
    if node_id := holder.text("nodeId"):
        who += f" (node {node_id})"
    if not holder.owner:
        who += (
            ", in a persistent znode, as porter's are: delete it if porter does not run "
            "this task any more"
        )
    return who
