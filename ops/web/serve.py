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
from cdcbus.tasks.zookeeper.connection import connect

LOG = logging.getLogger(__name__)
END_SECONDS = 3


@contextmanager
def serving(settings: BusSettings, node_id: str) -> Iterator[str | None]:
    """Serves while the block runs; yields the address, as http://HOST:PORT. A port that is in use
    is a warning in the log, and the block runs without pages (None), as the rows matter more.
    Raises ConfigError where http.bind is open to other machines and there is no http.token, or
    where http.closed requires one."""
    # Read before anything is open, as both can be refused.
    people, oidc = settings.http_people, settings.http_oidc
    has_token = settings.http_token is not None or bool(people) or oidc is not None
    if settings.http_bind is None:
        yield None
        return
    host, port = settings.http_bind
    if not has_token:
        _refuse_open(settings, host, port)
    # Bound here, as uvicorn would end the process where the port is in use.
    listening = _listen(host, port)
    if listening is None:
        yield None
        return
    try:
        bus = _open_bus(settings, node_id, host)
    except BaseException:
        listening.close()
        raise
    address = _address(host, listening)
    server = _server(bus)
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
        bus.client.stop()
        bus.client.close()


def _refuse_open(settings: BusSettings, host: str, port: int) -> None:
    """Raises ConfigError where the pages need a token."""
    if not is_loopback(host):
        raise ConfigError(
            f"http.bind={host}:{port} is open to other machines; set http.token too, or bind to "
            "127.0.0.1"
        )
    if settings.http_closed:
        raise ConfigError(
            "http.closed=true requires a token for every page, but there is none; set http.token"
        )


def _open_bus(settings: BusSettings, node_id: str, host: str) -> WebBus:
    """The bus with a client of its own, so that pages do not slow down the node."""
    provider = None
    if settings.http_oidc is not None:
        provider = Provider(settings.http_oidc)
    people = settings.http_people
    client = connect(settings.zookeeper, auth=settings.zookeeper_auth)
    try:
        bus = WebBus(
            client,
            settings,
            node_id,
            settings.http_token,
            host,
            people=people,
            provider=provider,
        )
        bus.ended_sessions.follow(client)
    except BaseException:
        # ZooKeeper may be unreachable: nothing stays open then.
        client.stop()
        client.close()
        raise
    return bus


def _server(bus: WebBus) -> uvicorn.Server:
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
    return uvicorn.Server(config)


def _address(host: str, listening: socket.socket) -> str:
    # An address of IPv6 stands in brackets, or its port would be a part of it.
    if ":" in host:
        host = f"[{host}]"
    _, port, *_ = listening.getsockname()
    return f"http://{host}:{port}"


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
