"""Temporary tables, which hide the real ones of their names."""

from __future__ import annotations

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_changes import Altered, Created, Dropped, Renamed
from cdcbus.producer.ddl.table_states import TemporaryTables

A, B = TableId("s", "a"), TableId("s", "b")
CREATED = Created(A, is_temporary=True)


def test_an_alter_of_a_temporary_table_is_told_from_one_in_a_later_session_of_its_number() -> None:
    tables = TemporaryTables()
    assert tables.takes(CREATED, 7, is_of_session=True)
    assert tables.takes(Altered(A, ()), 7, is_of_session=True)
    assert not tables.takes(Altered(A, ()), 8, is_of_session=True)
    assert not tables.takes(Altered(A, ()), 7, is_of_session=False)


def test_a_temporary_table_is_known_by_its_new_name() -> None:
    tables = TemporaryTables()
    tables.takes(CREATED, 7, is_of_session=True)
    assert tables.takes(Renamed(A, B), 7, is_of_session=True)
    assert not tables.takes(Altered(A, ()), 7, is_of_session=True)
    assert tables.takes(Altered(B, ()), 7, is_of_session=True)
    assert tables.takes(Dropped(B, is_temporary=True), 7, is_of_session=True)
    assert not tables.takes(Renamed(B, A), 7, is_of_session=True)
