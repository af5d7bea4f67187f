"""Sessions of people: a cookie that the node's token has signed, until it ends or its person logs
out.

Any node with the same token accepts a cookie, so that a proxy can ask any of them. A session that
was logged out is kept in ZooKeeper, `/datas/session/<end>-<id>`, until it would have ended; nodes
learn of it immediately.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.znode import answer, drop_node, get_children, reported

SESSIONS = f"{ROOT}/session"
SESSION_SECONDS = 12 * 3600


@dataclass(frozen=True, slots=True)
class Session:
    """A person's session; `key` is its end in seconds since 1970 and an id."""

    name: str
    key: str

    @property
    def end(self) -> int:
        return int(self.key.partition("-")[0])

    def cookie(self, token: str) -> str:
        """The signed text that the browser keeps."""
        signed = f"{self.name}.{self.key}"
        return f"{signed}.{_signature(token, signed)}"


def new_session(name: str, now: float) -> Session:
    return Session(name, f"{int(now) + SESSION_SECONDS}-{secrets.token_hex(16)}")


def read_cookie(token: str, cookie: str) -> Session | None:
    """The session of a cookie that this token has signed, and that has not ended; else None."""
    signed, _, signature = cookie.rpartition(".")
    # In constant time; as bytes, because texts that are not ASCII would raise an error.
    if not hmac.compare_digest(signature.encode(), _signature(token, signed).encode()):
        return None
    # From the right: a name may hold full stops, a key holds none.
    name, _, key = signed.rpartition(".")
    session = Session(name, key)
    if time.time() >= session.end:
        return None
    return session


class EndedSessions:
    """The sessions that were logged out, on this node or another."""

    def __init__(self) -> None:
        self._here: set[str] = set()
        self._anywhere: frozenset[str] = frozenset()

    def __contains__(self, session: Session) -> bool:
        return session.key in self._here or session.key in self._anywhere

    def follow(self, client: KazooClient) -> None:
        """Learns of other nodes' sessions from now on. Raises PositionUnavailable."""
        # kazoo's watch would end for ever at a folder that does not exist.
        with reported(SESSIONS):
            answer(client.ensure_path_async(SESSIONS))

        @client.ChildrenWatch(SESSIONS)  # type: ignore[untyped-decorator]
        def learn(keys: list[str]) -> None:
            self._anywhere = frozenset(keys)

    def end(self, client: KazooClient, session: Session) -> None:
        """Ends a session here immediately, then on all nodes; forgets those that would have ended
        by now. Raises PositionUnavailable where the other nodes do not learn of it."""
        self._here = {key for key in self._here if not _is_over(key)} | {session.key}
        with reported(SESSIONS):
            try:
                answer(client.create_async(f"{SESSIONS}/{session.key}", b"", makepath=True))
            except NodeExistsError:
                # The person has logged out in another window as well.
                return
        for key in get_children(client, SESSIONS):
            if _is_over(key):
                drop_node(client, f"{SESSIONS}/{key}")


def _is_over(key: str) -> bool:
    end = key.partition("-")[0]
    return end.isdigit() and int(end) < time.time()


def _signature(token: str, signed: str) -> str:
    # The words keep a text that the same key signs for another purpose from being a session.
    return hmac.new(token.encode(), f"cdcbus session {signed}".encode(), hashlib.sha256).hexdigest()
