"""Foreign keys with actions: which count as gone, and readings of them that overlap."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection

from cdcbus.plugins.contracts import CascadingKey, TargetTable
from cdcbus.plugins.loaders import sqlalchemy_loader
from cdcbus.plugins.loaders.catalog import Catalog, cascading_keys, with_hidden
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.rowchange import TableId

PARENT, CHILD, OTHER = (TableId("shop", name) for name in ("parents", "children", "others"))
KEY = CascadingKey(CHILD, PARENT, "CASCADE", "")
OF_OTHER = CascadingKey(OTHER, PARENT, "SET NULL", "")


class Server:
    """A target: a connection to it, and its database. `keys`: those that it shows; `hidden`: how
    many readings lack them; `on_reading`: called during a reading, which shows the keys before."""

    def __init__(self, *keys: CascadingKey) -> None:
        self.keys, self.hidden, self.held = keys, 0, list[TableId]()
        self.is_there: bool | None = True
        self.on_reading: list[Callable[[], object]] = []
        catalog = Catalog("", "", "", "", cascades="cascades", hold=self.hold)
        self.dialect = SimpleNamespace(name="mysql", catalog=catalog)
        self.target = SimpleNamespace(mark="")

    def connected(self, _: str) -> AbstractContextManager[Server]:
        return nullcontext(self)

    def rollback(self) -> None:
        pass

    def hold(self, _: Connection, name: TableId, wait_seconds: int | None) -> bool | None:
        self.held.append(name)
        if self.is_there is None:
            assert wait_seconds is not None
            raise TimeoutError
        return self.is_there

    def execute(self, _: object) -> list[tuple[str, ...]]:
        keys = self.keys
        if self.on_reading:
            self.on_reading.pop()()
        if self.hidden:
            self.hidden -= 1
            return []
        return [(*key.child, *key.parent, key.on_delete, key.on_update) for key in keys]


@pytest.mark.parametrize(
    ("server", "hidden", "is_there", "found"),
    [
        # DDL has hidden it, and waits while its table is held.
        (Server(KEY), 1, True, [KEY]),
        (Server(), 0, True, []),
        (Server(), 0, False, []),
        # Nobody can say, as others have locked the table.
        (Server(OF_OTHER), 0, None, [KEY, OF_OTHER]),
    ],
)
def test_a_key_is_gone_where_its_table_that_is_held_lacks_it(
    server: Server, hidden: int, is_there: bool | None, found: list[CascadingKey]
) -> None:
    server.hidden, server.is_there = hidden, is_there
    connection: Any = server
    catalog = server.dialect.catalog
    keys = cascading_keys(connection, catalog)
    assert with_hidden(connection, catalog, keys, [KEY]) == found
    assert server.held == [CHILD]


class Loader(JdbcBatch):
    """`after_reading`: called when a table was read, and is not kept yet."""

    def __init__(self, server: Any) -> None:
        super().__init__(server, "7")
        self.after_reading: list[Callable[[], object]] = []

    def _reflected(self, name: TableId) -> TargetTable | None:
        found = super()._reflected(name)
        if self.after_reading:
            self.after_reading.pop()()
        return found


@pytest.fixture(autouse=True)
def _tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sqlalchemy_loader, "reflect", lambda *arguments: TargetTable(arguments[-1], {}, ("id",))
    )


def test_a_table_is_not_kept_with_the_keys_before() -> None:
    server = Server()
    loader = Loader(server)

    def meanwhile() -> None:
        server.keys = (KEY,)
        loader.refresh(CHILD)
        loader.table(CHILD)

    loader.after_reading.append(meanwhile)
    found = loader.table(PARENT)
    assert found is not None
    assert found.cascades == (KEY,)
    assert loader.table(PARENT) is found


def test_keys_are_read_again_where_that_was_asked_for_during_a_reading() -> None:
    server = Server()
    loader = Loader(server)
    server.on_reading.append(lambda: loader.refresh(OTHER))
    found = loader.table(PARENT)
    assert found is not None
    server.keys = (KEY,)
    assert loader.is_altered(found)


def test_an_older_reading_does_not_replace_a_newer_one() -> None:
    server = Server()
    loader = Loader(server)

    def meanwhile() -> None:
        server.keys = (KEY,)
        loader.table(CHILD)

    server.on_reading.append(meanwhile)
    found = loader.table(PARENT)
    assert found is not None
    assert found.cascades == (KEY,)
