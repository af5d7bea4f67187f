"""All benchmarks of cdcbus in one run: `make bench`.

    .venv/bin/python -m tests.bench [--only delay --only start] [--runs 5] [--json FILE]
                                    [--home STACK] [--baseline]

They run one after the other on one stack, `--runs` times each. Ratios are to the baseline of the
same run: a bare COPY, a bare loop, python-mysql-replication, a dump. The table shows the least, the
median and the most of each figure, beside the bar that cdcbus sets itself and what a peer took for
the same on a machine like that. `--baseline` compares the best ratios with the stored medians, and
exits with 1 where one is a quarter worse; `--store` writes the medians.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from cdcbus.ops.stack.stack import down, up
from tests.bench.figures import FIGURES, Figure, told

BASELINE = Path(__file__).parent / "baseline.json"
WORSE = 0.25
LIBRARIES = ("pyspark", "confluent-kafka", "mysql-replication", "psycopg", "orjson", "pyarrow")


@dataclass(frozen=True, slots=True)
class Bench:
    """`needs_servers`: it takes `--home`."""

    module: str
    words: tuple[str, ...] = ()
    needs_servers: bool = True

    @property
    def name(self) -> str:
        return " ".join((self.module, *self.words))


BENCHES = (
    Bench("formats", needs_servers=False),
    Bench("decoding"),
    Bench("producer"),
    Bench("consumer"),
    Bench("delay", ("--pause-ms", "100", "--rows", "300")),
    Bench("delay", ("--pause-ms", "100", "--rows", "300", "--target", "mariadb")),
    Bench("delay", ("--pause-ms", "1", "--rows", "5000")),
    Bench("start"),
    Bench("node"),
    Bench("snapshot", ("--rounds", "1", "--rows", "2000000")),
    Bench("direct", ("--rows", "2000000")),
    Bench("verify", ("--rounds", "1", "--rows", "2000000")),
    Bench("fetch_delay", ("--rounds", "1", "--rows", "300")),
    Bench("transactions", ("--rounds", "1")),
    Bench("large", ("--scale", "0.1")),
)
BARS = {
    "delay into postgresql, p50, a row each 100 ms": "12",
    "delay into postgresql, p95, a row each 100 ms": "20",
    "delay into postgresql, p99, a row each 100 ms": "30",
    "delay into mariadb, p50, a row each 100 ms": "12",
    "delay into mariadb, p95, a row each 100 ms": "20",
    "delay into mariadb, p99, a row each 100 ms": "30",
    "delay into postgresql, p95, a row each 1 ms": "40",
    "delay into postgresql, p50, beside a bare loop, a row each 100 ms": "2.5",
    "50 idle tasks": "0.04",
    "memory of 50 idle tasks": "700",
    "start to the first row": "1.5",
    "postgresql, of bare COPY and merge": "0.8",
    "snapshot, of a dump": "1",
    "snapshot, many rows in a record, of a dump": "1",
    "direct load, of files and COPY": "0.5",
    "verify, beside a snapshot": "0.25",
}
PEERS = {
    "delay into postgresql, p50, a row each 100 ms": "Debezium, tuned: 15.7",
    "delay into postgresql, p95, a row each 100 ms": "Debezium, tuned: 23.3",
    "delay into postgresql, p99, a row each 100 ms": "Debezium, tuned: 28.7",
}


def run(bench: Bench, home: Path | None, python: str = sys.executable) -> list[Figure]:
    """The figures of one run. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures"
        command = [python, "-m", f"tests.bench.{bench.module}", *bench.words]
        if bench.needs_servers:
            command += ["--home", str(home)]
        subprocess.run(command, check=True, env={**os.environ, FIGURES: str(path)})
        return told(path)


@dataclass(frozen=True, slots=True)
class Found:
    """One figure of several runs."""

    figure: Figure
    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        return median(self.values)

    @property
    def best(self) -> float:
        if self.figure.is_less_better:
            return min(self.values)
        return max(self.values)

    def is_worse_than(self, stored: float) -> bool:
        """Whether even the best run is worse by more than WORSE: other work on the machine makes
        runs worse, but not better."""
        if self.figure.is_less_better:
            return self.best > stored * (1 + WORSE)
        return self.best < stored / (1 + WORSE)


