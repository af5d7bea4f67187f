"""A TCP connection that is as slow as a test needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR, create_connection, create_server, socket
from threading import Thread

READ_BYTES = 65_536


@dataclass(slots=True)
class SlowLink:
    """Listens on a port of this machine, and forwards everything. `bytes_per_second`: what one
    connection carries each way, at most; 0 for no limit; can be changed at any time."""

    port: int
    bytes_per_second: float = 0

    _ends: list[socket] = field(default_factory=list)
    _threads: list[Thread] = field(default_factory=list)

    def _start(self, run: Callable[..., None], *args: object) -> None:
        thread = Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _close(self) -> None:
        """Closes all connections, and waits for the threads that forward between them."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _pass_on(self, source: socket, sink: socket) -> None:
        with suppress(OSError):
            while data := source.recv(READ_BYTES):
                sink.sendall(data)
                if self.bytes_per_second:
                    time.sleep(len(data) / self.bytes_per_second)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(SHUT_RDWR)

    def _serve(self, host: str, port: int) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._ends[0].accept()
                self._ends.append(client)
                server = create_connection((host, port))
                self._ends.append(server)
                self._start(self._pass_on, client, server)
                self._start(self._pass_on, server, client)


@contextmanager
def slow_link(host: str, port: int, bytes_per_second: float) -> Iterator[SlowLink]:
    """A link to that server. All connections are cut at the end."""
    listener = create_server(("127.0.0.1", 0))
    link = SlowLink(listener.getsockname()[1], bytes_per_second)
    link._ends.append(listener)
    link._start(link._serve, host, port)
    try:
        yield link
    finally:
        link._close()
