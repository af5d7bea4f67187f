"""Temporary tables, which hide the real ones of their names."""

from __future__ import annotations

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_changes import Altered, Created, Dropped, Renamed
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema
from cdcbus.producer.ddl.table_states import Missing, State, TemporaryTables, made

A, B = TableId("s", "a"), TableId("s", "b")
CREATED = Created(A, is_temporary=True)


def test_an_alter_of_a_temporary_table_is_told_from_one_in_a_later_session_of_its_number() -> None:
    tables = TemporaryTables()
    assert tables.real(CREATED, 7, is_of_session=True) is None
    assert tables.real(Altered(A, ()), 7, is_of_session=True) is None
    assert tables.real(Altered(A, ()), 8, is_of_session=True) is not None
    assert tables.real(Altered(A, ()), 7, is_of_session=False) is not None


def test_a_temporary_table_is_known_by_its_new_name() -> None:
    tables = TemporaryTables()
    tables.real(CREATED, 7, is_of_session=True)
    assert tables.real(Renamed(A, B), 7, is_of_session=True) is None
    assert tables.real(Altered(A, ()), 7, is_of_session=True) is not None
    assert tables.real(Altered(B, ()), 7, is_of_session=True) is None
    assert tables.real(Dropped(B, is_temporary=True), 7, is_of_session=True) is None
    assert tables.real(Renamed(B, A), 7, is_of_session=True) is not None


def test_a_table_that_is_renamed_to_an_existing_one_was_temporary() -> None:
    """A server refuses to rename a real one so; MariaDB writes the renaming of a temporary one."""
    first, second = (
        TableSchema((TableColumn(name, "int", "", is_nullable=True),), ()) for name in "pq"
    )
    states = {A: first, B: second}

    def after(known: TableSchema | None) -> dict[TableId, State | None]:
        return made(Renamed(A, B), states.get, states, lambda _: known, lambda _: "")

    assert after(None) == {A: Missing.UNKNOWN, B: Missing.UNKNOWN}
    assert after(second) == {A: second, B: second}
    assert made(Renamed(A, A), states.get, states, states.get, lambda _: "")[A] == first


def test_a_copy_of_a_temporary_table_has_columns_that_are_not_known() -> None:
    tables = TemporaryTables()
    tables.real(CREATED, 7, is_of_session=True)
    copy = Created(B, None, A)
    assert tables.real(copy, 7, is_of_session=True) == Created(B)
    assert tables.real(copy, 8, is_of_session=True) == copy
    assert tables.real(Created(B, None, B), 7, is_of_session=True) == Created(B, None, B)
