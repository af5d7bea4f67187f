"""The tests that a change needs before it is pushed: `make check`.

    .venv/bin/python -m tests.changed [--since main] [--list]

All tests without servers, and of those on real servers the ones that mirror a changed room: for
`consumer/apply/writer.py` that is `tests/integration/consumer/apply`, or the nearest folder above
it that has tests. `.ci/run` runs all.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import click

ROOT = Path(__file__).parents[1]
PACKAGE = frozenset({"plugins", "producer", "consumer", "tasks", "ops"})
ON_SERVERS = PurePosixPath("tests/integration")
WITH_SERVERS = (("tests", "integration"), ("tests", "chaos"))


def changed_files(since: str) -> list[PurePosixPath]:
    """Files that differ from the commit at which this branch left `since`, and new ones that git
    does not ignore. Raises CalledProcessError."""
    base = _git("merge-base", "HEAD", since)
    names = [*base, "--", "."]
    found = _git("diff", "--name-only", *names) + _git("ls-files", "--others", "--exclude-standard")
    return sorted({PurePosixPath(name) for name in found})


def needed(files: Iterable[PurePosixPath], root: Path = ROOT) -> list[PurePosixPath]:
    """Tests on real servers of these files, in order; none inside another one that is listed.
    A changed test is its own; a file outside of the package needs none."""
    found: set[PurePosixPath] = set()
    for file in files:
        if file.parts[0] in PACKAGE:
            found.add(_mirror(file.parent, root))
        elif file.name.startswith("test_") and file.parts[:2] in WITH_SERVERS:
            found.add(file)
    existing = {each for each in found if (root / each).exists()}
    return sorted(each for each in existing if not existing.intersection(each.parents))


def _mirror(room: PurePosixPath, root: Path) -> PurePosixPath:
    """The folder of tests that mirrors a room, or the nearest one above."""
    folder = ON_SERVERS / room
    while not list((root / folder).glob("test_*.py")) and folder != ON_SERVERS / room.parts[0]:
        folder = folder.parent
    return folder


def _git(*words: str) -> list[str]:
    said = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return said.stdout.splitlines()


@click.command()
@click.option("--since", default="main", show_default=True, help="What the change is compared to.")
@click.option("--list", "is_list", is_flag=True, help="Print the tests on servers, run none.")
def main(since: str, is_list: bool) -> None:
    """Runs what a change needs; exit code 1 where something fails."""
    chosen = [str(each) for each in needed(changed_files(since))]
    if is_list:
        click.echo("\n".join(chosen))
        return
    click.echo(f"tests without servers, and {' '.join(chosen) or 'none with servers'}")
    runs = [["-n", "2", "tests/unit"]]
    if chosen:
        runs.append(["-n", "2", "--dist", "loadfile", *chosen])
    codes = [
        subprocess.run([sys.executable, "-m", "pytest", "-q", *words], cwd=ROOT) for words in runs
    ]
    sys.exit(any(each.returncode for each in codes))


if __name__ == "__main__":
    main()
