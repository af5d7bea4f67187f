"""A SEQUENCE of MariaDB is no table, though its state is in the binlog as rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, canal

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture(params=["full_metadata", "least_metadata"])
def metadata(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(request.param)


@pytest.mark.usefixtures("metadata")
def test_a_sequence_makes_no_records_and_is_said_once(
    source: Database,
    source_cursor: Cursor,
    is_mariadb: bool,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
    store: Callable[[str], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not is_mariadb:
        pytest.skip("MySQL has none")
    make_topic(name)
    caplog.set_level("INFO", "cdcbus.producer")
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT)")
    store(position(source_cursor).to_json())
    source_cursor.execute("CREATE SEQUENCE s START WITH 7 CACHE 2")
    source_cursor.execute("CREATE VIEW w AS SELECT * FROM t")
    for number in range(5):
        source_cursor.execute("INSERT INTO t VALUES (%s, NEXT VALUE FOR s)", (number,))
    source_cursor.execute("SELECT SETVAL(s, 100)")
    source_cursor.execute("INSERT INTO w VALUES (5, NEXT VALUE FOR s)")
    end = position(source_cursor)
    with Running(fetch_task(source, name, servers=kafka), positions) as running:
        running.until_stored(end)
    rows = [
        (record["table"], record["data"][0]["id"], record["data"][0]["v"])
        for record in canal(kafka, name)
    ]
    assert rows == [
        ("t", str(number), str(value)) for number, value in enumerate((7, 8, 9, 10, 11, 101))
    ]
    assert caplog.text.count("is a SEQUENCE, not a table") == 1
