"""Answers of other servers that have no end."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from urllib.request import build_opener

import pytest

from cdcbus.ops.web.outgoing.bounded import NoRedirects, read_within


@contextmanager
def trickling(pause_seconds: float) -> Iterator[str]:
    """The address of a server that sends a byte at a time, for ever."""
    over = Event()

    class Trickle(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            while not over.wait(pause_seconds):
                self.wfile.write(b"1")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Trickle) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            over.set()
            thread.join()


def test_one_that_trickles_is_given_up_at_its_deadline() -> None:
    with (
        trickling(0.02) as url,
        build_opener(NoRedirects).open(url, timeout=60) as answer,
        pytest.raises(TimeoutError),
    ):
        read_within(answer, time.monotonic() + 0.2, 1 << 20)


def test_one_that_is_larger_is_given_up() -> None:
    with (
        trickling(0.001) as url,
        build_opener(NoRedirects).open(url, timeout=60) as answer,
        pytest.raises(ValueError, match="more than 0 MB"),
    ):
        read_within(answer, time.monotonic() + 60, 3)
