"""What `cdcbus task check` says of a source whose tables are to be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.preflight.result import CheckResult, Outcome
from cdcbus.tasks.preflight.snapshot import check_snapshot
from tests.integration.producer.reading import fetch_task
from tests.support.servers.few_rights import PASSWORD, user_with

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
    with user_with(source_cursor, name, "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*"):
        yield replace(source, user=name, password=PASSWORD)


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
