"""What threads are doing now: those of this process, and those of the JVMs that its children
run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import traceback
from pathlib import Path

ASK_SECONDS = 30.0
# A JVM stands still while it answers: never several questions at once.
_one_at_a_time = threading.Lock()


def own_threads() -> str:
    """The stack of each thread of this process, without values."""
    frames = sys._current_frames()
    parts = []
    for thread in sorted(threading.enumerate(), key=lambda thread: thread.name):
        frame = frames.get(thread.ident or 0)
        stack = "  no stack\n"
        if frame is not None:
            stack = "".join(traceback.format_stack(frame))
        daemon = " daemon" if thread.daemon else ""
        parts.append(f'"{thread.name}"{daemon}\n{stack}')
    return "\n".join(parts)


def java_machines(parent: int) -> list[int]:
    """The processes called java among all descendants of a process."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        # PID (NAME) STATE PARENT ...: a name may hold brackets, so the last one ends it.
        before, _, after = stat.rpartition(")")
        pid = int(folder.name)
        names[pid] = before.partition("(")[2]
        children.setdefault(int(after.split()[1]), []).append(pid)
    found = []
    waiting = [parent]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        found += [pid for pid in below if names[pid] == "java"]
    return sorted(found)


def ask_java(pid: int, command: str) -> str:
    """What a JVM answers to a jcmd command, such as Thread.print; a sentence where it cannot be
    asked."""
    try:
        # The jcmd of the same Java, as versions do not understand each other.
        beside = Path(f"/proc/{pid}/exe").readlink().with_name("jcmd")
    except OSError:
        return f"process {pid} has ended\n"
    tool: str | None = str(beside)
    if not beside.exists():
        tool = shutil.which("jcmd")
    if tool is None:
        return (
            f"process {pid} cannot be asked: its Java has no jcmd; install a JDK of that "
            "version instead of a JRE\n"
        )
    with _one_at_a_time:
        try:
            done = subprocess.run(
                [tool, str(pid), command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=ASK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"process {pid} has not answered within {ASK_SECONDS:g} s\n"
        except OSError as error:
            return f"process {pid} cannot be asked: {tool}: {error.strerror}\n"
    if not done.stdout:
        return f"process {pid} cannot be asked: {tool} ended with code {done.returncode}\n"
    return done.stdout
