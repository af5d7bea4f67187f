"""What `cdcbus task check` says of a source whose tables are to be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.preflight.result import CheckResult, Outcome
from cdcbus.tasks.preflight.snapshot import check_snapshot
from tests.integration.producer.reading import fetch_task

pytestmark = [pytest.mark.integration, pytest.mark.source]


def checked(task: FetchTask) -> list[CheckResult]:
    with closing(servers.connect(task.source)) as connection:
        return list(check_snapshot(task, connection))


def test_a_server_that_can_be_read_is_ok_and_nothing_is_said_where_nothing_is_read(
    source: Database, name: str
) -> None:
    task = fetch_task(source, name)
    (found,) = checked(replace(task, snapshot=SnapshotMode.INITIAL))
    assert found.outcome is Outcome.OK
    assert checked(task) == []


@pytest.fixture
def poor_user(source: Database, source_cursor: Cursor, name: str) -> Iterator[Database]:
    rights = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT"
    source_cursor.execute(f"CREATE USER {name} IDENTIFIED BY 'cdc-pass'")
    try:
        source_cursor.execute(f"GRANT {rights} ON *.* TO {name}")
    except pymysql.OperationalError:
        source_cursor.execute(f"DROP USER {name}")
        pytest.skip("the user may not make others")
    yield replace(source, user=name, password="cdc-pass")
    source_cursor.execute(f"DROP USER {name}")


def test_without_gtids_the_user_must_see_which_transactions_are_open(
    source: Database, poor_user: Database, name: str
) -> None:
    with closing(servers.connect(fetch_task(source, name).source)) as connection:
        server = servers.inspect(connection, fetch_task(source, name).source)
    if server.has_gtids:
        pytest.skip("the server has GTIDs")
    (found,) = checked(replace(fetch_task(poor_user, name), snapshot=SnapshotMode.ONLY))
    assert found.outcome is Outcome.ERROR
    assert "lacks PROCESS" in found.found
