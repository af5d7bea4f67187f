"""Snapshots of many tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import SnapshotMode
from cdcbus.producer.snapshot.progress import TableState
from tests.integration.producer.reading import fetch_task
from tests.integration.producer.running import canal
from tests.integration.producer.snapshot.following import SnapshotRunning
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
TABLES = 500
PATIENCE_SECONDS = 300.0


def test_each_of_many_tables_is_read_those_without_rows_too(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    """Every fifth is empty, every seventh has no key. Some 20 s: 500 tables are made first."""
    make_topic(name, 3)
    names = [f"t{number}" for number in range(TABLES)]
    tables = [TableId(name, each) for each in names]
    for number, each in enumerate(names):
        key = "" if number % 7 == 0 else " PRIMARY KEY"
        source_cursor.execute(f"CREATE TABLE {each} (id INT{key}, n INT)")
        if number % 5:
            source_cursor.execute(f"INSERT INTO {each} VALUES (1, {number}), (2, {number})")
    task = replace(
        fetch_task(source, name, servers=kafka), start=Edge.LATEST, snapshot=SnapshotMode.ONLY
    )
    with SnapshotRunning(task, positions) as running:
        wait_until(
            lambda: (
                running.kept.load().keys() == set(tables)
                and {each.state for each in running.kept.load().values()} == {TableState.DONE}
            ),
            "the snapshots to be done",
            PATIENCE_SECONDS,
        )
        running.ends()
        known = running.kept.load()
    empty = {number for number, table in enumerate(tables) if not known[table].rows}
    assert empty == {*range(0, TABLES, 5)}
    found: dict[str, list[tuple[str, str]]] = {}
    for record in canal(kafka, name):
        rows = found.setdefault(record["table"], [])
        rows += [(row["id"], row["n"]) for row in record["data"]]
    assert {each: sorted(rows) for each, rows in found.items()} == {
        each: [("1", str(number)), ("2", str(number))]
        for number, each in enumerate(names)
        if number % 5
    }
