"""A command in a terminal, and somebody who reads and types."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_until

SECONDS = 240.0
READING = ("0", "7", "23", "270", "271")  # read, poll, select, pselect6, ppoll
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Dialogue:
    """`said`: all that was to be read so far, without colours."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self._process, self._terminal, self._read, self._raw = process, terminal, 0, b""

    @property
    def said(self) -> str:
        return ESCAPES.sub("", self._raw.decode(errors="replace")).replace("\r\n", "\n")

    def wait_for(self, words: str) -> None:
        """Until these words come, behind those that were waited for before."""
        deadline = time.monotonic() + SECONDS
        while (at := self.said.find(words, self._read)) < 0:
            assert time.monotonic() < deadline, f"no {words!r} in:\n{self.said}"
            assert self._more(), f"it has ended without {words!r}:\n{self.said}"
        self._read = at + len(words)

    def answer(self, question: str, text: str = "") -> None:
        self.wait_for(question)
        os.write(self._terminal, f"{text}\n".encode())

    def interrupt(self, at_prompt: bool = True) -> None:
        """Ctrl-C. At a prompt once it is really waited there: a moment before, Python takes note of
        it only with the next key, as a person would see."""
        if at_prompt:
            wait_until(self._is_reading, "the command to read from its terminal")
        os.write(self._terminal, b"\x03")

    def _is_reading(self) -> bool:
        call = Path(f"/proc/{self._process.pid}/syscall").read_text().split()
        return call[0] in READING

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def end(self) -> int:
        """Reads to its end, and gives its exit code."""
        while self._more():
            pass
        return self._process.wait(SECONDS)

    def _more(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], SECONDS)
        assert ready, f"nothing more for {SECONDS:g} s after:\n{self.said}"
        try:
            read = os.read(self._terminal, 65536)
        except OSError:  # Linux says so at the end
            return False
        self._raw += read
        return bool(read)


@contextmanager
def dialogue(words: list[str], folder: Path, environ: Mapping[str, str]) -> Iterator[Dialogue]:
    """`cdcbus` with these words, in a terminal of its own; killed at the end if it still runs."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cdcbus", *words],
        cwd=folder,
        env={**environ, "TERM": "xterm", "COLUMNS": "200"},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=_own_terminal,
    )
    os.close(its)
    try:
        yield Dialogue(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


def _own_terminal() -> None:
    """So that Ctrl-C in it becomes SIGINT."""
    import fcntl
    import signal
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # some callers of tests ignore it