def gathered(runs: Iterable[list[Figure]]) -> dict[str, Found]:
    """The figures of all runs, by name."""
    found: dict[str, Found] = {}
    for figures in runs:
        for figure in figures:
            values = [figure.value]
            if figure.name in found:
                values = [*found[figure.name].values, figure.value]
            found[figure.name] = Found(figure, tuple(values))
    return found


def machine() -> dict[str, str]:
    """What the figures were measured with."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    } | {name: version(name) for name in LIBRARIES}


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def table(found: dict[str, Found]) -> Table:
    """The figures as a table."""
    shown = Table("figure", "unit", "least", "median", "most", "bar", "peer")
    for name, each in found.items():
        numbers = (min(each.values), each.middle, max(each.values))
        shown.add_row(
            name,
            each.figure.unit or "ratio",
            *map(_number, numbers),
            BARS.get(name, ""),
            PEERS.get(name, ""),
        )
    return shown


def worse(found: dict[str, Found], stored: dict[str, float]) -> list[str]:
    """A sentence for each ratio that is worse than the stored one."""
    sentences = []
    for name, value in stored.items():
        if name in found and found[name].is_worse_than(value):
            best = found[name].best
            sentences.append(f"{name}: {best:.3g} at best, stored is {value:.3g}")
    return sentences


def keep(found: dict[str, Found], file: Path) -> None:
    """Writes all values, with the machine and the versions, as JSON."""
    kept = {
        "machine": machine(),
        "units": {name: each.figure.unit for name, each in found.items() if each.figure.unit},
        "figures": {name: each.values for name, each in found.items()},
    }
    file.write_text(json.dumps(kept, indent=1) + "\n")


def as_markdown(kept: Mapping[str, Any]) -> str:
    """What `keep` wrote, as the table of docs/benchmarks.md."""
    lines = ["| figure | unit | least | median | most | bar |", "|---|---|--:|--:|--:|--:|"]
    for name, values in kept["figures"].items():
        numbers = map(_number, (min(values), median(values), max(values)))
        cells = [name, kept["units"].get(name, "ratio"), *numbers, BARS.get(name, "")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


@click.command()
@click.option("--only", multiple=True, type=click.Choice(sorted({each.module for each in BENCHES})))
@click.option("--runs", default=5, show_default=True)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Keeps all values there.")
@click.option("--home", type=click.Path(path_type=Path), help="A stack that runs already.")
@click.option("--baseline", is_flag=True, help="Exit with 1 where a stored ratio was better.")
@click.option("--store", is_flag=True, help="Stores the ratios of these benchmarks.")
def main(
    *,
    only: tuple[str, ...],
    runs: int,
    file: Path | None,
    home: Path | None,
    baseline: bool,
    store: bool,
) -> None:
    """Prints a table of all figures."""
    chosen = [each for each in BENCHES if not only or each.module in only]
    needs_servers = any(each.needs_servers for each in chosen)
    console = Console(width=150)
    with tempfile.TemporaryDirectory(prefix="cdcbus-bench-") as folder:
        place = home or Path(folder) / "stack"
        Path(folder).chmod(0o755)
        try:
            if needs_servers:
                up(place, Console(quiet=True))
            figures, failed = [], []
            for number in range(1, runs + 1):
                for bench in chosen:
                    title = f"{bench.name}, run {number} of {runs}"
                    console.print(f"[bold]{title}[/bold]")
                    try:
                        figures.append(run(bench, place))
                    except subprocess.CalledProcessError:  # the other figures count all the same
                        failed.append(title)
                if file is not None:  # an hour's figures are not lost with its end
                    keep(gathered(figures), file)
        finally:
            if needs_servers and home is None:
                down(place, purge=True, console=Console(quiet=True))
    found = gathered(figures)
    console.print(table(found))
    if failed:
        raise click.ClickException("failed, see above: " + "; ".join(failed))
    stored: dict[str, float] = {}
    if BASELINE.exists():
        stored = json.loads(BASELINE.read_text())
    if store:
        for name, each in found.items():
            if each.figure.is_ratio:
                stored[name] = round(each.middle, 3)
        BASELINE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    if baseline and (sentences := worse(found, stored)):
        raise click.ClickException(f"worse by more than {WORSE:.0%}: " + "; ".join(sentences))


if __name__ == "__main__":
    main()
