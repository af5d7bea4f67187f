"""`make test-servers`: the source tests on each server of the matrix, and a table of how they went.

python -m tests.servers ["MariaDB 10.2" ...] [-- what pytest is given]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cdcbus.plugins.errors import ConfigError
from tests.conftest import OLD_SOURCE, SOURCE
from tests.servers.matrix import SERVERS
from tests.servers.packages import NotHad
from tests.servers.server import Kind


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the tests went on a server; `missing`: a sentence on why it could not be had."""

    kind: Kind
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: int = 0
    missing: str = ""


def outcome(kind: Kind, arguments: list[str]) -> Outcome:
    """Runs the tests on a server that lives as long as they do."""
    started = time.monotonic()
    try:
        with kind.running() as server, tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            address = f"mysql://{server.user}:{server.password}@{server.host}:{server.port}"
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-m",
                "source",
                f"--junitxml={report}",
                *arguments,
            ]
            subprocess.run(
                command,
                env={**os.environ, SOURCE: address, OLD_SOURCE: "1" if kind.is_old else ""},
                check=False,
            )
            totals = next(ET.parse(report).getroot().iter("testsuite")).attrib
    except (NotHad, ConfigError) as error:
        return Outcome(kind, missing=str(error))
    count, failed, skipped = (int(totals[name]) for name in ("tests", "failures", "skipped"))
    failed += int(totals["errors"])
    return Outcome(
        kind, count - failed - skipped, failed, skipped, round(time.monotonic() - started)
    )


def main(arguments: list[str]) -> int:
    """How many servers failed, or could not be had."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    wanted, given = arguments[:end], arguments[end + 1 :]
    console = Console()
    chosen = [kind for kind in SERVERS if not wanted or kind.name in wanted]
    table = Table("server", "passed", "failed", "skipped", "seconds")
    found = []
    for kind in chosen:
        console.rule(kind.name)
        found.append(outcome(kind, given))
    for one in found:
        row = (
            ["-"] * 4
            if one.missing
            else [str(one.passed), str(one.failed), str(one.skipped), str(one.seconds)]
        )
        table.add_row(one.kind.name, *row)
    console.print(table)
    for one in found:
        if one.missing:
            console.print(f"{one.kind.name} could not be had: {one.missing}", soft_wrap=True)
    return sum(bool(one.failed or one.missing) for one in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
