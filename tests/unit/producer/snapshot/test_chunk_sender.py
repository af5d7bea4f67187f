"""When chunks of rows go to Kafka, and which of their rows."""

from __future__ import annotations

import pytest

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.snapshot.progress import (
    TableState,
)
from cdcbus.producer.source.row_events import Batch
from tests.unit.producer.snapshot.world import ITEMS, ORDERS, World, at, inserts


def test_rows_say_where_the_stream_was_and_who_sent_them_at_the_later_of_both_clocks(
    world: World,
) -> None:
    world.run()
    origin = world.origins[0]
    assert (origin.file, origin.pos, origin.server_id, origin.epoch) == ("bin.000001", 100, 7, "9")
    assert (origin.server_uuid, origin.commit_us) == ("uuid", 9_000_000)


def test_a_chunk_waits_until_the_stream_has_passed_what_it_has_seen(world: World) -> None:
    world.high = 200
    seen: list[list[int]] = []

    def look() -> None:
        seen.append(world.ids())

    world.run(look, world.reaches(199), look, world.reaches(200), look)
    assert seen == [[], [], [1, 2, 3, 4, 5]]
    assert world.edges == [200]


def test_the_head_of_a_file_is_passed_too_but_not_within_a_transaction(world: World) -> None:
    world.high = 200
    between = BinlogCoordinates("bin.000002", 4)
    seen: list[list[int]] = []

    def look() -> None:
        seen.append(world.ids())

    opened = Batch([], None, list(inserts(77)), between=between)
    world.run(
        *(world.passes(opened), look, world.reaches(150), look),
        *(world.passes(Batch([], None, [], between=between)), look),
    )
    assert seen == [[], [], [1, 2, 3, 4, 5]]
    assert world.edges == [150]


def test_a_row_that_the_stream_has_brought_since_is_not_sent_again(world: World) -> None:
    world.high = 200
    world.run(world.brings(200, 2, 4))
    assert world.ids() == [1, 3, 5]
    assert world.progress().rows == 5


def test_a_row_of_a_transaction_that_is_still_open_counts_as_brought(world: World) -> None:
    world.high = 200
    opened = Batch([], None, list(inserts(1)), between=None)
    world.run(world.passes(opened), world.reaches(200))
    assert world.ids() == [2, 3, 4, 5]


def test_changes_of_another_table_leave_a_chunk_as_it_is(world: World) -> None:
    world.high = 200
    world.run(world.passes(Batch(list(inserts(1, table=ITEMS)), at(200), [])))
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_table_that_was_altered_meanwhile_is_read_again_by_its_new_definition(
    world: World,
) -> None:
    world.during = [world.alters("ALTER TABLE orders ADD note TEXT")]
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert [after for after, *_ in world.asked][:3] == [None, ("2",), None]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER DATABASE shop CHARACTER SET utf8mb4",
        "DROP SCHEMA other",
        "/* a */ DROP/* b */DATABASE shop",
        "--\nCREATE OR REPLACE DATABASE shop",
    ],
)
def test_a_statement_about_a_schema_may_have_altered_any_table(world: World, sql: str) -> None:
    world.during = [world.alters(sql)]
    world.run()
    assert [after for after, *_ in world.asked][:3] == [None, ("2",), None]
    assert world.ids() == [1, 2, 3, 4, 5]


def test_another_tables_alteration_reads_nothing_again(world: World) -> None:
    world.during = [world.alters("ALTER TABLE items ADD note TEXT")]
    world.run()
    assert [after for after, *_ in world.asked].count(None) == 1


def test_a_table_that_applications_create_again_and_again_is_read_once(world: World) -> None:
    world.during = [world.alters("CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY)")]
    world.run()
    assert [after for after, *_ in world.asked].count(None) == 1


def test_a_table_that_was_dropped_and_created_is_read_again(world: World) -> None:
    world.during = [
        world.alters("DROP TABLE orders"),
        world.alters("CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY)"),
    ]
    world.run()
    assert [after for after, *_ in world.asked].count(None) > 1


def test_a_temporary_tables_alteration_reads_nothing_again(world: World) -> None:
    world.during = [world.alters("CREATE TEMPORARY TABLE orders (id INT)")]
    world.run()
    assert [after for after, *_ in world.asked].count(None) == 1


def test_a_table_without_a_key_is_noted_before_its_rows_are_sent(world: World) -> None:
    world.without_key = {ORDERS}
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.store.states[-2:] == [TableState.SENDING, TableState.DONE]


def test_nothing_is_sent_after_a_part_of_a_transaction_that_failed(world: World) -> None:
    """Where rows and position are one Kafka transaction, it would be committed, and come again."""

    def fail() -> None:
        with pytest.raises(UnreadableEvent), world.snapshots.turn():
            raise UnreadableEvent("its second row")

    world.during = [fail]
    world.run()
    assert (world.ids(), world.edges) == ([], [])


def test_nothing_is_sent_once_the_stream_has_ended(world: World) -> None:
    world.during = [lambda: world.snapshots.__exit__()]
    world.run()
    assert (world.ids(), world.edges) == ([], [])
