"""Limits of HTTP requests to other servers: no redirects, no endless answers."""

from __future__ import annotations

import time
from http.client import HTTPResponse
from typing import Any, Final
from urllib.request import HTTPRedirectHandler

PART_BYTES: Final = 1 << 16


class NoRedirects(HTTPRedirectHandler):
    """Follows none: a request can hold a secret, which is for the address in the settings only."""

    def redirect_request(self, *_: Any) -> None:
        return None


def read_within(answer: HTTPResponse, deadline: float, most_bytes: int) -> bytes:
    """The whole answer. `deadline`: by the monotonic clock. Raises TimeoutError for an answer that
    trickles, ValueError for one that is larger."""
    body = bytearray()
    # `read1` returns what has arrived, so that the deadline is checked in between.
    while part := answer.read1(PART_BYTES):
        body += part
        if len(body) > most_bytes:
            raise ValueError(f"its answer has more than {most_bytes >> 20} MB")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body)
