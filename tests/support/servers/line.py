"""A TCP line to a server that tests can cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Line:
    """A TCP line to a server that can be cut, and can lose all answers from the question on that
    holds `loses_answers_from`. `answers_as`: what answers hold, and what replaces it, of the same
    length."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.loses_answers_from: bytes | None = None
        self.answers_as = (b"", b"")
        self._loses_answers = False
        self.is_cut = False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if self.is_cut:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target)
            except ConnectionRefusedError:  # the server is down just now
                near.close()
                continue
            self._open += [near, far]
            for source, sink, is_answer in ((near, far, False), (far, near, True)):
                threading.Thread(
                    target=self._carry, args=(source, sink, is_answer), daemon=True
                ).start()

    def _carry(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                if not is_answer and self.loses_answers_from and self.loses_answers_from in data:
                    self._loses_answers = True
                if is_answer and self._loses_answers:
                    continue
                sink.sendall(data.replace(*self.answers_as) if is_answer else data)
        except OSError:
            pass  # the other end was cut
        for end in (source, sink):
            # close alone tells nobody as long as the other thread waits for more from this end
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self) -> None:
        """Ends all connections and refuses new ones until `mend`."""
        self.is_cut = True
        ends, self._open = self._open, []
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already

    def lead_to(self, target: str) -> None:
        """Connections that are made from now on go to another server; those that are open stay."""
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))

    def mend(self) -> None:
        self.loses_answers_from = None
        self._loses_answers = self.is_cut = False

    def close(self) -> None:
        self._server.close()
        self.cut()
