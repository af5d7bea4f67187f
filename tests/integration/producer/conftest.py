"""Fixtures for tests of the producer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcbus.ops.stack.addresses import Database
from tests.integration.producer.reading import connect, global_variable


@pytest.fixture(scope="session")
def is_mariadb(source: Database) -> bool:
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        return "mariadb" in cursor.fetchall()[0][0].lower()


@pytest.fixture
def full_metadata(source: Database) -> Iterator[None]:
    """The server sends each table's column names, key and labels with its rows."""
    with global_variable(source, "binlog_row_metadata", "FULL"):
        yield


@pytest.fixture
def least_metadata(source: Database, is_mariadb: bool) -> Iterator[None]:
    """The server sends as little about tables as it can: what it does when nobody has told it otherwise."""
    with global_variable(source, "binlog_row_metadata", "NO_LOG" if is_mariadb else "MINIMAL"):
        yield
