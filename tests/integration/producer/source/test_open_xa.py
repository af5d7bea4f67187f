"""An XA transaction that stays prepared is told of, as nothing gets on behind it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import PositionLost, SourceBehind
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.plugins.start import Edge
from cdcbus.plugins.task_status import State, TaskStatus
from cdcbus.producer import open_xa
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.row_events import Batch
from cdcbus.tasks.local.memory import MemoryPositions
from tests.integration.producer.reading import (
    changes_of,
    connect,
    fetch_task,
    position,
    read_batches,
)
from tests.integration.producer.running import Running
from tests.support.servers.private_mariadb import private_mariadb
from tests.support.topics.committed import committed_canal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def ids_of(batches: list[Batch]) -> list[str | None]:
    return [(change.after or {})["id"] for change in changes_of(batches)]


def works(status: TaskStatus) -> bool:
    status.observe(is_behind=False)
    return status.now == (State.WORKING, "")


@pytest.mark.parametrize(
    "transactional_id", ["", "cdcbus-xa"], ids=["without transactions", "in transactions"]
)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_task_says_which_xa_transaction_holds_it_up_and_works_again_once_it_is_finished(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    transactional_id: str,
    end: str,
) -> None:
    monkeypatch.setattr(open_xa, "OPEN_XA_SECONDS", 1.0)
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    task = replace(fetch_task(source, name, servers=kafka), start=Edge.LATEST)
    task = replace(
        task,
        publish=replace(
            task.publish, transactional_id=transactional_id and f"{transactional_id}-{name}"
        ),
    )
    positions, xid = MemoryPositions(), f"X'{name.encode().hex()}',X'',1"
    running = Running(task, positions)
    with closing(connect(source)) as connection, connection.cursor() as other, running:
        running.until(lambda: running.progress.position is not None)
        for statement in (
            f"USE {name}",
            f"XA START '{name}'",
            "INSERT INTO t VALUES (1)",
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
        ):
            other.execute(statement)
        source_cursor.execute("INSERT INTO t VALUES (2)")
        wait_until(lambda: running.status.now[0] is State.RETRYING, "it to be reported")
        assert f"task {name} waits for XA transaction {xid}, prepared " in running.status.now[1]
        other.execute(f"XA {end} '{name}'")
        running.until_stored(position(source_cursor))
        wait_until(lambda: works(running.status), "it to work again")
    sent = [int(record["data"][0]["id"]) for record in committed_canal(kafka, name)]
    assert sent == ([2, 1] if end == "COMMIT" else [2])


def test_an_xa_transaction_stays_prepared_beyond_a_file_that_breaks_off() -> None:
    """Its position stays before it, and nothing is sent again from there."""
    with private_mariadb() as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        start = server.execute("FLUSH BINARY LOGS")
        server.execute(
            "XA START 'a'", "INSERT INTO shop.t VALUES (1)", "XA END 'a'", "XA PREPARE 'a'"
        )
        server.execute("INSERT INTO shop.t VALUES (2)")
        broken = server.execute("INSERT INTO shop.t VALUES (100)")
        server.kill()
        os.truncate(server.binlog(broken.file), broken.pos - 10)
        server.start()
        task = fetch_task(server.database, "shop")
        read_to = server.execute("INSERT INTO shop.t VALUES (3)")
        batches = read_batches(task, start, read_to)
        assert ids_of(batches) == ["2", "3"]
        stored = batches[-1].edge
        assert stored is not None
        assert (stored.file, stored.pos) == (start.file, start.pos)
        assert stored.published is not None
        assert stored.published.file == read_to.file
        with BinlogSource(task) as source:
            assert source.locate(stored).published == stored.published
            another = replace(stored.published, file_created_ms=1000)
            with pytest.raises(PositionLost, match=f"its {read_to.file} is of"):
                source.locate(replace(stored, published=another))
        end = server.execute("INSERT INTO shop.t VALUES (4)", "XA COMMIT 'a'")
        assert ids_of(read_batches(task, stored, end)) == ["4", "1"]


def test_a_server_that_took_over_without_what_is_published_ahead_is_not_read() -> None:
    """It has given the numbers of the missing transactions to its own."""
    with private_mariadb() as server:
        server.execute(
            "RESET MASTER",
            "SET SESSION server_id = 1, gtid_seq_no = 100",
            "CREATE DATABASE shop",
            "SET SESSION gtid_seq_no = 130",
            "CREATE TABLE shop.t (id INT PRIMARY KEY)",
            "SET SESSION server_id = 2, gtid_seq_no = 160",
            "INSERT INTO shop.t VALUES (1)",
        )
        stored = BinlogPosition("other-bin.000009", 4, gtid="0-1-100", server_uuid="server-id-7")
        with BinlogSource(fetch_task(server.database, "shop")) as source:
            had = replace(stored, published=Published("other-bin.000009", 900, "0-1-130"))
            assert source.locate(had).published == had.published
            for gtid, error in (("0-1-150", PositionLost), ("0-1-170", SourceBehind)):
                lacks = replace(stored, published=Published("other-bin.000009", 999, gtid))
                with pytest.raises(error, match=f"has not executed {gtid}") as raised:
                    source.locate(lacks)
                assert type(raised.value) is error
