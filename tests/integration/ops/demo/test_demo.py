"""`cdcbus demo` on real servers, as a user calls it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from cdcbus.ops.demo.fresh import empty_shop
from cdcbus.ops.demo.shop.compare import Difference, compare_shops
from cdcbus.ops.demo.shop.schema import SCHEMA, TABLES, mariadb_ddl
from cdcbus.ops.demo.shop.shop import Shop
from cdcbus.ops.stack import sql, stack
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.demo_tasks import leftovers

pytestmark = pytest.mark.integration

LIMIT_SECONDS = 480


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home of the demo's own: whether it stops its servers is asked too. Not below pytest's,
    which the databases' user may not enter."""
    home = Path(tempfile.mkdtemp(prefix="cdcbus-demo-test-"))
    home.chmod(0o755)
    try:
        yield home
    finally:
        stack.down(home, purge=True, console=Console(quiet=True))
        shutil.rmtree(home, ignore_errors=True)


def begin(home: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cdcbus", "demo", "--home", str(home), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # some callers of tests ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def read_until(demo: subprocess.Popen[str], words: str) -> None:
    """Reads what it prints up to the line with these words."""
    assert demo.stdout is not None
    assert any(words in line for line in demo.stdout), (
        f"the demo has ended without saying {words!r}"
    )


def is_anything_left(home: Path) -> bool:
    return bool(leftovers(home / "demo")) or any(server.running for server in stack.status(home))


def test_ctrl_c_stops_tasks_and_servers(home: Path) -> None:
    demo = begin(home, "--seconds", "300")
    read_until(demo, "demo-fetch works")
    assert len(leftovers(home / "demo")) == 3
    demo.send_signal(signal.SIGINT)
    said, _ = demo.communicate(timeout=LIMIT_SECONDS)
    assert demo.returncode == 130, said
    assert "Traceback" not in said
    assert not is_anything_left(home)


def test_a_second_demo_in_the_same_home_is_refused_and_the_first_goes_on(home: Path) -> None:
    first = begin(home, "--seconds", "300")
    read_until(first, "demo-fetch works")
    tasks = leftovers(home / "demo")
    second = begin(home)
    said, _ = second.communicate(timeout=LIMIT_SECONDS)
    assert second.returncode == 1, said
    assert said.startswith(f"another demo runs in {home}: wait for its end, or press Ctrl-C")
    assert leftovers(home / "demo") == tasks
    assert first.poll() is None
    # However often: nothing is left.
    first.send_signal(signal.SIGINT)
    read_until(first, "PostgreSQL")
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=LIMIT_SECONDS)
    assert first.returncode == 130, said
    assert not is_anything_left(home)


def test_it_ends_with_equal_tables_and_leaves_no_process(home: Path) -> None:
    """More than 20 s: servers, three tasks that are killed, and a shop that changes for eight."""
    demo = subprocess.run(
        [sys.executable, "-m", "cdcbus", "demo", "--home", str(home), "--seconds", "8", "--json"],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    verdict = json.loads(demo.stdout)
    assert verdict["equal"] is True
    assert list(verdict["targets"]) == ["postgresql", "mysql"]
    assert all(
        table["source_rows"] > 0 for tables in verdict["targets"].values() for table in tables
    )
    assert demo.stderr.count("killed with SIGKILL") == demo.stderr.count("started again") == 3
    assert "PostgreSQL is equal to the source" in demo.stderr
    assert "MariaDB is equal to the source" in demo.stderr
    assert not is_anything_left(home)


def test_a_shop_that_has_rows_is_copied_and_verified(home: Path) -> None:
    """More than 20 s: servers, three tasks and a shop that changes for six."""
    words = "demo", "--snapshot", "--seconds", "6", "--json"
    demo = subprocess.run(
        [sys.executable, "-m", "cdcbus", *words, "--home", str(home)],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    verdict = json.loads(demo.stdout)
    assert verdict["equal"] is True
    for tables in verdict["targets"].values():
        assert {each["table"] for each in tables} == {str(table) for table in TABLES}
        assert all(each["sourceRows"] == each["targetRows"] > 0 for each in tables)
    assert "cdcbus verify has compared" in demo.stderr
    assert not is_anything_left(home)


def test_a_task_that_ends_by_itself_ends_the_demo(stack_home: Path, stack: Addresses) -> None:
    """On servers that run already, which stay."""
    demo = begin(stack_home, "--target", "mysql", "--seconds", "300")
    read_until(demo, "demo-fetch works")
    for pid in leftovers(stack_home / "demo"):
        if b"demo-fetch" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    said, _ = demo.communicate(timeout=LIMIT_SECONDS)
    assert demo.returncode == 1, said
    assert "demo-fetch has ended on its own" in said
    assert "demo-fetch.log" in said
    assert not leftovers(stack_home / "demo")
    sql.execute("source", stack.source, "SELECT 1")


@pytest.fixture
def at_target(source: Database, mariadb: Database) -> Iterator[Callable[[str], None]]:
    """The same rows in both; gives what runs a statement at the target."""
    for server, database in (("source", source), ("mariadb", mariadb)):
        empty_shop(server, database)
        with sql.connect(server, database) as connection, connection.cursor() as cursor:
            for transaction in Shop(1).opening():
                for statement, values in transaction.statements:
                    cursor.execute(statement, values or None)

    def at_target(statement: str) -> None:
        sql.execute("mariadb", mariadb, statement)

    yield at_target
    for server, database in (("source", source), ("mariadb", mariadb)):
        sql.execute(server, database, mariadb_ddl()[0])


def test_a_difference_planted_at_the_target_is_found(
    source: Database, mariadb: Database, at_target: Callable[[str], None]
) -> None:
    assert all(each.is_equal for each in compare_shops(source, "mariadb", mariadb))
    at_target(f"UPDATE {SCHEMA}.products SET rating = 4.25, picture = 'x' WHERE sku = 'SKU-001125'")
    at_target(f"DELETE FROM {SCHEMA}.shelf_places WHERE id = 7")
    at_target(f"INSERT INTO {SCHEMA}.heartbeat VALUES (9, NOW(6))")
    found = {
        each.table.name: each.differences
        for each in compare_shops(source, "mariadb", mariadb)
        if not each.is_equal
    }
    assert found == {
        "products": [Difference(("SKU-001125",), "rating, picture")],
        "shelf_places": [Difference(("7",), "missing")],
        "heartbeat": [Difference(("9",), "extra")],
    }
