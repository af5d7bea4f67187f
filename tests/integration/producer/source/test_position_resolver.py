"""Where reading starts: by time, by GTIDs, by file and place, and what is not there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import Written
from cdcbus.plugins.errors import (
    ConfigError,
    PositionLost,
    SourceBehind,
    SourceMisconfigured,
    SourceUnavailable,
)
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import AtGtid, AtTime, BinlogStart, Edge
from cdcbus.producer.config import FetchTask
from cdcbus.producer.server.connection import binlog_files, now_ms
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.row_events import Batch
from cdcbus.producer.start import start_position
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions
from tests.integration.producer.reading import (
    IDLE_LIMIT,
    changes_of,
    connect,
    fetch_task,
    position,
    read_batches,
)
from tests.support.servers.private_mariadb import private_mariadb
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.source]

ELSEWHERE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.fixture
def task(source: Database, name: str) -> FetchTask:
    return fetch_task(source, name)


@pytest.fixture
def transactions(source_cursor: Cursor, task: FetchTask, full_metadata: None) -> list[Batch]:
    """The ends of six transactions in four files, each in a second of its own; each inserts its
    number."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with BinlogSource(task) as source:
        start = source.locate(Edge.LATEST)
    for number in range(6):
        second = now_ms(source_cursor.connection) // 1000
        wait_until(lambda s=second: now_ms(source_cursor.connection) // 1000 > s, "the next second")  # type: ignore[misc]
        source_cursor.execute("INSERT INTO t VALUES (%s)", (number,))
        if number % 2 == 0:
            source_cursor.execute("FLUSH BINARY LOGS")
    found = [batch for batch in read_batches(task, start, position(source_cursor)) if batch.closed]
    assert [change.after for change in changes_of(found)] == [
        {"id": str(number)} for number in range(6)
    ]
    return found


def edge(batch: Batch) -> BinlogPosition:
    assert batch.edge is not None
    return batch.edge


def numbers(task: FetchTask, start: BinlogStart, end: BinlogPosition) -> list[int]:
    """The numbers that are read from there up to a position."""
    with BinlogSource(task) as source:
        place = source.locate(start)
        found: list[Batch] = []
        for batch in source.batches(place):
            found.append(batch)
            assert len(found) < IDLE_LIMIT, f"reading from {place} does not reach {end}"
            if batch.edge is not None and (batch.edge.file, batch.edge.pos) >= (end.file, end.pos):
                return [int((change.after or {})["id"] or 0) for change in changes_of(found)]
    raise AssertionError("the source ended")


def test_a_time_starts_with_the_first_transaction_of_that_time_or_later(
    task: FetchTask, transactions: list[Batch], is_mariadb: bool
) -> None:
    end = edge(transactions[-1])
    step_ms = 1000 if is_mariadb else 1  # what the server says of commit times
    for number, batch in enumerate(transactions):
        at = edge(batch).timestamp_ms
        assert numbers(task, AtTime(at), end) == list(range(number, 6))
        if not is_mariadb:
            assert numbers(task, AtTime(at - 1), end) == list(range(number, 6))
        assert numbers(task, AtTime(at + step_ms - 1), end) == list(range(number, 6))
        if number < 5:
            assert numbers(task, AtTime(at + step_ms), end) == list(range(number + 1, 6))


def test_a_time_since_which_nothing_was_committed_is_the_end(
    task: FetchTask, transactions: list[Batch], source_cursor: Cursor
) -> None:
    wait_until(
        lambda: now_ms(source_cursor.connection) > edge(transactions[-1]).timestamp_ms + 1000,
        "the second after the last commit",
    )
    with BinlogSource(task) as source:
        found, end = (
            source.locate(AtTime(edge(transactions[-1]).timestamp_ms + 1000)),
            position(source_cursor),
        )
    assert (found.file, found.pos) == (end.file, end.pos)


def test_what_is_being_committed_is_after_a_time_before_it(
    task: FetchTask, transactions: list[Batch], source_cursor: Cursor, is_mariadb: bool
) -> None:
    """MySQL names the end of its binlog before that is on disk, and sends nothing of it until
    then."""
    if is_mariadb:
        pytest.skip("MariaDB sends what it names")
    wait_until(
        lambda: now_ms(source_cursor.connection) > edge(transactions[-1]).timestamp_ms + 1000,
        "the second after the last commit",
    )
    at = AtTime(now_ms(source_cursor.connection))
    source_cursor.execute("SELECT @@GLOBAL.sync_binlog")
    [[synced]] = source_cursor.fetchall()
    source_cursor.execute(
        "SET GLOBAL sync_binlog = 1, GLOBAL binlog_group_commit_sync_delay = 1000000"
    )
    try:
        before = position(source_cursor)
        with ThreadPoolExecutor(1) as pool, BinlogSource(task) as source:
            inserting = pool.submit(source_cursor.execute, "INSERT INTO t VALUES (7)")
            time.sleep(0.3)
            found = source.locate(at)
            inserting.result()
    finally:
        source_cursor.execute(
            "SET GLOBAL sync_binlog = %s, GLOBAL binlog_group_commit_sync_delay = 0", (synced,)
        )
    assert (found.file, found.pos) == (before.file, before.pos)


def test_a_time_to_come_is_refused(task: FetchTask, source_cursor: Cursor) -> None:
    with (
        BinlogSource(task) as source,
        pytest.raises(ConfigError, match="2100-01-01 00:00:00 UTC has not come yet at source"),
    ):
        source.locate(AtTime(4_102_444_800_000))


@pytest.mark.parametrize("rule", [Edge.EARLIEST, Edge.LATEST])
def test_a_time_before_the_binlog_is_a_lost_position(
    task: FetchTask, source_cursor: Cursor, rule: Edge
) -> None:
    first = binlog_files(source_cursor.connection)[0][0]
    positions = MemoryPositions()
    task = replace(task, start=AtTime(1_000_000_000_000))
    gap = rf"begins with {first} at 20.* UTC, after the wanted 2001-09-09 01:46:40 UTC"
    with BinlogSource(task) as source, pytest.raises(PositionLost, match=gap):
        start_position(task, positions, source)
    task = replace(task, on_position_lost=rule)
    with BinlogSource(task) as source:
        assert start_position(task, positions, source) == (source.locate(rule), False)


def test_every_edge_says_what_the_server_has_executed(
    transactions: list[Batch], source_cursor: Cursor, is_mariadb: bool
) -> None:
    for batch in transactions:
        here = edge(batch)
        if is_mariadb:
            source_cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (here.file, here.pos))
            assert source_cursor.fetchall() == ((here.gtid,),)
        else:
            source_cursor.execute("SELECT GTID_SUBSET(%s, @@gtid_executed)", (here.gtid,))
            assert source_cursor.fetchall() == ((1,),)
    if not is_mariadb:
        source_cursor.execute("SELECT REPLACE(@@gtid_executed, '\n', '')")
        assert source_cursor.fetchall() == ((edge(transactions[-1]).gtid,),)


