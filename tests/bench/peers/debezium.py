"""Debezium's MariaDB source and JDBC sink by Kafka Connect, tuned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cdcbus.ops.stack.addresses import Addresses
from tests.bench.backlog import SCHEMA
from tests.bench.peers.connect import TARGET_SCHEMA, Jars, connect, sink_settings, source_settings
from tests.bench.peers.work import TABLE, Peer


def debezium(jars: Jars, addresses: Addresses, name: str) -> Peer:
    """`name`: the prefix of its topics."""

    @contextmanager
    def running(folder: Path, half: str, prefix: str, mode: str = "") -> Iterator[list[int]]:
        own = folder / f"{prefix}-{half}"
        own.mkdir(exist_ok=True)
        settings: Mapping[str, str]
        if half == "sink":
            settings = sink_settings(addresses, prefix, TABLE)
        else:
            settings = source_settings(addresses, prefix, own, TABLE, mode)
        with connect(jars, addresses, own, settings) as pid:
            yield [pid]

    return Peer(
        "Debezium",
        f"{name}.{SCHEMA}.{TABLE}",
        f"{name}s.{SCHEMA}.{TABLE}",
        TARGET_SCHEMA,
        lambda folder: running(folder, "source", name, "no_data"),
        lambda folder: running(folder, "source", f"{name}s", "initial"),
        lambda folder: running(folder, "sink", name),
    )
