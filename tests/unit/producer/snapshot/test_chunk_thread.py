"""What is read of tables, in which steps, and what happens when it cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import pymysql
import pytest

from cdcbus.plugins.errors import (
    SourceUnavailable,
    UnreadableEvent,
)
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import (
    SnapshotMode,
)
from cdcbus.producer.schema.schema_reader import HiddenColumns
from cdcbus.producer.snapshot import chunk_thread
from cdcbus.producer.snapshot.chunk_thread import CHUNKS_AHEAD, TRIES
from cdcbus.producer.snapshot.chunks import CHUNK_BYTES, Bound
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import (
    TableProgress,
    TableState,
    WishKind,
)
from cdcbus.producer.snapshot.reader import Read, SpoolError, VisibilityUnknown
from cdcbus.producer.source.row_events import Batch, Rows
from tests.unit.producer.snapshot.world import ITEMS, ORDERS, World, inserts, selected


def test_wide_rows_are_read_in_few_at_once(world: World) -> None:
    world.row_bytes = CHUNK_BYTES
    world.run()
    assert world.asked[0][2] == 1
    assert world.ids() == [1, 2, 3, 4, 5]


def test_reading_begins_at_a_boundary_of_the_stream(world: World) -> None:
    world.begin()
    world.passes(Batch([], None, list(inserts(9))))()
    world.high = 300
    world.run(world.reaches(300))
    assert set(world.settled) == {300}
    assert world.ids() == [1, 2, 3, 4, 5]


def test_no_more_chunks_are_read_ahead_than_may_wait(world: World) -> None:
    world.row_bytes = CHUNK_BYTES
    world.rows = {ORDERS: list(range(1, 1_000))}
    world.high = 200
    seen: list[int] = []
    world.run(lambda: seen.append(len(world.asked)), world.reaches(200), world.acknowledge)
    assert seen == [CHUNKS_AHEAD]
    assert world.ids() == list(range(1, 1_000))


def test_a_table_paused_while_it_is_described_is_read_whole_once_resumed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe, pause = world.describe, [world.wish(WishKind.PAUSE)]

    def described(table: TableId) -> SelectedTable | None:
        if pause:
            pause.pop()()
        return describe(table)

    monkeypatch.setattr(world, "describe", described)
    world.run(world.wish(WishKind.RESUME))
    done = world.progress()
    assert (done.state, done.until, done.estimated_rows) == (TableState.DONE, ("5",), 5)
    assert done.started_ms


@pytest.mark.parametrize("after", [("2", "3"), ("1 OR 1=1",)])
def test_a_stored_bound_of_another_key_begins_the_table_anew(world: World, after: Bound) -> None:
    world.store.tables[ORDERS] = TableProgress(
        TableState.RUNNING, 2, after=after, until=after, started_ms=1
    )
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.progress().until == ("5",)


def test_a_table_without_a_key_is_read_again_when_it_was_changed_meanwhile(world: World) -> None:
    world.without_key = {ORDERS}
    world.during = [world.is_changed(6)]
    world.run()
    assert (world.reads, world.ids()) == (2, [1, 2, 3, 4, 5])


def test_a_table_without_a_key_that_never_rests_fails_and_sends_nothing(world: World) -> None:
    world.without_key = {ORDERS}
    world.during = [world.is_changed(number) for number in range(TRIES)]
    world.run()
    assert world.ids() == []
    assert world.progress().state is TableState.FAILED
    assert f"each of the {TRIES} times" in world.progress().reason


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (pymysql.ProgrammingError(1146, "x"), TableState.DROPPED, "no longer exists"),
        (pymysql.OperationalError(1142, "x"), TableState.FAILED, "may not read it (1142)"),
        (pymysql.ProgrammingError(1064, "x"), TableState.FAILED, "refuses to read it (1064)"),
        (pymysql.ProgrammingError(), TableState.FAILED, "refuses to read it (0)"),
        (
            pymysql.OperationalError(1054, "Unknown column 'x' in 'WHERE'"),
            TableState.FAILED,
            "refuses to read it (1054: Unknown column 'x' in 'WHERE')",
        ),
        (pymysql.OperationalError(1525, "secret"), TableState.FAILED, "refuses to read it (1525)"),
        (UnreadableEvent("odd"), TableState.FAILED, "odd"),
        (VisibilityUnknown("silent"), TableState.FAILED, "silent"),
    ],
)
def test_a_table_that_cannot_be_read_holds_up_no_other(
    world: World, error: Exception, state: TableState, reason: str
) -> None:
    world.rows = {ITEMS: [1], ORDERS: [2]}
    world.errors = {"chunk": [error]}
    world.run()
    assert (world.progress(ITEMS).state, world.ids(ORDERS)) == (state, [2])
    assert reason in world.progress(ITEMS).reason
    assert world.opened == 1


def test_a_table_for_which_there_is_no_room_fails_at_once_and_others_are_read(
    world: World,
) -> None:
    world.rows = {ITEMS: [1], ORDERS: [2]}
    world.errors = {"chunk": [SpoolError("/tmp has taken 7 bytes")]}
    world.run()
    assert (world.progress(ITEMS).state, world.ids(ORDERS)) == (TableState.FAILED, [2])
    assert world.progress(ITEMS).reason == "/tmp has taken 7 bytes"
    # What is left of the first answer is not taken for that to the next question.
    assert world.opened == 2


def test_a_condition_that_the_server_refuses_holds_up_no_other_table(world: World) -> None:
    world.rows = {ITEMS: [1], ORDERS: [2]}
    refused = pymysql.OperationalError(1054, "Unknown column 'nope' in 'WHERE'")
    world.errors = {"chunk": [refused]}
    world.begin(SnapshotMode.NEVER)
    world.wish(WishKind.START, "shop.items", where="nope > 1")()
    world.wish(WishKind.START, "shop.orders")()
    world.run()
    failed = world.progress(ITEMS)
    assert failed.state is TableState.FAILED
    assert "with the condition of its start (1054: Unknown column 'nope'" in failed.reason
    assert world.ids(ORDERS) == [2]


def test_a_table_that_has_lost_a_column_is_described_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = selected(ORDERS)
    described = [replace(before, expressions=("`gone`",)), before, before]
    monkeypatch.setattr(world, "describe", lambda _: described.pop(0))
    world.errors = {"chunk": [pymysql.OperationalError(1054, "Unknown column 'gone' in 'SELECT'")]}
    world.run()
    assert world.progress().state is TableState.DONE
    assert world.ids() == [1, 2, 3, 4, 5]
    assert (described, world.opened) == ([], 1)


def test_a_table_that_is_gone_when_its_turn_comes_counts_as_dropped(world: World) -> None:
    world.store.tables[ITEMS] = TableProgress()
    world.run()
    assert world.progress(ITEMS).state is TableState.DROPPED
    assert world.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("code", [1142, 1143, 1044])
def test_a_table_that_the_user_may_not_read_has_failed_and_says_what_to_grant(
    world: World, code: int
) -> None:
    world.rows[ITEMS] = [1]
    world.refused[ITEMS] = pymysql.OperationalError(code, "denied")
    world.run()
    failed = world.progress(ITEMS)
    assert failed.state is TableState.FAILED
    assert f"the user may not read it ({code}): GRANT SELECT" in failed.reason
    assert (world.ids(), world.opened) == ([1, 2, 3, 4, 5], 1)


@pytest.mark.parametrize(
    "error",
    [
        pymysql.OperationalError(2013, "x"),
        pymysql.InternalError(3, "Error writing file"),
        pymysql.InternalError("Packet sequence number wrong - got 1 expected 2"),
        SourceUnavailable("x"),
        OSError("x"),
        EOFError("x"),
    ],
)
@pytest.mark.parametrize("call", ["open", "describe", "settle", "chunk"])
def test_a_source_that_went_away_is_asked_again_by_a_new_connection(
    world: World, call: str, error: Exception
) -> None:
    world.errors = {call: [error]}
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert (world.opened, world.closed) == (2, 1 if call == "open" else 2)
    assert not world.snapshots._sender._windows


def test_the_pauses_grow_while_the_source_stays_away_and_begin_anew_after_it_was_there(
    world: World,
) -> None:
    away = [OSError("x") for _ in range(7)]
    world.errors = {"open": [*away], "chunk": [OSError("x")]}
    world.script = [lambda: None] * 8
    world.run()
    assert world.pauses == [0.5, 1.0, 2.0, 5.0, 10.0, 10.0, 10.0, 0.5]
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_chunk_refused_by_a_table_that_the_stream_has_met_as_altered_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is described anew before the refusal is judged: it has not been altered since."""
    chunk, refusals = world.chunk, [pymysql.OperationalError(1054, "Unknown column 'n'")]

    def refused(found: SelectedTable, *rest: Any) -> Read:
        if refusals:
            [course] = world.snapshots._courses
            course.selected = replace(found)
            raise refusals.pop()
        return chunk(found, *rest)

    monkeypatch.setattr(world, "chunk", refused)
    world.run()
    assert world.progress().state is TableState.DONE
    assert world.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HiddenColumns("only some columns"), "only some columns"),
        (UnreadableEvent("a type that cannot be read"), "a type that cannot be read"),
        (pymysql.OperationalError(1812, "Tablespace is missing"), "refuses to read it (1812)"),
    ],
)
def test_a_table_that_can_no_longer_be_described_ends_its_own_snapshot_only(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    """It is described anew to judge why its rows are refused."""
    chunk = world.chunk
    world.rows[ITEMS] = [7]

    def refused(found: SelectedTable, *rest: Any) -> Read:
        if found.table.table.id == ORDERS:
            world.errors["describe"] = [error, error]
            raise pymysql.OperationalError(1054, "Unknown column 'n'")
        return chunk(found, *rest)

    monkeypatch.setattr(world, "chunk", refused)
    world.run()
    assert world.progress().state is TableState.FAILED
    assert reason in world.progress().reason
    assert world.progress(ITEMS).state is TableState.DONE


def test_the_next_rows_are_read_to_their_end_while_kafka_does_not_take_those_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_thread, "ThreadPoolExecutor", ThreadPoolExecutor)
    send, answer, is_read = world.send, world.answer, Event()

    def stuck(parts: Iterable[Rows]) -> int:
        assert is_read.wait(30)
        return send(parts)

    def second(found: SelectedTable, ids: list[int], last: Bound | None) -> Read:
        read = answer(found, ids, last)
        if 3 in ids:
            is_read.set()
        return read

    monkeypatch.setattr(world, "send", stuck)
    monkeypatch.setattr(world, "answer", second)
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.progress().state is TableState.DONE
