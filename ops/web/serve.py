"""Serves the pages of a node, on a thread of their own."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from cdcbus.ops.web.access.origin import is_loopback
from cdcbus.ops.web.app import make_app
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.oidc.provider import Provider
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.zookeeper.positions import connect

LOG = logging.getLogger(__name__)
END_SECONDS = 3


@contextmanager
def serving(settings: BusSettings, node_id: str) -> Iterator[str | None]:
    """Serves while the block runs; yields the address, as http://HOST:PORT. A port that is in use
    is a warning in the log, and the block runs without pages (None), as the rows matter more.
    Raises ConfigError where http.bind is open to other machines and there is no http.token, or
    where http.closed requires one."""
    bind, token, people = settings.http_bind, settings.http_token, settings.http_people
    oidc = settings.http_oidc
    has_token = token is not None or bool(people) or oidc is not None
    if bind is None:
        yield None
        return
    host, port = bind
    if not is_loopback(host) and not has_token:
        raise ConfigError(
            f"http.bind={host}:{port} is open to other machines; set http.token too, or bind to "
            "127.0.0.1"
        )
    if settings.http_closed and not has_token:
        raise ConfigError(
            "http.closed=true requires a token for every page, but there is none; set http.token"
        )
    # Bound here, as uvicorn would end the process where the port is in use.
    listening = _listen(host, port)
    if listening is None:
        yield None
        return
    # a client of its own, so that pages do not slow down the node
    client = connect(settings.zookeeper, auth=settings.zookeeper_auth)
    # An address of IPv6 stands in brackets, or its port would be a part of it.
    shown_host = f"[{host}]" if ":" in host else host
    address = f"http://{shown_host}:{listening.getsockname()[1]}"
    provider = None if oidc is None else Provider(oidc)
    bus = WebBus(client, settings, node_id, token, host, people=people, provider=provider)
    try:
        bus.ended_sessions.follow(client)
    except BaseException:
        # ZooKeeper may be unreachable: nothing stays open then.
        client.stop()
        client.close()
        listening.close()
        raise
    config = uvicorn.Config(
        make_app(bus),
        # Records go where the node's own go.
        log_config=None,
        access_log=False,
        server_header=False,
        # `access/origin.py` reads what proxies say; uvicorn would replace the client's address.
        proxy_headers=False,
        lifespan="off",
        timeout_graceful_shutdown=END_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="http", daemon=True)
    thread.start()
    LOG.info("node %s serves %s", node_id, address)
    try:
        yield address
    finally:
        # Ends the streams first: a graceful shutdown would wait for them.
        bus.ending.set()
        server.should_exit = True
        thread.join(2 * END_SECONDS)
        client.stop()
        client.close()


def _listen(host: str, port: int) -> socket.socket | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            # A node that starts again need not wait for the connections of its predecessor.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(128)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        LOG.warning(
            "http.bind=%s:%d cannot be bound (%s); this node runs without pages",
            host,
            port,
            error.strerror,
        )
        return None
    return listening
