"""Where a request comes from: this machine, or perhaps elsewhere.

A proxy on this machine asks on loopback, as local clients do, and may name this machine as the
host, whatever it was asked for. So one request that shows a proxy ends the access without a token
for all: the next one through it may show nothing.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

LOG = logging.getLogger(__name__)
# Headers that proxies add, besides those that begin with `x-forwarded`.
PASSED_ON = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-host",
        "x-envoy-external-address",
        "cf-connecting-ip",
        "true-client-ip",
    }
)


class Entrance:
    """What a node knows about the ways to its pages. `is_loopback`: it listens on loopback
    only."""

    def __init__(self, is_loopback: bool, is_closed: bool) -> None:
        self._is_open = is_loopback and not is_closed

    def is_here(self, connection: HTTPConnection) -> bool:
        """Whether a request comes from this machine: it arrived on loopback, and neither it nor any
        before it shows another way in."""
        if self._is_open and (sign := way_in(connection)):
            self._is_open = False
            LOG.warning(
                "other machines can reach the pages of this node (a request %s): until it "
                "restarts, each page needs a token; http.closed=true requires one from the start",
                sign,
            )
        return self._is_open


def way_in(connection: HTTPConnection) -> str:
    """The sign that a request on loopback comes from elsewhere; empty without one."""
    headers = connection.headers
    for name in headers:
        if name in PASSED_ON or name.startswith("x-forwarded"):
            return f"with the header {name}"
    if not is_loopback(host_name(headers.get("host", ""))):
        return "for another host"
    # nginx asks so by default, and no browser does.
    if connection.scope.get("http_version") == "1.0":
        return "by HTTP/1.0"
    # A browser says so, and no page can: then the page's address is that of a proxy.
    if headers.get("sec-fetch-site") == "same-origin":
        page = headers.get("referer", "")
        if page and not is_loopback(host_name(page.partition("//")[2])):
            return "from a page at another address"
    return ""


def client_of(connection: HTTPConnection) -> str:
    """The client that asks: an address; for IPv6 the network of one site. What the nearest proxy
    says counts if it asks from this machine."""
    peer = connection.client.host if connection.client else ""
    if is_loopback(peer):
        headers = connection.headers
        # The nearest proxy has added the last one; what precedes it can be the client's invention.
        said = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        peer = said or headers.get("x-real-ip", "") or peer
    try:
        address = ip_address(peer)
    except ValueError:
        return "unknown"
    # A site has all addresses of its IPv6 network, so each of them would be a new client.
    if address.version == 6:
        return str(ip_network((int(address), 64), False))
    return str(address)


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own, without asking a name server."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_tls(connection: HTTPConnection) -> bool:
    """Whether the browser speaks TLS with us, or with a proxy before us."""
    headers = connection.headers
    return (
        connection.url.scheme == "https"
        or headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower() == "https"
        or "proto=https" in headers.get("forwarded", "").lower()
        # The browser itself says so, if no proxy does.
        or headers.get("origin", "").lower().startswith("https://")
    )


def host_name(host: str) -> str:
    """The name in `host:port/path`; empty for another text."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
