"""Notices servers whose machine is down, or whose connection a firewall has dropped: nothing else
says so."""

from __future__ import annotations

import socket
from typing import Any


def bound_silence(connection: Any, seconds: int) -> None:
    """Makes the kernel break a PyMySQL connection whose other end has been silent for this time.
    Otherwise an answer is waited for as long as the longest statement may take."""
    sock: socket.socket | None = connection._sock
    if sock is not None and sock.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, 3),
            (socket.TCP_KEEPINTVL, 1),
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, seconds * 1000),
        ):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
