"""The signals that ask a process to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from cdcbus.tasks.zookeeper.lock import Stop

_STOP = b"s"
_OVER = b"o"


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """An event that SIGTERM or SIGINT sets, and SIGHUP, which a closed terminal sends, unless it is
    ignored as under nohup. A second Ctrl-C ends the process as usual. A second SIGTERM does not:
    tools that signal a process and its group, such as `timeout`, send two."""
    stop = Stop()
    before: dict[int, Callable[..., object] | int | None] = {}
    reader, writer = os.pipe()

    def on_signal(number: int, _: object) -> None:
        # The event is set by another thread: the code that is interrupted here may hold its lock,
        # and would wait for itself.
        os.write(writer, _STOP)
        # The handler from before raises KeyboardInterrupt at the second Ctrl-C.
        if number == signal.SIGINT:
            signal.signal(number, before[number])

    def obey() -> None:
        while os.read(reader, 1) == _STOP:
            stop.set()

    obeying = Thread(target=obey, name="signals", daemon=True)
    obeying.start()
    endings = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        endings.append(signal.SIGHUP)
    for stopping in endings:
        before[stopping] = signal.signal(stopping, on_signal)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.write(writer, _OVER)
        obeying.join()
        os.close(reader)
        os.close(writer)
