"""`python -m tests.pictures`: the README's moving picture, of a real `cdcbus demo`.

The demo runs in a terminal of tmux's, which is asked a few times a second what it shows. Quiet
times are shortened: the picture says what happens, not how fast this machine is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import join

from tests.pictures.film import Frame, film

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "demo.svg"
RECORDING = ROOT / "artifacts" / "demo.json"
COLUMNS, ROWS = 82, 32
LOOK_SECONDS = 0.2
SPEED = 3.0  # times as fast as it was
LONGEST, LAST = 0.5, 6.0  # seconds of a frame, and of the last one
LEAST = 0.3
VERDICT, TARGETS = "is equal to the source: ", 2
WHEEL = re.compile("[\u2800-\u28ff]")
Shown = tuple[float, tuple[str, ...]]
"""When the terminal showed what."""
TITLE = (
    "cdcbus demo in a terminal: real servers start, rows change, each task is killed and comes "
    "back, and at the end all rows are equal"
)


class Terminal:
    """A terminal of tmux's, of its own server."""

    def __init__(self, name: str) -> None:
        self._tmux = ["tmux", "-L", name, "-f", "/dev/null"]

    def call(self, *words: str) -> str:
        return subprocess.run(
            [*self._tmux, *words], check=True, capture_output=True, text=True
        ).stdout

    def lines(self) -> tuple[str, ...]:
        return tuple(self.call("capture-pane", "-e", "-p", "-t", "demo").splitlines())


@contextmanager
def terminal(command: str, environ: dict[str, str]) -> Iterator[Terminal]:
    """Runs a command of the shell until the end of the block."""
    made = Terminal(f"cdcbus-picture-{os.getpid()}")
    variables = [word for name, value in environ.items() for word in ("-e", f"{name}={value}")]
    made.call(
        "new-session",
        "-d",
        "-s",
        "demo",
        "-x",
        str(COLUMNS),
        "-y",
        str(ROWS),
        *variables,
        "sh",
        "-c",
        command,
    )
    try:
        yield made
    finally:
        made.call("kill-server")


def recorded(options: Sequence[str]) -> list[Shown]:
    """When the terminal showed what, from the demo's first line to its last."""
    # shown as ~; its databases' user may enter it
    home = Path(tempfile.mkdtemp(prefix="cdcbus-picture-", dir="/var/tmp"))
    home.chmod(0o755)
    end = home / "end"
    demo = join(
        [f"{Path(sys.executable).parent}/cdcbus", "demo", "--home", f"{home}/demo", *options]
    )
    command = (
        f"printf '\\033[1m$ cdcbus demo\\033[0m\\n'; {demo}; echo $? > {home}/part; "
        f"mv {home}/part {end}; sleep 60"
    )
    seen: list[Shown] = []
    try:
        with terminal(command, {"HOME": str(home), "COLORTERM": "", "TERM": "xterm-256color"}) as t:
            while not end.exists():
                seen.append((time.monotonic(), t.lines()))
                time.sleep(LOOK_SECONDS)
            seen.append((time.monotonic(), t.lines()))
        if (code := end.read_text().strip()) != "0":
            raise SystemExit(
                f"the demo has ended with exit code {code}:\n" + "\n".join(seen[-1][1])
            )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return seen


def frames_of(seen: Sequence[Shown]) -> list[Frame]:
    """Up to the verdict. What lasts shorter than an eye needs is left out, what lasts longer is
    shortened; a wheel that turns is no change."""
    frames: list[Frame] = []
    begun, lines = seen[0]
    for at, others in seen[1:]:
        if _still(others) != _still(lines) and at - begun >= LEAST * SPEED:
            frames.append(Frame(lines, min(LONGEST, (at - begun) / SPEED)))
            begun, lines = at, others
        if "\n".join(others).count(VERDICT) == TARGETS:
            return [*frames, Frame(others, LAST)]
    raise SystemExit(f"the demo has not said {VERDICT!r} of {TARGETS} targets")


def _still(lines: Sequence[str]) -> str:
    return WHEEL.sub(" ", "\n".join(lines))


def main(options: Sequence[str]) -> None:
    """`--again`: the picture of the last recording, as after a change of how it is drawn."""
    if list(options) == ["--again"]:
        seen = [(at, tuple(lines)) for at, lines in json.loads(RECORDING.read_text())]
    else:
        seen = recorded(options)
        RECORDING.parent.mkdir(exist_ok=True)
        RECORDING.write_text(json.dumps(seen), encoding="utf-8")
    frames = frames_of(seen)
    PICTURE.write_text(film(frames, COLUMNS, ROWS, TITLE), encoding="utf-8")
    seconds = sum(frame.seconds for frame in frames)
    print(f"{PICTURE}: {len(frames)} frames, {seconds:.0f} s, {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
