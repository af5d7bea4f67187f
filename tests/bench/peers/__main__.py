"""The same work for cdcbus and for Debezium, in turns in one run: `make bench-peers`.

    .venv/bin/python -m tests.bench.peers [--inserts 50000] [--runs 3] [--rows 150] [--home STACK]
        [--jars FOLDER] [--json FILE] [--picture FILE]

Source is the stack's MariaDB, target its PostgreSQL, one topic partition between them. Debezium's
MariaDB source and JDBC sink run in Kafka Connect standalone, tuned as `connect.py` says, with
Connect's JSON and its schemas, which the sink needs; cdcbus has its defaults. The jars come from
Maven Central (CDCBUS_MAVEN names a mirror), or from `--jars`: a folder with `connect/*.jar` and
`plugins/NAME/*.jar`.

Rates are by the clock from the last look that saw no row to the first that saw all, so without the
start; processor time is that of all processes meanwhile. Each program runs alone.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from cdcbus.ops.stack.stack import down, up
from tests.bench import backlog as backlogs
from tests.bench.__main__ import machine
from tests.bench.peers.connect import DEBEZIUM, KAFKA, Jars
from tests.bench.peers.debezium import debezium
from tests.bench.peers.ours import cdcbus
from tests.bench.peers.picture import Compared, middle, shown, svg
from tests.bench.peers.work import Peer, Rate, Work, delays, rate_until
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 300.0
PER_TRANSACTION = 100


def measured(work: Work, peer: Peer, folder: Path, rows: int) -> dict[tuple[str, str], float]:
    """All figures of one program, by name and unit."""
    found: dict[tuple[str, str], float] = {}

    def note(name: str, rate: Rate) -> None:
        found[name, "rows/s"] = rate.per_second
        found[f"{name}, processor", "s for 100,000 rows"] = rate.cpu
        found[f"{name}, memory", "MB"] = rate.megabytes

    source = work.addresses.source
    backlogs.write(source, 100, 10)
    with peer.fetching(folder) as pids:
        wait_until(
            lambda: work.is_at_work(pids, peer.topic), f"{peer.name} to read", PATIENCE_SECONDS
        )
    backlog = backlogs.write(source, work.inserts, PER_TRANSACTION)
    before = work.ends(peer.topic)
    with peer.fetching(folder) as pids:
        note(
            "binlog to Kafka",
            rate_until(pids, backlog.changes, lambda: work.ends(peer.topic) - before),
        )
    work.empty(peer)
    with peer.loading(folder) as pids:
        note(
            "Kafka to PostgreSQL",
            rate_until(pids, backlog.changes, lambda: work.done(peer, backlog.changes)),
        )
    with peer.snapshot(folder) as pids:
        rate = rate_until(pids, work.count(), lambda: work.ends(peer.snapshot_topic))
        note("snapshot to Kafka", rate)
    with peer.fetching(folder) as pids, peer.loading(folder):
        wait_until(
            lambda: work.is_at_work(pids, peer.topic), f"{peer.name} to read", PATIENCE_SECONDS
        )
        wait_until(lambda: work.is_equal(peer), f"{peer.name} to keep up", PATIENCE_SECONDS)
        for name, value in delays(work, peer, rows, 0.1).items():
            found[f"delay from source to target, {name}", "ms"] = value
    return found


@click.command()
@click.option("--inserts", default=50_000, show_default=True)
@click.option("--rows", default=150, show_default=True, help="Of which the delay is taken.")
@click.option("--runs", default=3, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
@click.option("--jars", type=click.Path(path_type=Path), help="Instead of Maven Central.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Keeps all values there.")
@click.option("--picture", type=click.Path(path_type=Path), help="Draws them there, as SVG.")
def main(
    *,
    inserts: int,
    rows: int,
    runs: int,
    home: Path | None,
    jars: Path | None,
    file: Path | None,
    picture: Path | None,
) -> None:
    """Prints both programs' figures, and their ratios."""
    have = Jars.given(jars) if jars else Jars.fetched()
    own = home is None
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    console = Console(width=140)
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    try:
        addresses = up(place, Console(quiet=True))
        work = Work(addresses, inserts)
        for run in range(1, runs + 1):
            name = f"bench{time.time_ns()}"
            peers = (cdcbus(addresses, name), debezium(have, addresses, f"peer{name}"))
            # In turn, as the first of two finds the machine in another state.
            order = peers if run % 2 else peers[::-1]
            for peer in order:
                console.print(f"[bold]{peer.name}[/bold], run {run} of {runs}")
                with tempfile.TemporaryDirectory() as folder:
                    for key, value in measured(work, peer, Path(folder), rows).items():
                        values.setdefault(key, {each.name: [] for each in peers})
                        values[key][peer.name].append(value)
    finally:
        if own:
            down(place, purge=True, console=Console(quiet=True))
    figures = []
    for (name, unit), by_program in values.items():
        is_less_better = unit != "rows/s"
        figures.append(Compared(name, unit, is_less_better, by_program))
    console.print(table(figures))
    versions = {**machine(), "debezium": DEBEZIUM, "kafka": KAFKA}
    if file is not None:
        kept = {f"{each.name}, {each.unit}": each.values for each in figures}
        sizes = {"inserts": inserts, "rows of the delay": rows}
        text = json.dumps({"machine": versions, "sizes": sizes, "figures": kept}, indent=1)
        file.write_text(text + "\n")
    if picture is not None:
        note_ = f"Median of {runs} runs on {versions['cores']} cores; Debezium {DEBEZIUM}, tuned"
        drawn = [each for each in figures if "memory" not in each.name]
        picture.write_text(svg(drawn, note_))


def _span(values: Sequence[float]) -> str:
    return f"{shown(min(values))} / {shown(middle(values))} / {shown(max(values))}"


def table(figures: list[Compared]) -> Table:
    """Least, median and most of each, and how many times as good cdcbus is."""
    found = Table("figure", "unit", "cdcbus", "Debezium", "ratio of medians")
    for each in figures:
        ours, peers = each.values["cdcbus"], each.values["Debezium"]
        ratio = middle(ours) / middle(peers)
        if each.is_less_better:
            ratio = middle(peers) / middle(ours)
        found.add_row(each.name, each.unit, _span(ours), _span(peers), f"{ratio:.2f}")
    return found


if __name__ == "__main__":
    main()
