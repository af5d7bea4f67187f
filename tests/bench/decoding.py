"""Where the processor time of a row change goes, from the server's bytes to the Kafka client's
queue: step by step, in one thread.

    .venv/bin/python -m tests.bench.decoding [--inserts 60000] [--home STACK] [--rounds 5]

The backlog is that of tests.bench.producer, read once from the stack's MariaDB and processed from
memory, so that no other process counts. Code that exists both in Python and compiled is measured in
turns; figures are the least time of all rounds, and the median of the ratios.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import click
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.kafka.record_key import Record, key_columns
from cdcbus.plugins.registry import make_converter
from cdcbus.producer.binlog import dump_stream
from cdcbus.producer.publish import native
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.publish.native import MakePlan
from cdcbus.producer.source import binlog_source
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.row_events import Rows
from tests.bench.backlog import Backlog, write
from tests.bench.figures import tell
from tests.bench.producer import FORMATS, fetch_task, until_the_end

BATCH_RECORDS = 1000


def seconds(work: Iterable[object]) -> float:
    """This thread's processor time for all steps of the work, whose results are not kept."""
    start = time.thread_time()
    for _ in work:
        pass
    return time.thread_time() - start


def _packet(event: bytes) -> bytes:
    """An event as the server sends it."""
    return (len(event) + 1).to_bytes(3, "little") + b"\0\0" + event


class Recorded:
    """The events of a backlog, as they came from the server."""

    def __init__(self, addresses: Addresses, backlog: Backlog) -> None:
        self._task = fetch_task(addresses.source, addresses.kafka, "", FORMATS[0])
        self._backlog = backlog
        self.rows: list[Rows] = []
        self.events: list[list[bytes]] = []
        with (
            patch.object(binlog_source, "open_stream", self._recording),
            BinlogSource(self._task) as opened,
        ):
            for batch in until_the_end(opened, backlog):
                for part in (*batch.closed, *batch.opened):
                    if isinstance(part, Rows):
                        self.rows.append(part)
        self.bytes = b"".join(map(_packet, chain.from_iterable(self.events)))

    def _recording(self, *arguments: Any) -> Iterator[list[bytes]]:
        for events in dump_stream.open_stream(*arguments):
            # A copy: the reader empties what it has read.
            self.events.append(list(events))
            yield events

    def packets(self) -> Iterator[object]:
        """The bytes from the socket to packets."""
        size = dump_stream.READ_BYTES
        chunks = (self.bytes[at : at + size] for at in range(0, len(self.bytes), size))
        with suppress(EOFError):
            yield from dump_stream.packets(lambda _: next(chunks, b""), size)

    def read_seconds(self) -> float:
        """Packets to row events and transaction boundaries."""
        with (
            patch.object(binlog_source, "open_stream", lambda *_: map(list, self.events)),
            BinlogSource(self._task) as opened,
        ):
            batches = until_the_end(opened, self._backlog)
            next(batches)  # once everything is requested from the server
            return seconds(batches)

    def records(self, name: str, make_plan: MakePlan | None) -> Iterator[list[Record]]:
        """Row events to records."""
        table, converter = self.rows[0].table, make_converter(name)
        writer = TableWriter(
            table,
            converter,
            key_columns(table.table, self._task.publish),
            lambda change: [],
            make_plan=make_plan,
        )
        return (writer.records(rows, 0)[0] for rows in self.rows)


def queue_seconds(records: list[Record]) -> float:
    """Records to the Kafka client's queue, which nothing empties."""
    options = {
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
        "delivery.report.only.error": True,
    }
    quiet = logging.getLogger("cdcbus.bench")
    quiet.setLevel(logging.CRITICAL)
    client = Producer(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "on_delivery": lambda *_: None,
            "logger": quiet,
            **options,
        }
    )
    batches = [records[at : at + BATCH_RECORDS] for at in range(0, len(records), BATCH_RECORDS)]
    used = seconds(client.produce_batch("bench", batch) for batch in batches)
    client.purge()
    return used


def _shown(number: float) -> str:
    return f"{number:.2f}" if number else ""


def _bench(
    addresses: Addresses, backlog: Backlog, per_transaction: int, rounds: int, console: Console
) -> None:
    title = f"{backlog.changes:,} row changes in transactions of {per_transaction}"
    recorded = Recorded(addresses, backlog)
    table = Table("step", "µs a change in Python", "compiled", "ratio", title=title)

    def add(step: str, in_python: float, compiled: float = 0.0, ratio: float = 0.0) -> None:
        in_us = in_python / backlog.changes * 1e6
        compiled_us = compiled / backlog.changes * 1e6
        table.add_row(step, _shown(in_us), _shown(compiled_us), _shown(ratio))

    def least(measure: Callable[[], float]) -> float:
        return min(measure() for _ in range(rounds))

    add("socket's bytes to packets", least(lambda: seconds(recorded.packets())))
    add("packets to row events", least(recorded.read_seconds))
    for name in FORMATS:
        in_python: list[float] = []
        compiled: list[float] = []
        ratios: list[float] = []
        # In turn, so that both ways meet the machine in the same state.
        for _ in range(rounds):
            in_python.append(seconds(recorded.records(name, None)))
            compiled.append(seconds(recorded.records(name, native.compiled)))
            ratios.append(in_python[-1] / compiled[-1])
        ratio = median(ratios)
        tell(f"{name} compiled, of Python, transactions of {per_transaction}", ratio)
        add(f"row events to records, {name}", min(in_python), min(compiled), ratio)
        records = list(chain.from_iterable(recorded.records(name, native.compiled)))
        used = least(lambda records=records: queue_seconds(records))  # type: ignore[misc]
        add(f"records to the Kafka client's queue, {name}", used)
    console.print(table)


@click.command()
@click.option("--inserts", default=60_000, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
@click.option("--rounds", default=5, show_default=True)
def main(inserts: int, home: Path | None, rounds: int) -> None:
    """Prints microseconds of processor time for each step."""
    console = Console(width=120)
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    try:
        addresses = up(place, Console(quiet=True))
        for per_transaction in (500, 1):
            backlog = write(addresses.source, inserts, per_transaction)
            _bench(addresses, backlog, per_transaction, rounds, console)
    finally:
        if home is None:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