def test_a_gtid_set_starts_with_what_is_not_in_it(
    task: FetchTask, transactions: list[Batch]
) -> None:
    end = edge(transactions[-1])
    for number, batch in enumerate(transactions[:-1], 1):
        assert numbers(task, AtGtid(edge(batch).gtid), end) == list(range(number, 6))


def test_a_position_of_another_server_goes_on_by_its_gtids(
    task: FetchTask, transactions: list[Batch]
) -> None:
    end = edge(transactions[-1])
    for number, batch in enumerate(transactions[:-1], 1):
        elsewhere = replace(edge(batch), file="elsewhere.000999", pos=77, server_uuid=ELSEWHERE)
        assert numbers(task, elsewhere, end) == list(range(number, 6))


def test_the_server_is_named_again_once_all_of_a_gtid_set_is_behind(
    task: FetchTask, transactions: list[Batch]
) -> None:
    """A restart in between goes by GTIDs as well."""
    first, end = edge(transactions[0]), edge(transactions[-1])
    found: list[BinlogPosition] = []
    with BinlogSource(task) as source:
        for batch in source.batches(source.locate(replace(first, server_uuid=ELSEWHERE))):
            if batch.edge:
                found.append(batch.edge)
            if found and (found[-1].file, found[-1].pos) == (end.file, end.pos):
                break
    assert found[-1] == end
    for place in found[:-1]:
        later = []
        for number in range(6):
            known = edge(transactions[number])
            if known.pos > place.pos or known.file > place.file:
                later.append(number)
        assert numbers(task, place, end) == later


