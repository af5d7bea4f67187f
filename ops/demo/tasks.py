"""The demo's tasks as child processes: `cdcbus task run FILE`, each in a session of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cdcbus.ops.cli.interrupts import INTERRUPTED, uninterrupted
from cdcbus.ops.stack.demo_tasks import COMMAND, SCRATCH, STOP_SECONDS, signal_group
from cdcbus.plugins.errors import CdcError


class TaskProcess:
    """One task that can be started, killed and restarted; everything it prints goes to one log
    file."""

    def __init__(self, task_id: str, file: Path, log: Path, zookeeper: str, scratch: Path) -> None:
        self.task_id, self.file, self.log = task_id, file, log
        self.environment = {
            **os.environ,
            "CDCBUS_ZOOKEEPER": zookeeper,
            "TMPDIR": str(scratch),
            "PYTHONUNBUFFERED": "1",
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the last start; 0 before the first."""
        if self._process is None:
            return 0
        return self._process.pid

    def start(self) -> None:
        """Starts it; Ctrl-C on this terminal does not reach it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*COMMAND, str(self.file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL to it and its children, as when the machine fails; returns when it has ended."""
        if self._process:
            signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def check(self) -> None:
        """Raises CdcError, with the last line that it logged, when it has ended on its own."""
        if self._process and (code := self._process.poll()) is not None:
            said = ""
            if lines := self.last_lines(1):
                said = f": {lines[0]}"
            raise CdcError(
                f"{self.task_id} has ended on its own ({_in_words(code)}){said}\n"
                f"Its log: {self.log}"
            )

    def ask_to_stop(self) -> None:
        """SIGTERM: it stores its position and ends."""
        if self._process and self._process.poll() is None:
            self._process.terminate()

    def await_stop(self) -> int | None:
        """Its exit code once it has ended, at the latest after STOP_SECONDS, by force; None if
        it was never started."""
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        # In any case, as it may have left children.
        self.kill()
        return self._process.returncode

    @property
    def logged_bytes(self) -> int:
        """The size of its log."""
        if not self.log.exists():
            return 0
        return self.log.stat().st_size

    def last_lines(self, count: int) -> list[str]:
        """The last lines of its log that are not blank."""
        if not self.log.exists():
            return []
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        not_blank = list(filter(None, map(str.strip, lines)))
        return not_blank[-count:]


def stop_tasks(tasks: Sequence[TaskProcess]) -> list[str]:
    """Stops all together. Returns when all have ended, with a sentence for each that did not end
    well. A second Ctrl-C kills them."""
    try:
        # All are asked before one is waited for.
        for task in tasks:
            task.ask_to_stop()
        codes = {task.task_id: task.await_stop() for task in tasks}
    except KeyboardInterrupt:
        with uninterrupted():
            for task in tasks:
                task.kill()
        raise
    complaints = []
    for task_id, code in codes.items():
        # SIGTERM ends a task that is still starting: it has done nothing yet.
        if code and code not in (-signal.SIGTERM, INTERRUPTED):
            complaints.append(f"{task_id} has ended badly ({_in_words(code)})")
    return complaints


def _in_words(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def scratch_folder(folder: Path) -> Path:
    """The folder of temporary files of tasks, so that those of killed ones can be removed."""
    return folder / SCRATCH
