"""Connections to ZooKeeper: addresses, the session's time, and the errors of a lost one."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    OperationTimeoutError,
    QuotaExceededError,
    RequestTimeoutError,
    SessionClosedRequireSaslError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    UnknownSessionError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts
from kazoo.protocol.paths import normpath
from kazoo.retry import ForceRetryError
from kazoo.security import CREATOR_ALL_ACL

from cdcbus.plugins.errors import (
    CdcError,
    ConfigError,
    PositionError,
    PositionUnavailable,
    QuotaUsedUp,
)
from cdcbus.tasks.config.keys.bus import DEFAULT_ZOOKEEPER

LOG: Final = logging.getLogger(__name__)
ROOT = "/datas"
# Errors that say nothing about the request itself: it may or may not have reached the server.
LOST = (
    ConnectionLoss,
    ConnectionClosedError,
    SessionExpiredError,
    SessionMovedError,
    UnknownSessionError,
    OperationTimeoutError,
    RequestTimeoutError,
    ThrottledOpError,
    KazooTimeoutError,
)
# Errors of a request that ZooKeeper refuses, whatever it is about.
REFUSED = (
    NoAuthError,
    AuthFailedError,
    InvalidACLError,
    SessionClosedRequireSaslError,
    QuotaExceededError,
)
# A server whose jute.maxbuffer is not raised ends the connection at a request of this size, as if
# it were away.
REQUEST_BYTES = 0xFFFFF
# Between two attempts of a call that waits for the connection.
RETRY_SECONDS = 0.1
# kazoo's own pauses grow to more than a minute, and would miss a server that is back.
COME_BACK = {"max_tries": -1, "max_delay": 2.0}
# Without a limit, a request sent while disconnected would wait forever.
ASK_SECONDS = 5.0


def connect(
    connection_string: str,
    timeout_seconds: float = 4.0,
    auth: str | None = None,
    session_seconds: float = 10.0,
) -> KazooClient:
    """A started client; creates a missing chroot. `auth` is `user:password` (digest), the user who
    then owns new znodes. `session_seconds`: how long ZooKeeper keeps the ephemeral znodes of a
    silent client.

    Raises ConfigError for a text that is not an address, PositionUnavailable when nothing answers
    in time, PositionError when ZooKeeper refuses the user. End it with `stop` and `close`, or use
    `connected`.
    """
    try:
        hosts, chroot = collect_hosts(connection_string)
        for host, _ in hosts:
            # Raises a ValueError where a part of the name is empty or too long.
            host.encode("idna")
        normpath(chroot or "/")
    except ValueError as error:
        raise ConfigError(
            f"not a ZooKeeper address: {connection_string!r}; expected "
            "host:port[,host:port][/chroot]"
        ) from error
    # With a user, new znodes belong to this user alone; without one, ZooKeeper's open ACL applies.
    digest = {}
    if auth:
        digest = {"auth_data": [("digest", auth)], "default_acl": CREATOR_ALL_ACL}
    client = KazooClient(
        # Without the chroot, which `_start` may have to create first.
        connection_string.partition("/")[0],
        timeout=session_seconds,
        connection_retry=COME_BACK,
        **digest,
    )
    # Before the start, as the first connection already negotiates the time.
    _note_session_time(client, session_seconds)
    _accept_older(client)
    _keep_connecting(client)
    try:
        _start(client, chroot, timeout_seconds)
    except LOST as error:
        sentence = f"ZooKeeper at {connection_string} did not answer within {timeout_seconds:g} s"
        remedy = "check the address and that the server runs"
        if connection_string == DEFAULT_ZOOKEEPER:
            remedy = (
                "check that the server runs, or name another address with --zookeeper, "
                "CDCBUS_ZOOKEEPER or `zookeeper` in cdcbus.properties"
            )
        raise PositionUnavailable(f"{sentence}; {remedy}") from error
    except SessionClosedRequireSaslError as error:
        raise unanswered(error, connection_string) from error
    except (AuthFailedError, NoAuthError) as error:
        sentence = f"ZooKeeper at {connection_string} refuses this user"
        raise PositionError(f"{sentence}; check user, password and the znodes' ACL") from error
    return client


@contextmanager
def connected(
    connection_string: str,
    timeout_seconds: float = 4.0,
    auth: str | None = None,
    session_seconds: float = 10.0,
) -> Iterator[KazooClient]:
    """A client for the duration of a block; arguments and errors are those of `connect`."""
    client = connect(connection_string, timeout_seconds, auth, session_seconds)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def unanswered(error: BaseException, path: str) -> PositionError:
    """The error for a request about `path` that ended with one of LOST or REFUSED."""
    match error:
        case NoAuthError():
            return PositionError(
                f"ZooKeeper does not let this user use {path}; check zookeeper.auth and the "
                "znode's ACL"
            )
        case QuotaExceededError():
            return QuotaUsedUp(
                f"ZooKeeper does not write {path}, as a quota of it or of a znode above it is used "
                "up; raise it with zkCli: listquota, setquota"
            )
        case AuthFailedError() | InvalidACLError() | SessionClosedRequireSaslError():
            return PositionError(
                f"ZooKeeper does not serve {path} to a client without a login that it takes "
                f"({type(error).__name__}); set zookeeper.auth, and let the servers take digest "
                "logins"
            )
    return PositionUnavailable(f"ZooKeeper does not answer for {path}; check that the server runs")


def is_silence(error: CdcError) -> bool:
    """Whether ZooKeeper does not answer at all, and not only refuses one path."""
    return isinstance(error, PositionUnavailable) and not isinstance(error, QuotaUsedUp)


def session_seconds(client: KazooClient) -> float:
    """How long the server keeps this client's session while the client is silent; servers limit
    what a client asks for."""
    kept_seconds: float = client.cdcbus_kept_seconds
    return kept_seconds


def _note_session_time(client: KazooClient, asked_seconds: float) -> None:
    """Notes at each connection how long the server keeps the session."""
    # kazoo does not expose it; its read timeout is two thirds of it.
    connect = client._connection._connect
    client.cdcbus_kept_seconds = asked_seconds

    def connect_and_note(*server: Any) -> Any:
        read_ms, connect_ms = connect(*server)
        client.cdcbus_kept_seconds = read_ms * 1.5 / 1000
        return read_ms, connect_ms

    client._connection._connect = connect_and_note


def _accept_older(client: KazooClient) -> None:
    """Lets the client connect to a ZooKeeper that was restored from a backup, or to another one
    behind its address. Servers refuse a client that has seen later changes than they have, which
    would last until they have as many."""
    connect = client._connection._connect
    away_since: float | None = None
    seen = 0

    def connect_or_forget(*server: Any) -> Any:
        nonlocal away_since, seen
        now = time.monotonic()
        if away_since is None:
            away_since = now
            seen = client.last_zxid
        # Not before the session can be over: the server of a healthy ensemble that answers first
        # may be behind the others.
        has_forgotten = now - away_since > session_seconds(client)
        if has_forgotten:
            client.last_zxid = 0
        times = connect(*server)
        away_since = None
        if has_forgotten:
            client.handler.spawn(_say_if_older, client, seen)
        return times

    client._connection._connect = connect_or_forget


def _say_if_older(client: KazooClient, seen: int) -> None:
    """Warns if the server has fewer changes than were seen before."""
    # Also where the session is over, or the server is away again: the next connection asks anew.
    with suppress(KazooException, KazooTimeoutError):
        client.exists_async("/").get(timeout=ASK_SECONDS)
        if client.last_zxid < seen:
            LOG.warning(
                "ZooKeeper has fewer changes than this process has seen (%#x, %#x): it was "
                "restored from a backup, or another one is behind its address. Check the positions "
                "and the tasks that it holds: cdcbus task list, cdcbus offset show ID",
                client.last_zxid,
                seen,
            )


def _keep_connecting(client: KazooClient) -> None:
    """Lets the client connect again whatever an attempt raises."""
    # kazoo's thread ends at an error that it does not expect, as a look-up of the address raises
    # in a process that may open no more files: the client then stays closed.
    connect = client._connection._connect_loop

    def connect_or_retry(retry: Any) -> Any:
        try:
            return connect(retry)
        except ForceRetryError:
            raise
        except Exception as error:
            LOG.warning("the connection to ZooKeeper failed, and is made again: %r", error)
            raise ForceRetryError(str(error)) from error

    client._connection._connect_loop = connect_or_retry


def _start(client: KazooClient, chroot: str | None, timeout_seconds: float) -> None:
    try:
        client.start(timeout_seconds)
        if chroot:
            client.ensure_path_async(chroot).get(timeout=timeout_seconds)
            client.chroot = chroot
    # Also after Ctrl-C, as kazoo's threads would keep the process alive.
    except BaseException:
        client.stop()
        client.close()
        raise
