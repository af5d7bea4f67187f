"""A source that fails over to another server while a snapshot is under way; the servers are the
test's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from cdcbus.plugins.start import Edge
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import SnapshotMode
from cdcbus.producer.snapshot import chunk_thread
from cdcbus.producer.snapshot.reader import ChunkReader
from cdcbus.tasks.local.memory import MemoryPositions
from tests.integration.producer.reading import connect, fetch_task
from tests.integration.producer.snapshot.following import SnapshotRunning, tables_in
from tests.support.servers.mariadb_pair import (
    REPLICA,
    REPLICA_PASSWORD,
    access_for_replicas,
    replicating,
)
from tests.support.servers.private_mariadb import PrivateMariadb, private_mariadb
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ROWS = 1_000


def content(server: PrivateMariadb, name: str) -> dict[str, str]:
    with connect(server.database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id, n FROM {name}.t")
        return {str(id_): str(n) for id_, n in cursor.fetchall()}


def test_the_other_server_is_read_from_the_last_chunk_on(
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rows change on both, before and behind the place where the snapshot is."""
    make_topic(name, 3)
    monkeypatch.setattr(chunk_thread, "FIRST_ROWS", 100)
    monkeypatch.setattr(chunk_thread, "CHUNK_BYTES", 1_000)
    caplog.set_level("INFO", "cdcbus.producer")
    with (
        private_mariadb() as first,
        private_mariadb("--server-id=2", "--log-slave-updates") as second,
    ):
        first.execute(
            *access_for_replicas(),
            f"CREATE DATABASE {name}",
            f"USE {name}",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, n INT)",
            f"INSERT INTO {name}.t SELECT seq, 0 FROM seq_1_to_{ROWS}",
        )
        second.execute("FLUSH BINARY LOGS", *replicating(first))

        def has_all() -> bool:
            try:
                return content(second, name) == content(first, name)
            except Exception:  # not even the table yet
                return False

        wait_until(has_all, "the second server to have the rows")
        task = fetch_task(first.database, name, servers=kafka)
        places = tuple((each.database.host, each.database.port) for each in (first, second))
        source = replace(
            task.source,
            addresses=places,
            user=REPLICA,
            password=REPLICA_PASSWORD,
            connect_timeout_seconds=2.0,
        )
        task = replace(task, source=source, start=Edge.LATEST, snapshot=SnapshotMode.INITIAL)
        chunks, read = count(), ChunkReader._high

        def fails_over(reader: ChunkReader) -> tuple[BinlogCoordinates, int]:
            if next(chunks) == 2:  # behind its SELECT
                first.execute(
                    f"UPDATE {name}.t SET n = 1 WHERE id % 10 = 0",
                    f"DELETE FROM {name}.t WHERE id % 10 = 1",
                )
                wait_until(has_all, "the second server to follow")
                first.kill()
                second.execute(
                    "STOP SLAVE",
                    f"UPDATE {name}.t SET n = n + 2 WHERE id % 10 IN (0, 2)",
                    f"DELETE FROM {name}.t WHERE id % 10 = 3",
                    f"INSERT INTO {name}.t VALUES ({ROWS + 1}, 7), (1, 8)",
                )
            return read(reader)

        monkeypatch.setattr(ChunkReader, "_high", fails_over)
        with SnapshotRunning(task, MemoryPositions()) as running:
            done = running.until_snapshot("t")
            end = second.execute(f"UPDATE {name}.t SET n = 9 WHERE id = 2")
            running.until(
                lambda: (
                    running.progress.position is not None
                    and (running.progress.position.file, running.progress.position.pos)
                    == (end.file, end.pos)
                )
            )
        assert done.chunks > 3
        assert f"trying source {places[1][0]}:{places[1][1]}" in caplog.text
        found = {key[0]: str(row["n"]) for key, row in tables_in(kafka, name)["t"].items()}
        assert found == content(second, name)
