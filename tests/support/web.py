"""A node's pages without the node: served for real, asked by a real client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from cdcbus.ops.web.serve import serving
from cdcbus.tasks.control.bus_settings import read_bus_settings

TOKEN = "a-token-of-tests-0123"


@contextmanager
def pages(
    zookeeper: str,
    token: str = TOKEN,
    node_id: str = "n1",
    bind: str = "127.0.0.1:0",
    **environ: str,
) -> Iterator[httpx.Client]:
    """A client of the pages of a bus; `client.base_url` is their address. It is not logged in, and
    does not follow redirects."""
    options = {"zookeeper": zookeeper, "http.bind": bind} | ({"http.token": token} if token else {})
    with serving(read_bus_settings(options, None, environ), node_id) as address:
        assert address is not None
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            yield client


BEARER = {"Authorization": f"Bearer {TOKEN}"}