def test_a_position_of_another_server_without_gtids_goes_on_a_minute_before_its_time(
    task: FetchTask, transactions: list[Batch], caplog: pytest.LogCaptureFixture
) -> None:
    end = edge(transactions[-1])
    elsewhere = replace(
        end,
        gtid="",
        server_uuid=ELSEWHERE,
        timestamp_ms=edge(transactions[2]).timestamp_ms + 60_000,
    )
    assert numbers(task, elsewhere, end) == [2, 3, 4, 5]
    assert "what was committed from there" in caplog.text
    with (
        BinlogSource(task) as source,
        pytest.raises(PositionLost, match="neither GTIDs nor a commit time"),
    ):
        source.locate(replace(elsewhere, timestamp_ms=0))


def test_a_position_of_a_server_whose_clock_is_ahead_goes_on_by_that_clock(
    task: FetchTask, source_cursor: Cursor, full_metadata: None, is_mariadb: bool
) -> None:
    """Files are dated by this server, transactions by the one where they were committed first."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    second = now_ms(source_cursor.connection) // 1000
    seconds = [second + 4, second + 6, second + 8]
    for number, second in enumerate(seconds):
        if number:
            source_cursor.execute("FLUSH BINARY LOGS")
        if is_mariadb:
            source_cursor.execute("SET timestamp = %s", (second,))
        else:
            source_cursor.execute("SET original_commit_timestamp = %s", (second * 1_000_000,))
        source_cursor.execute("INSERT INTO t VALUES (%s)", (number,))
    end = position(source_cursor)
    elsewhere = replace(end, gtid="", server_uuid=ELSEWHERE)
    for number, second in enumerate(seconds):
        # a minute is read again
        last = replace(elsewhere, timestamp_ms=second * 1000 + 59_000)
        assert numbers(task, last, end) == list(range(number, 3))
    # Others that look for a time must not find these first.
    source_cursor.execute("SET timestamp = DEFAULT")
    wait_until(
        lambda: now_ms(source_cursor.connection) > seconds[-1] * 1000 + 1000, "their times to come"
    )


def test_a_place_and_a_time_have_their_gtids(task: FetchTask, transactions: list[Batch]) -> None:
    """So that another server goes on from them by GTIDs, before the next file is begun."""
    with BinlogSource(task) as source:
        for batch in transactions:
            here = edge(batch)
            assert source.locate(BinlogPosition(here.file, here.pos)).gtid == here.gtid
        before, last = edge(transactions[0]), edge(transactions[1])
        assert source.locate(AtTime(last.timestamp_ms)).gtid == before.gtid


def test_gtids_that_the_server_does_not_have_are_lost(
    task: FetchTask, source_cursor: Cursor, is_mariadb: bool
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    gtid = "0-1-99999999" if is_mariadb else f"{ELSEWHERE}:1-5"
    with (
        BinlogSource(task) as source,
        pytest.raises(SourceBehind, match=f"has not executed {gtid}, .*: it is behind"),
    ):
        source.locate(AtGtid(gtid))


def test_a_server_that_is_behind_is_waited_for_whatever_the_task_file_says_of_lost_positions(
    task: FetchTask, source_cursor: Cursor, is_mariadb: bool
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    gtid = "0-1-99999999" if is_mariadb else f"{ELSEWHERE}:1-5"
    positions = MemoryPositions()
    elsewhere = BinlogPosition("mysql-bin.000001", 4, gtid=gtid, server_uuid=ELSEWHERE)
    positions.save(elsewhere.to_json())
    task = replace(task, on_position_lost=Edge.EARLIEST)
    with BinlogSource(task) as source, pytest.raises(SourceBehind):
        start_position(task, positions, source)


def test_a_place_that_is_edited_beside_its_gtids_is_where_reading_starts(
    task: FetchTask, transactions: list[Batch]
) -> None:
    """After a failover, a position names no server, and the GTIDs count."""
    wanted, last = edge(transactions[0]), edge(transactions[-1])
    node, was = MemoryNode(), replace(last, server_uuid="", file_created_ms=0)
    node.write(Written(was.to_json()))
    node.set(replace(was, file=wanted.file, pos=wanted.pos).to_json().encode())
    with BinlogSource(task) as source:
        start, _ = start_position(task, MemoryPositions(node), source)
    assert (start.file, start.pos, start.gtid) == (wanted.file, wanted.pos, wanted.gtid)


@pytest.mark.parametrize("pos", [0, 3])
def test_a_place_before_the_first_event_is_the_files_beginning(
    task: FetchTask, transactions: list[Batch], pos: int
) -> None:
    """So canal and others take it."""
    file = edge(transactions[1]).file
    found = numbers(task, BinlogPosition(file, pos), edge(transactions[-1]))
    assert found == numbers(task, BinlogPosition(file, 4), edge(transactions[-1])) != []


def test_a_file_of_the_same_name_that_is_another_one_is_not_read(
    task: FetchTask, transactions: list[Batch]
) -> None:
    here = edge(transactions[0])
    with BinlogSource(task) as source:
        assert source.locate(here) == here
        with pytest.raises(
            PositionLost,
            match=f"does not hold {here}, committed 20.* begins at 20.*; its {here.file} is of "
            "20.*, the one that was read of 20",
        ):
            source.locate(replace(here, file_created_ms=here.file_created_ms - 1000))


def test_a_position_whose_gtids_the_server_has_lost_is_not_read(
    task: FetchTask, transactions: list[Batch], is_mariadb: bool
) -> None:
    """As after a reset of the binlog within one second."""
    if is_mariadb:
        pytest.skip("MariaDB has no function for it")
    here = edge(transactions[0])
    with (
        BinlogSource(task) as source,
        pytest.raises(PositionLost, match=f"has not executed {ELSEWHERE}:1"),
    ):
        source.locate(replace(here, gtid=f"{here.gtid},{ELSEWHERE}:1"))


def test_looking_for_a_place_does_not_end_a_reader(
    task: FetchTask, transactions: list[Batch]
) -> None:
    """Servers end a reader when another one comes with its server id."""
    with BinlogSource(task) as source:
        batches: Iterator[Batch] = source.batches(edge(transactions[0]))
        next(batches)
        with BinlogSource(task) as other:
            for start in (
                AtTime(edge(transactions[1]).timestamp_ms),
                AtGtid(edge(transactions[1]).gtid),
                Edge.LATEST,
            ):
                other.locate(start)
        for _ in range(5):
            next(batches)


def test_gtids_where_the_server_has_none_are_refused(task: FetchTask) -> None:
    with BinlogSource(task) as source:
        source._server = replace(source._server, has_gtids=False)
        with pytest.raises(SourceMisconfigured, match="gtid_mode is not ON"):
            source.locate(AtGtid(f"{ELSEWHERE}:1-5"))


def test_a_binlog_file_that_is_gone_from_the_disk_hides_no_time_behind_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after rm; the list of files still has it."""
    with private_mariadb() as server, connect(server.database) as connection:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        places: list[tuple[BinlogPosition, int]] = []
        for number in range(4):
            second = now_ms(connection) // 1000
            wait_until(lambda s=second: now_ms(connection) // 1000 > s, "the next second")  # type: ignore[misc]
            at_ms = now_ms(connection)
            end = server.execute("FLUSH BINARY LOGS", f"INSERT INTO shop.t VALUES ({number})")
            places.append((end, at_ms))
        server.binlog(places[1][0].file).unlink()
        with BinlogSource(fetch_task(server.database, "shop")) as source:
            found = source.locate(AtTime(places[3][1]))
            assert (found.file, places[1][0].file in caplog.text) == (places[3][0].file, True)
            with pytest.raises(SourceUnavailable, match=f"^{places[1][0].file}:4: "):
                source.locate(AtTime(places[1][1]))
