"""Commands on the open dead letters of a task: choosing, replaying and dropping them. Replays and
drops are recorded in the audit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import Protocol, TypeVar

from kazoo.client import KazooClient

from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.consumer.records.dead_letters import OpenDeadLetter
from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.tasks import TASKS, TaskNodes
from cdcbus.tasks.zookeeper.znode import drop_node, get_node, is_own, now, take_node

LOG = logging.getLogger(__name__)
# Records that an audit entry lists.
NAMED = 20
# Dead letters that a refusal lists.
REFUSED = 3
# Held by a replay, by task: a second click on a page comes before the first one has resolved the
# letters.
_REPLAYING: dict[str, Lock] = {}
# How long a replay that is done waits for ZooKeeper to let go of its znode. The choice of a new
# leader takes less.
LET_GO_SECONDS = 15.0
PAUSE_SECONDS = 0.5


class Named(Protocol):
    """The name of a dead letter."""

    @property
    def record(self) -> str: ...


class Letter(Protocol):
    @property
    def dead_letter(self) -> Named: ...


L = TypeVar("L", bound=Letter)


class DeadLetterQueue(Protocol[L]):
    """The open dead letters of a task, for both kinds of task."""

    def dead_letters(self) -> list[L]: ...

    def drop(self, dead_letters: list[L]) -> None: ...


def digest_of(dead_letters: Iterable[Letter]) -> str:
    """A short text that is another one for other dead letters, in whatever order they are."""
    records = sorted(each.dead_letter.record for each in dead_letters)
    return sha256("\n".join(records).encode()).hexdigest()


def chosen_letters(
    topic: DeadLetterQueue[L], records: Collection[str] | None, seen: str | None = None
) -> list[L]:
    """The open dead letters of these records, in order; None: all. `seen`: the digest of all that
    were open when they were chosen. Raises ConfigError for a record without an open one, and if all
    are others by now than those seen; and BusError."""
    dead_letters = topic.dead_letters()
    if records is None:
        if seen not in (None, digest_of(dead_letters)):
            raise ConfigError(
                f"the open dead letters are others than those shown, {len(dead_letters)} by now, "
                "so none was touched; look at them again"
            )
        return dead_letters
    unknown = set(records) - {each.dead_letter.record for each in dead_letters}
    if unknown:
        raise ConfigError(
            f"no open dead letter: {', '.join(sorted(unknown))}; `cdcbus dlq list` prints the open "
            "ones"
        )
    return [each for each in dead_letters if each.dead_letter.record in records]


def replay_letters(
    client: KazooClient,
    topic: DeadLetterTopic,
    task_id: str,
    dead_letters: list[OpenDeadLetter],
    by: str,
    force: bool = False,
    report: Callable[[str], None] = LOG.info,
) -> None:
    """Appends the original records to their partitions, and marks the dead letters resolved.
    Raises ConfigError, with nothing done, if one of them is no longer open, and if a row would go
    back in time, unless `force` is set."""
    if dead_letters:
        with (
            audited(client, by, _what("dlq replay", dead_letters), f"task {task_id}"),
            _alone(client, task_id, by),
        ):
            # Inside the audit, so that a refused replay is recorded as well.
            _refuse_resolved(topic, dead_letters)
            if not force:
                _refuse_outdated(topic.outdated(dead_letters, report))
                # Again, as that may take long.
                _refuse_resolved(topic, dead_letters)
            topic.replay(dead_letters)
        _lower_count(client, task_id, len(dead_letters))


@contextmanager
def _alone(client: KazooClient, task_id: str, by: str) -> Iterator[None]:
    """Keeps others from replaying the task's letters, for as long as the block runs, or until this
    process's session has ended. Raises ConfigError while one does."""
    path = f"{TASKS}/{task_id}/replaying"
    busy = ConfigError(
        f"dead letters of task {task_id} are being replayed by somebody else, as {path} says, "
        "so none was replayed; look at the open ones again when that is done"
    )
    lock = _REPLAYING.setdefault(task_id, Lock())
    if not lock.acquire(blocking=False):
        raise busy
    try:
        is_taken = take_node(client, path, {"taskId": task_id, "by": by, "at": now()})
        # Under the lock, an own one is left of a replay that could not let go of it.
        if not is_taken and not is_own(client, get_node(client, path)):
            raise busy
        yield
    finally:
        # Also after a failure to take it, as only the answer may have been lost.
        _let_go(client, path)
        lock.release()


def _let_go(client: KazooClient, path: str) -> None:
    """Deletes the znode if it is this session's. What was replayed stays so if ZooKeeper does not
    answer; the znode then ends with the session, or is taken by its next replay."""
    deadline = time.monotonic() + LET_GO_SECONDS
    while True:
        try:
            # With the session the znode is lost, and may be another process's by now.
            if is_own(client, get_node(client, path)):
                drop_node(client, path)
            return
        except PositionError as error:
            if not is_silence(error) or time.monotonic() > deadline:
                LOG.warning("%s may keep others from replays for a while: %s", path, error)
                return
        time.sleep(PAUSE_SECONDS)


def _refuse_resolved(topic: DeadLetterTopic, dead_letters: Iterable[OpenDeadLetter]) -> None:
    """Refuses letters that somebody has replayed or dropped since they were chosen: a record that
    is replayed twice can become two rows."""
    still_open = {each.dead_letter.record for each in topic.dead_letters()}
    resolved = sorted({each.dead_letter.record for each in dead_letters} - still_open)
    if resolved:
        named = f"{', '.join(resolved[:REFUSED])}{_more(len(resolved), REFUSED)}"
        are = "is" if len(resolved) == 1 else "are"
        raise ConfigError(
            f"{named} {are} no longer open, as somebody has replayed or dropped them meanwhile, so "
            "nothing was replayed; look at the open ones again"
        )


def _refuse_outdated(outdated: dict[str, str]) -> None:
    if not outdated:
        return
    named = [f"{record} ({reason})" for record, reason in islice(outdated.items(), REFUSED)]
    more = _more(len(outdated), REFUSED)
    raise ConfigError(
        "a replay would take rows back in time, or repeat them, so nothing was replayed: "
        f"{', '.join(named)}{more}; drop these dead letters, or replay them "
        "with --force if the older state is wanted"
    )


def drop_letters(
    client: KazooClient, topic: DeadLetterQueue[L], task_id: str, dead_letters: list[L], by: str
) -> None:
    """Marks the dead letters resolved; their changes are not applied."""
    if dead_letters:
        with audited(client, by, _what("dlq drop", dead_letters), f"task {task_id}"):
            topic.drop(dead_letters)
        _lower_count(client, task_id, len(dead_letters))


def _lower_count(client: KazooClient, task_id: str, dead_letters: int) -> None:
    """Lowers the count that a node has stored, to show the effect immediately; the node counts
    again later."""
    nodes = TaskNodes(client)
    # The letters are resolved, so a ZooKeeper that is away now is no reason to report a failure.
    with suppress(PositionError):
        # A node may count at the same time, so the result is cut at 0.
        if known := nodes.open_dead_letters(task_id):
            nodes.put_open_dead_letters(task_id, max(0, known - dead_letters))


def _what(command: str, dead_letters: Sequence[Letter]) -> str:
    """The command and its records, NAMED at most."""
    named = [each.dead_letter.record for each in dead_letters[:NAMED]]
    return f"{command} {' '.join(named)}{_more(len(dead_letters), NAMED)}"


def _more(count: int, listed: int) -> str:
    """The end of a list of the first of `count` elements; empty where it has all of them."""
    if count <= listed:
        return ""
    return f" and {count - listed} more"
