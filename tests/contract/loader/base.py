"""What the parts of the contract share."""

from collections.abc import Iterator, Sequence

import pytest

from cdcbus.plugins.contracts import (
    Counts,
    Loader,
    Swaps,
    TableBatch,
    TargetTable,
    Writes,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import Cell, TableId
from tests.contract.target_server import TargetServer

Cells = tuple[Cell, ...]
ALL_BYTES = "".join(map(chr, range(256)))


class LoaderBase:
    @pytest.fixture
    def loader(self, server: TargetServer) -> Iterator[Loader]:
        loader = make_loader("JdbcBatch", server.target())
        yield loader
        loader.close()

    @staticmethod
    def table(server: TargetServer, loader: Loader, columns: str, name: str = "t") -> TargetTable:
        server.execute(f"CREATE TABLE {{schema}}.{server.quoted(name)} ({columns})")
        table = loader.table(TableId(server.schema, name))
        assert table is not None
        return table

    @staticmethod
    def write(
        loader: Loader,
        table: TargetTable,
        *writes: Writes,
        deletes: Sequence[Cells] = (),
        truncate: bool = False,
    ) -> Counts:
        with loader.transaction() as transaction:
            return transaction.write(TableBatch(table, truncate, deletes, writes))

    @staticmethod
    def swap(
        loader: Loader,
        table: TargetTable,
        *pairs: tuple[Cells | None, Cells | None],
        may_insert: bool = True,
    ) -> Counts:
        with loader.transaction() as transaction:
            return transaction.write(
                TableBatch(table, swaps=[Swaps(tuple(table.columns), pairs, may_insert)])
            )

    @staticmethod
    def rows(server: TargetServer, columns: str = "id, v") -> list[tuple[object, ...]]:
        return server.rows(f"SELECT {columns} FROM {{schema}}.t ORDER BY 1")
