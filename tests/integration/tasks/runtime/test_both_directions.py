"""Two schemas that are copied into each other, with writes on both sides: what came from the other
side does not go back, so it ends."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from tests.support.changes.both_sides import SECONDS, Sides, open_sides, run, running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
of_the_source = pytest.mark.source  # the others ask nothing that servers answer differently


@pytest.fixture
def sides(
    name: str, source: Database, source_cursor: Cursor, kafka: str, tmp_path: Path, make_topic: Any
) -> Iterator[Sides]:
    with open_sides(name, source, source_cursor, kafka, tmp_path, make_topic) as opened:
        yield opened


@of_the_source
def test_writes_on_both_sides_meet_and_none_goes_round(sides: Sides) -> None:
    """More than 20 s: twelve processes of tasks."""
    fetches, loads = sides.files()[:2], sides.files()[2:]
    run(*fetches)
    execute = sides.cursor.execute
    with ExitStack() as tasks:
        for file in (*fetches, *loads):
            tasks.enter_context(running(file))
        for number in range(60):
            own, first = ((sides.a, 0), (sides.b, 1000))[number % 2]
            execute(f"INSERT INTO {own}.orders VALUES ({first + number}, 'new')")
            execute(f"UPDATE {own}.orders SET name = 'changed' WHERE id = {first + number}")
        execute(f"DELETE FROM {sides.a}.orders WHERE id = 0")
        wait_until(
            lambda: sides.rows(sides.a) == sides.rows(sides.b) and len(sides.rows(sides.a)) == 59,
            "equal sides",
            SECONDS,
        )
    run(*fetches, *loads, *fetches)
    written = [("orders", "INSERT")] * 30 + [("orders", "UPDATE")] * 30
    assert sorted(sides.sent(sides.a)) == sorted([*written, ("orders", "DELETE")])
    assert sorted(sides.sent(sides.b)) == sorted(written)
    execute(f"SELECT COUNT(*) FROM {sides.b}.cdcbus_mark_from_{sides.a}")
    assert sides.cursor.fetchall() == ((0,),)


def test_rows_that_both_sides_change_at_once_are_the_only_ones_that_differ(sides: Sides) -> None:
    """More than 20 s: fourteen processes of tasks, one after the other."""
    fetches, loads = sides.files()[:2], sides.files()[2:]
    run(*fetches)
    for number in range(10):
        sides.cursor.execute(f"INSERT INTO {sides.a}.orders VALUES ({number}, 'new')")
    run(*fetches, *loads)
    for number in range(3):  # before either of them has seen the other's
        for own in (sides.a, sides.b):
            sides.cursor.execute(f"UPDATE {own}.orders SET name = '{own[-2:]}' WHERE id = {number}")
    run(*fetches, *loads, *fetches, *loads)
    there, here = sides.rows(sides.a), sides.rows(sides.b)
    assert there.keys() == here.keys()
    assert [number for number in there if there[number] != here[number]] == [0, 1, 2]
    assert (len(sides.sent(sides.a)), len(sides.sent(sides.b))) == (13, 3)


def test_without_marks_rows_go_round(sides: Sides) -> None:
    """What the marks are for: else the tests above would show nothing."""
    sides.marks = False
    fetches, loads = sides.files()[:2], sides.files()[2:]
    run(*fetches)
    sides.cursor.execute(f"INSERT INTO {sides.a}.orders VALUES (1, 'new')")
    run(*fetches, loads[0], *fetches)
    assert sides.sent(sides.b) == [("orders", "INSERT")]


@of_the_source
def test_changes_of_another_server_and_gtid_source_are_left_out(sides: Sides) -> None:
    """The server's own id stands for another one's."""
    sides.cursor.execute("SELECT @@GLOBAL.server_id, VERSION()")
    ((server_id, version),) = sides.cursor.fetchall()
    source = f"0-{server_id}"
    if "MariaDB" not in version:
        sides.cursor.execute("SELECT @@GLOBAL.server_uuid")
        ((source,),) = sides.cursor.fetchall()
    plain = sides.files()[0]
    text = plain.read_text()
    run(plain)
    for key, value in (("excludeServerIds", f"7,{server_id}"), ("excludeGtidSources", source)):
        sides.cursor.execute(f"INSERT INTO {sides.a}.orders VALUES (1, 'new')")
        sides.cursor.execute(f"TRUNCATE TABLE {sides.a}.orders")
        plain.write_text(f"{text}consumer.source.{key}={value}\n")
        run(plain)
        assert sides.sent(sides.a) == []
    plain.write_text(f"{text}consumer.source.excludeServerIds=7\n")
    sides.cursor.execute(f"INSERT INTO {sides.a}.orders VALUES (2, 'new')")
    run(plain)
    assert sides.sent(sides.a) == [("orders", "INSERT")]
