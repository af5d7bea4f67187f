"""The right to run a swimlane: one ephemeral ZooKeeper node, `/datas/task/<id>/lock/<swimlane>`,
held by the process that does the work.

ZooKeeper gives the lock away a session time after it last heard of its holder. The holder proves
all the time that ZooKeeper still knows it. A lease after the last proof its work is asked to end;
it goes on in the same process as soon as ZooKeeper says again that the lock is its own. What still
works shortly before the session may be over is ended by force, so before anybody else can get the
lock: also when the holder was paused meanwhile, as by SIGSTOP or a sleeping machine, in which case
the first thing that it does is to see that its time is over.

    last proof ... lease: work is asked to end ... FORCE_SECONDS before the session's end: by force
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from threading import Event, Lock, Thread, current_thread, main_thread

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoNodeError

from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.tasks.process_identity import identity, is_gone
from cdcbus.tasks.zookeeper.positions import LOST, ROOT, session_seconds
from cdcbus.tasks.zookeeper.znode import JsonNode, answer, drop_node, get_node, is_own, take_node

LOG = logging.getLogger(__name__)
LEAST_GAP_SECONDS = 1.0  # between the end of a lease and that of the session
FORCE_SECONDS = 0.5  # to end work by force, on a busy machine
PROOF_SECONDS = 0.5
LOOKS_AT_ONCE = 10
WAIT_SECONDS = 0.3


def lock_path(task_id: str, swimlane: str = "") -> str:
    """The node of a swimlane, or the directory of all of a task's."""
    return f"{ROOT}/task/{task_id}/lock" + (f"/{swimlane}" if swimlane else "")


@dataclass(frozen=True, slots=True)
class LockTimes:
    """`session_seconds`: how long ZooKeeper keeps the locks of a process that it no longer hears
    of; `lease_seconds`: how long that process works on while ZooKeeper does not answer. Raises
    ConfigError where the lease does not end at least LEAST_GAP_SECONDS before the session."""

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
    """Says that work is to end. `is_lost`: as its locks may be lost, so that it may begin anew."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lost = False
        self._parts: list[Stop] = []

    def part(self) -> Stop:
        """One that is set with this one, and may be set alone. The one before it counts no
        longer."""
        part = Stop()
        self._parts = [part]
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
    """Holds the locks of the swimlanes during the block, as the only ones of this process: see
    `Guard`. Work is not asked to end: it ends by `on_lost`, once the lease is over."""
    with (
        guarded(client, on_lost, times) as guard,
        guard.locks(task_id, swimlanes, node_id) as locks,
    ):
        yield locks.take(stop, None)


@contextmanager
def guarded(
    client: KazooClient, on_lost: Callable[[], object], times: LockTimes = DEFAULT_TIMES
) -> Iterator[Guard]:
    """A guard of all locks that this process takes during the block. To be called on the main
    thread, so that a process that was paused looks at its locks before all else. Raises
    ConfigError where the server keeps sessions for too short a time."""
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
    """A lock that work is done under. `session`: it was taken by, None where that is not known;
    `end`: asks the work to end, where there is a way to."""

    session: int | None
    end: Stop | None


class Guard:
    """Takes locks by one ZooKeeper session, and proves that it still has them. `locks` may be
    called on any thread.

    `on_lost` is called on another thread, or a signal handler, when a lock is lost, or may be
    before it can be known: whoever is called must end all work of the process at once.
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
        self._wanted: set[str] = set()
        self._leaving: dict[str, Thread] = {}
        self._changing = Lock()

    @contextmanager
    def locks(self, task_id: str, swimlanes: Sequence[str], node_id: str) -> Iterator[Locks]:
        """The locks of the swimlanes, not taken yet; at the block's end they are let go. Not for a
        task whose locks this process has already."""
        paths: dict[str, dict[str, object]] = {}
        for swimlane in sorted(swimlanes):
            fields = {"taskId": task_id, "nodeId": node_id, "swimlaneId": swimlane}
            paths[lock_path(task_id, swimlane)] = {**fields, **identity()}
        with self._changing:
            self._wanted |= paths.keys()
            leaving = [self._leaving.pop(path) for path in paths if path in self._leaving]
        # Waited for: a thread that still lets go of a path would let go of what is taken now.
        for thread in leaving:
            thread.join()
        try:
            yield Locks(self, paths)
        finally:
            self.rest(paths)
            with self._changing:
                self._wanted -= paths.keys()
            for path in paths:
                try:
                    self._let_go(path)
                except PositionUnavailable:
                    # The session's end lets go of it too, but that may be far away.
                    self._start_letting_go(path)

    def take(self, paths: Mapping[str, dict[str, object]], stop: Event, end: Stop | None) -> bool:
        """See `Locks`."""
        for path, fields in paths.items():
            asked = _take(self._client, path, fields, stop)
            if asked is None:
                return False
            self._lease.prove(asked)
        with self._changing:
            session = self._session()
            self._held |= {path: _Holding(session, end) for path in paths}
        return True

    def rest(self, paths: Mapping[str, object]) -> None:
        """See `Locks`."""
        with self._changing:
            self._held = {path: each for path, each in self._held.items() if path not in paths}

    def _let_go(self, path: str) -> None:
        if path not in self._wanted and is_own(self._client, get_node(self._client, path)):
            drop_node(self._client, path)

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
        """Ends all work by force, where the locks may be gone and it cannot be asked any more."""
        if self._held and self._lease.is_over and self._must_end_by_force():
            self._on_lost()

    def watch(self) -> None:
        """Looks until all is over, or the locks are lost."""
        for number in count():
            # Without a lock there is no lease to watch.
            left = self._lease.left_seconds if self._held else PROOF_SECONDS
            if self._over.wait(min(PROOF_SECONDS, left)):
                return
            held = list(dict(self._held).items())
            if not held:
                continue
            # Any answer proves the session, so each lock is looked at in its turn: a node has
            # hundreds.
            parts = len(held) // LOOKS_AT_ONCE + 1
            looked_at = dict(held[number % parts :: parts])
            # The lease is looked at first, as this process may have been paused; and again, as the
            # question may have taken long.
            if self._ends() or self._is_lost(looked_at) or self._ends():
                if not self._over.is_set():
                    self._on_lost()
                return

    def _must_end_by_force(self) -> bool:
        return self._lease.is_spent or not self._is_asked()

    def _ends(self) -> bool:
        """Asks work to end, once the lease is over; whether it has to be ended by force."""
        if not self._lease.is_over:
            return False
        held = list(self._held.values())
        for end in {holding.end for holding in held}:
            if end is not None and not end.is_lost:
                end.lose()
        return bool(held) and self._must_end_by_force()

    def _is_asked(self) -> bool:
        """Whether all work can be asked to end."""
        return all(holding.end for holding in list(self._held.values()))

    def _is_lost(self, held: Mapping[str, _Holding]) -> bool:
        """Whether ZooKeeper says so of a lock that is still worked under. It is waited for until
        the lease, or what is left behind it, is over."""
        asked = _Lease.now()
        with suppress(*LOST):
            # All are asked before the first answer is waited for: one round trip, not one each.
            requests = {path: self._client.exists_async(path) for path in held}
            stats = {}
            for path, request in requests.items():
                stats[path] = answer(request, self._lease.left_seconds)
            session = self._session()
            for path, stat in stats.items():
                is_ours = stat is not None and session and stat.ephemeralOwner == session
                # Work under the lock may have ended since the question.
                if not is_ours and self._held.get(path) is held[path]:
                    return True
            for holding in list(self._held.values()):
                if holding.session not in (None, session):
                    return True
            self._lease.prove(asked)
        return False

    def _session(self) -> int | None:
        """The number of the client's session; None while it has no connection."""
        return self._client.client_id[0] if self._client.client_id else None


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of a task's swimlanes, on one thread."""

    _guard: Guard
    _paths: Mapping[str, dict[str, object]]

    def take(self, stop: Event, end: Stop | None) -> bool:
        """Waits until whoever has one lets it go, or `stop` is set: then it gives False. Else work
        may be done under them until `rest`. Where ZooKeeper does not answer, it is asked to end by
        `end`, and may take the locks again afterwards; None: it cannot be asked."""
        return self._guard.take(self._paths, stop, end)

    def rest(self) -> None:
        """No work is done under them any more; they are kept."""
        self._guard.rest(self._paths)


