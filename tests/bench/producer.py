"""How fast a binlog gets to Kafka, beside what python-mysql-replication needs only to decode it:
all in one run, as ratios.

    .venv/bin/python -m tests.bench.producer [--inserts 400000] [--home STACK] [--rounds 1]

The backlog is read from the stack's MariaDB: inserts, half as many updates, a tenth as many deletes
of a ten-column table, once in transactions of 500 row changes and once of 1. Each measurement runs
in a process of its own, without the compiled part and with it in turn. `own thread` is the part of
the processor time that decodes and queues; the rest is the Kafka client's.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any

import click
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from rich.console import Console
from rich.table import Table

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import key_columns
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.row_events import Batch, Rows
from tests.bench.backlog import SCHEMA, Backlog, write
from tests.bench.figures import tell

FORMATS = ("canalRow", "oggJson")
PEER = "python-mysql-replication, decoding"


def fetch_task(source: Database, kafka: str, topic: str, converter: str) -> FetchTask:
    config = SourceConfig(((source.host, source.port),), source.user, source.password)
    return FetchTask(
        topic,
        topic,
        config,
        FilterConfig(regexes=(rf"{SCHEMA}\..*",)),
        PublishConfig(kafka, topic, converter),
    )


def until_the_end(source: BinlogSource, backlog: Backlog) -> Iterator[Batch]:
    """What the source yields up to the backlog's end."""
    for batch in source.batches(backlog.start):
        yield batch
        if batch.edge is not None and (batch.edge.file, batch.edge.pos) >= (
            backlog.end.file,
            backlog.end.pos,
        ):
            return


def peer(source: Database, backlog: Backlog) -> int:
    """Row changes that python-mysql-replication decodes."""
    reader = BinLogStreamReader(
        connection_settings={
            "host": source.host,
            "port": source.port,
            "user": source.user,
            "passwd": source.password,
        },
        server_id=90_001,
        blocking=False,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        log_file=backlog.start.file,
        log_pos=backlog.start.pos,
        resume_stream=True,
    )
    rows = 0
    for event in reader:
        rows += len(event.rows)
        if rows == backlog.changes:
            break
    reader.close()
    return rows


def decode(task: FetchTask, backlog: Backlog) -> int:
    """Row changes decoded and written as records, which are discarded."""
    converter = make_converter(task.publish.converter)
    writers: dict[Any, TableWriter] = {}
    count = 0
    with BinlogSource(task) as source:
        for batch in until_the_end(source, backlog):
            for rows in (part for part in (*batch.closed, *batch.opened) if isinstance(part, Rows)):
                writer = writers.get(rows.table)
                if writer is None:
                    key = key_columns(rows.table.table, task.publish)
                    writer = writers[rows.table] = TableWriter(
                        rows.table, converter, key, lambda change: []
                    )
                count += writer.records(rows, 0)[1]
    return count


def publish(task: FetchTask, backlog: Backlog) -> int:
    """Row changes decoded, written, sent, and acknowledged."""
    count = 0
    with (
        BinlogSource(task) as source,
        KafkaPublisher(task.publish, make_converter(task.publish.converter), Event()) as publisher,
    ):
        for batch in until_the_end(source, backlog):
            count += publisher.send(batch.closed) + publisher.send(batch.opened)
        publisher.flush()
    return count


def _measured(
    what: str, source: Database, kafka: str, topic: str, converter: str, backlog: Backlog
) -> dict[str, float]:
    """Runs one measurement in this process."""
    task = fetch_task(source, kafka, topic, converter)
    before = resource.getrusage(resource.RUSAGE_SELF)
    start, own = time.perf_counter(), time.thread_time()
    if what == "peer":
        count = peer(source, backlog)
    else:
        count = {"decode": decode, "publish": publish}[what](task, backlog)
    seconds, own_seconds = time.perf_counter() - start, time.thread_time() - own
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "count": count,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "own_seconds": own_seconds,
        "rss_mb": after.ru_maxrss / 1024,
    }


def _in_a_process(*arguments: Any, is_compiled: bool) -> dict[str, float]:
    what, source, kafka, topic, converter, backlog = arguments
    text = json.dumps([what, asdict(source), kafka, topic, converter, asdict(backlog)])
    command = [sys.executable, "-m", "tests.bench.producer", "--measure", text]
    environment = {**os.environ, "CDCBUS_PURE_PYTHON": "" if is_compiled else "1"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measure(text: str) -> None:
    what, source, kafka, topic, converter, backlog = json.loads(text)
    for edge in ("start", "end"):
        backlog[edge] = BinlogPosition(**backlog[edge])
    found = _measured(what, Database(**source), kafka, topic, converter, Backlog(**backlog))
    click.echo(json.dumps(found))


def _bench(addresses: Addresses, backlog: Backlog, per_transaction: int, console: Console) -> None:
    title = f"{backlog.changes:,} row changes in transactions of {per_transaction}"
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    cases = [(PEER, "peer", "", True)]
    for words, what in (("decoding", "decode"), ("into Kafka", "publish")):
        for name, is_compiled in product(FORMATS, (False, True)):
            cases.append(
                (
                    f"cdcbus, {words}, {name}{', compiled' if is_compiled else ''}",
                    what,
                    name,
                    is_compiled,
                )
            )
    table = Table(
        "what",
        "changes/s",
        "ratio",
        "CPU s per s",
        "changes per CPU s",
        "in own thread",
        "RSS MB",
        title=title,
    )
    base = 0.0
    for label, what, converter, is_compiled in cases:
        topic = f"bench-{time.time_ns()}"
        for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
            future.result()
        found = _in_a_process(
            what,
            addresses.source,
            addresses.kafka,
            topic,
            converter,
            backlog,
            is_compiled=is_compiled,
        )
        for future in admin.delete_topics([topic]).values():
            future.result()
        if found["count"] != backlog.changes:
            raise click.ClickException(
                f"{label}: {found['count']} of {backlog.changes} row changes"
            )
        rate = found["count"] / found["seconds"]
        base = base or rate
        if what != "peer":
            name = f"{label}, beside python-mysql-replication, of {per_transaction}"
            tell(name, rate / base)
            if is_compiled:
                name = f"{label}, processor, of {per_transaction}, 1,000,000 changes"
                tell(name, found["cpu_seconds"] / found["count"] * 1e6, "s", is_less_better=True)
        table.add_row(
            label,
            f"{rate:,.0f}",
            f"{rate / base:.2f}",
            f"{found['cpu_seconds'] / found['seconds']:.2f}",
            f"{found['count'] / found['cpu_seconds']:,.0f}",
            f"{found['count'] / found['own_seconds']:,.0f}",
            f"{found['rss_mb']:.0f}",
        )
    console.print(table)


@click.command()
@click.option("--inserts", default=400_000, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
@click.option("--rounds", default=1, show_default=True)
@click.option("--measure", hidden=True)
def main(inserts: int, home: Path | None, rounds: int, measure: str | None) -> None:
    """Prints rates, ratios, CPU and memory."""
    if measure is not None:
        _measure(measure)
        return
    console = Console(width=120)
    own = home is None
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    try:
        addresses = up(place, Console(quiet=True))
        for per_transaction in (500, 1):
            backlog = write(addresses.source, inserts, per_transaction)
            for _ in range(rounds):
                _bench(addresses, replace(backlog), per_transaction, console)
    finally:
        if own:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
