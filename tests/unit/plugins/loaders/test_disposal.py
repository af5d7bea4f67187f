"""Connections of an engine that is disposed of, without a server."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy import QueuePool, create_engine

from cdcbus.plugins.loaders.engine import close_if_disposed


def test_a_connection_in_use_is_closed_once_its_engine_was_disposed_of() -> None:
    engine = create_engine("sqlite://", poolclass=QueuePool)
    close_if_disposed(engine)
    with engine.connect() as connection:
        old = connection.connection.driver_connection
        assert old is not None
        engine.dispose()
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        old.execute("SELECT 1")


def test_a_connection_of_an_engine_in_use_is_kept() -> None:
    engine = create_engine("sqlite://", poolclass=QueuePool)
    close_if_disposed(engine)
    seen = set()
    for _ in range(2):
        with engine.connect() as connection:
            seen.add(connection.connection.driver_connection)
    assert len(seen) == 1
    engine.dispose()