class _Lease:
    """How long this process may take its locks for granted. Time goes on while it is paused, and
    while the machine sleeps."""

    def __init__(self, client: KazooClient, times: LockTimes) -> None:
        self._client, self._times = client, times
        self._proved = self.now()

    @staticmethod
    def now() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def prove(self, asked: float) -> None:
        """ZooKeeper has answered what was asked at this time."""
        self._proved = max(self._proved, asked)

    def _left(self) -> tuple[float, float]:
        """Seconds of the lease, and until work must have ended: by what the server says now, which
        may be another one than at the start."""
        kept_seconds = session_seconds(self._client)
        lease_seconds = min(self._times.lease_seconds, kept_seconds - LEAST_GAP_SECONDS)
        passed = self.now() - self._proved
        return lease_seconds - passed, kept_seconds - FORCE_SECONDS - passed

    @property
    def left_seconds(self) -> float:
        """Of the lease; once it is over, until work must have ended."""
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


def _take(client: KazooClient, path: str, fields: dict[str, object], stop: Event) -> float | None:
    """Waits until ZooKeeper gives the lock, and gives when it was asked for that; None: `stop` was
    set."""
    logged = ""
    while not stop.is_set():
        asked = _Lease.now()
        try:
            if take_node(client, path, fields):
                return asked
            holder = get_node(client, path)
            # The answer to a request before may have got lost.
            if is_own(client, holder):
                return asked
            if holder is not None and is_gone(holder.fields):
                _delete(client, path, holder)
                continue
            sentence = ""
            if holder is not None:
                sentence = f"{path} is held by {_described(holder)}; waiting until it lets go"
        except PositionUnavailable as error:
            sentence = str(error)
        if sentence and sentence != logged:
            LOG.warning("%s", sentence)
            logged = sentence
        stop.wait(WAIT_SECONDS)
    return None


def _delete(client: KazooClient, path: str, holder: JsonNode) -> None:
    """Of a holder that has ended, whose session would keep it for some seconds more."""
    with suppress(NoNodeError, BadVersionError, *LOST):
        answer(client.delete_async(path, holder.version))


def _described(holder: JsonNode) -> str:
    who = f"process {holder.text('processId') or '?'} on {holder.text('hostName') or '?'}"
    if node_id := holder.text("nodeId"):
        who += f" (node {node_id})"
    if not holder.owner:
        who += (
            ", in a node that stays for ever, as porter's do: delete it if porter does not run "
            "this task any more"
        )
    return who
