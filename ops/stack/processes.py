"""Server processes that outlive the program that starts them.

Each server holds a lock on the file `pid` in its folder: it inherits the locked descriptor, and the
kernel frees the lock when the last process that has it has ended. So the kernel answers whether a
server runs, which no reboot, kill -9 or reused process id makes wrong, and the answer is about the
server with all its children.
"""

import fcntl
import os
import pwd
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdcbus.plugins.errors import CdcError, ConfigError


@dataclass(frozen=True, slots=True)
class Account:
    """An operating system user."""

    name: str
    uid: int
    gid: int

    def check_can_enter(self, folder: Path) -> None:
        """Raises ConfigError when a folder on the way to `folder` is closed for this user."""
        for parent in reversed([folder, *folder.parents]):
            if not parent.stat().st_mode & self._enter_bit(parent.stat()):
                raise ConfigError(
                    f"database servers refuse to run as root, and {self.name}, as whom they run "
                    "instead, cannot enter "
                    f"{parent}: open it (chmod o+x), or choose another place for {folder} "
                    "(--home, CDCBUS_CACHE)"
                )

    def _enter_bit(self, status: os.stat_result) -> int:
        """The bit of a folder's mode that lets this user enter it."""
        if status.st_uid == self.uid:
            return 0o100
        if status.st_gid == self.gid:
            return 0o010
        return 0o001

    def give(self, path: Path) -> None:
        """Makes this user the owner of `path`."""
        os.chown(path, self.uid, self.gid)


def unprivileged() -> Account | None:
    """The account for servers that refuse to run as root: nobody. None when this process is not
    root, as then they run as its user."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def run(command: Sequence[str], account: Account | None, folder: Path, stdin: str = "") -> None:
    """Runs a short command to its end in `folder`; raises CdcError with a line of what it printed
    if it fails.

    It holds the caller's locks, too: should the caller be killed, the next one waits for it.
    """
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=folder,
        env=_environment(),
        close_fds=False,
        check=False,
        **_rights(account),
    )
    if done.returncode != 0:
        raise CdcError(
            f"{Path(command[0]).name} failed in {folder}: "
            f"{relevant_line(done.stdout + done.stderr)}"
        )


def start(folder: Path, command: Sequence[str], account: Account | None) -> None:
    """Starts a server in a session of its own, so that Ctrl-C here does not reach it; it prints to
    `folder/log`.

    At most one process may call this for a folder at a time.
    """
    log = log_file(folder)
    if log.exists():
        log.replace(log.with_suffix(".old"))
    with _pid_file(folder).open("a+b") as pid_file, log.open("wb") as output:
        # Only `is_running` of another process can have it, and only for an instant.
        fcntl.flock(pid_file, fcntl.LOCK_EX)
        pid_file.truncate(0)
        # The shell writes its process id, which exec keeps, so nothing can come between start and
        # note. The file is its standard input, and some servers close that: they get the descriptor
        # itself as well.
        child = subprocess.Popen(
            ["/bin/sh", "-c", 'echo $$ >&0; exec "$@"', "server", *command],
            stdin=pid_file,
            pass_fds=[pid_file.fileno()],
            stdout=output,
            stderr=output,
            cwd=folder,
            env=_environment(),
            start_new_session=True,
            **_rights(account),
        )
    # Waited for, as otherwise it stays as a zombie when it ends before this process.
    threading.Thread(target=child.wait, daemon=True).start()


def is_running(folder: Path) -> bool:
    """Whether the server that was started in this folder, or any of its children, still runs."""
    try:
        with _pid_file(folder).open("rb") as pid_file:
            fcntl.flock(pid_file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def pid(folder: Path) -> int | None:
    """The process id of the server that runs in this folder; None when it does not."""
    while is_running(folder):
        if text := _pid_file(folder).read_text().strip():
            return int(text)
        time.sleep(0.01)  # it is just being started
    return None


def stop(folder: Path, politely: signal.Signals, patience_seconds: float) -> None:
    """Asks the server to end, and kills it when it has not after that time. Returns when it and its
    children have ended."""
    _signal(folder, politely)
    if not _await(lambda: not is_running(folder), patience_seconds):
        kill(folder)


def kill(folder: Path) -> None:
    """SIGKILL; returns when the server and its children have ended. Raises CdcError when they have
    not after 30 s."""
    _signal(folder, signal.SIGKILL)
    if not _await(lambda: not is_running(folder), 30):
        raise CdcError(
            f"the server in {folder} was killed, but a process of it still runs: end it by hand"
        )


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Files that this process creates in the block get their modes by `mask`."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def log_file(folder: Path) -> Path:
    """The output of the server. That of the previous run is beside it, as log.old."""
    return folder / "log"


def relevant_line(output: str) -> str:
    """The first line of a server's output that looks like an error, else the last line."""
    lines = list(filter(None, map(str.strip, output.splitlines())))
    for line in lines:
        if re.search("ERROR|FATAL|error:|Exception", line):
            return line
    if not lines:
        return "it printed nothing"
    return lines[-1]


def _pid_file(folder: Path) -> Path:
    return folder / "pid"


def _signal(folder: Path, number: signal.Signals) -> None:
    server = pid(folder)
    if server is not None:
        # It may just have ended, or only its children are left, which end on their own.
        with suppress(ProcessLookupError):
            os.kill(server, number)


def _await(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def _rights(account: Account | None) -> dict[str, Any]:
    """The arguments of `subprocess` for a process of this account; without one it has our own."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def _environment() -> dict[str, str]:
    """The environment of a server: without the caller's settings (PGDATA, MYSQL_HOME, ...), which
    would change it. In UTF-8, without which Java finds no file whose path is not ASCII."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
