"""`cdcbus verify` between two schemas that are copied into each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Database
from tests.integration.tasks.verify.verifying import Answer
from tests.support.changes.both_sides import SECONDS, Sides, open_sides, run, running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def sides(
    name: str, source: Database, source_cursor: Cursor, kafka: str, tmp_path: Path, make_topic: Any
) -> Iterator[Sides]:
    with open_sides(name, source, source_cursor, kafka, tmp_path, make_topic) as opened:
        yield opened


def verify(load: Path, zookeeper: str, *options: str, patience: str = "3") -> Answer:
    words = ["verify", str(load), "--json", "--zookeeper", zookeeper, "--patience", patience]
    result = CliRunner().invoke(main, [*words, *options])
    found = json.loads(result.stdout)
    assert not found["error"]
    return Answer(result.exit_code, found["tables"], result.output)


def test_what_is_newer_at_the_target_is_neither_deleted_nor_overwritten(
    sides: Sides, zookeeper: str
) -> None:
    """While the other direction is stopped. More than 20 s: eight processes of tasks."""
    [fetch_a, fetch_b, load_a, load_b] = sides.files()
    execute = sides.cursor.execute
    run(fetch_a, fetch_b, zookeeper=zookeeper)
    for number in range(3):
        execute(f"INSERT INTO {sides.a}.orders VALUES ({number}, 'new')")
    with running(fetch_a, zookeeper), running(load_a, zookeeper):
        wait_until(lambda: len(sides.rows(sides.b)) == 3, "a copy of A", SECONDS)
        run(fetch_b, load_b, zookeeper=zookeeper)
        # At B only, and B's changes do not come to A now.
        execute(f"INSERT INTO {sides.b}.orders VALUES (100, 'of b')")
        execute(f"UPDATE {sides.b}.orders SET name = 'of b' WHERE id = 1")
        execute(f"DELETE FROM {sides.b}.orders WHERE id = 2")
        wanted = {0: "new", 1: "of b", 100: "of b"}
        for option in ("--repair", "--prune"):
            found = verify(load_a, zookeeper, option, "--yes")
            assert (found.code, found.table["result"], found.table["behind"]) == (1, "behind", 3)
            assert "published" not in found.table
        with ExitStack() as tasks:
            for file in (fetch_b, load_b):
                tasks.enter_context(running(file, zookeeper))
            wait_until(lambda: sides.rows(sides.a) == wanted, "B's changes at A", SECONDS)
            assert sides.rows(sides.b) == wanted
            found = verify(load_a, zookeeper, patience="30")
            assert (found.code, found.table["result"]) == (0, "equal")
            # What nobody brings to the other side is a difference, and sent from A.
            execute("SET SESSION sql_log_bin = 0")
            execute(f"INSERT INTO {sides.b}.orders VALUES (101, 'of nobody')")
            execute(f"UPDATE {sides.a}.orders SET name = 'of a' WHERE id = 0")
            found = verify(load_a, zookeeper, "--repair", "--yes", patience="30")
            assert (found.code, found.table["published"]) == (0, 2)
            assert sides.rows(sides.b) == sides.rows(sides.a) == wanted | {0: "of a"}
            # How far a task elsewhere is, only the operator knows.
            load_b.rename(load_b.with_suffix(".elsewhere"))
            execute(f"DELETE FROM {sides.a}.orders WHERE id = 1")
            execute("SET SESSION sql_log_bin = 1")
            found = verify(load_a, zookeeper, "--repair", "--yes", patience="30")
            assert (found.code, found.table["behind"], "planned" in found.table) == (1, 1, False)
            assert f"no task is found that has loader.mark=from_{sides.b}" in found.table["doubt"]
            options = ("--prune", "--yes", "--target-at-rest")
            found = verify(load_a, zookeeper, *options, patience="30")
            assert (found.code, found.table["published"]) == (0, 1)
            assert sides.rows(sides.b) == sides.rows(sides.a)
