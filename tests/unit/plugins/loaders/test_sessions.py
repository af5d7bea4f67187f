"""Sessions whose set-up fails, without a server."""

from __future__ import annotations

import sqlite3

import pytest

from cdcbus.plugins.loaders.sessions import closed_on_error


def test_a_connection_whose_set_up_fails_is_closed() -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(sqlite3.OperationalError), closed_on_error(connection):
        connection.execute("SET no such thing")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_connection_that_is_set_up_stays_open() -> None:
    connection = sqlite3.connect(":memory:")
    with closed_on_error(connection):
        pass
    assert connection.execute("SELECT 1").fetchone() == (1,)
    connection.close()
