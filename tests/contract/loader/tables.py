"""Tables as a loader finds them, and those that grow with the source."""

import threading

import pytest

from cdcbus.plugins.contracts import (
    Loader,
    TargetTable,
    Writes,
)
from cdcbus.plugins.errors import (
    ConfigError,
    TargetMisconfigured,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import Column, TableId
from tests.contract.loader.base import LoaderBase
from tests.contract.target_server import TargetServer


class Tables(LoaderBase):
    def test_a_table_is_found_in_exact_spelling_then_in_any_case(
        self, server: TargetServer, loader: Loader
    ) -> None:
        assert loader.table(TableId(server.schema, "orders")) is None
        found = self.table(server, loader, "id bigint primary key", name="Orders")
        assert loader.table(TableId(server.schema.upper(), "ORDERS")) == found
        assert found.id == TableId(server.schema, "Orders")
        server.execute(f"CREATE TABLE {{schema}}.{server.quoted('ORDERS')} (id bigint primary key)")
        loader.refresh(TableId(server.schema.upper(), "ORDERS"))
        with pytest.raises(ConfigError, match="all match"):
            loader.table(TableId(server.schema, "orders"))
        again = loader.table(TableId(server.schema, "ORDERS"))
        assert again is not None
        assert again.id.table == "ORDERS"

    def test_a_table_tells_columns_key_and_other_unique_keys(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(
            server, loader, "v int not null, b int, a varchar(7), primary key (a, b)"
        )
        assert list(table.columns) == ["v", "b", "a"]
        assert table.key == ("a", "b")
        assert table.columns["a"].length == 7
        assert [column.is_nullable for column in table.columns.values()] == [False, False, False]
        assert table.unique_keys == ()
        server.execute("CREATE UNIQUE INDEX one ON {schema}.t (v)")
        assert loader.table(table.id) is table
        loader.refresh(table.id)
        changed = loader.table(table.id)
        assert changed is not None
        assert changed.unique_keys == (("v",),)

    def test_a_column_that_the_target_computes_is_told_apart(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(
            server,
            loader,
            "id int primary key, v int, twice int generated always as (v * 2) stored",
        )
        assert [name for name, column in table.columns.items() if column.is_generated] == ["twice"]
        self.write(loader, table, Writes(("id", "v"), [("1", "4")]))
        assert self.rows(server, "id, twice") == [(1, 8)]

    # Columns that come later

    def test_a_table_grows_by_the_source_s_columns_and_keeps_all_else(
        self, server: TargetServer, loader: Loader
    ) -> None:
        q = server.quoted
        columns = (
            f"id int primary key, v varchar(3) default 'x' not null, {q('N%')} smallint "
            "default 7, d decimal(5, 2), w varchar(99)"
        )
        table = self.table(server, loader, columns)
        self.write(loader, table, Writes(("id", "v"), [("1", "abc")]))
        source = [
            *(
                Column("ID", "int(11)"),
                Column("v", "varchar(40)"),
                Column("N%", "bigint(20)"),
                Column("d", "decimal(9,4)"),
            ),
            *(
                Column("w", "varchar(9)"),
                Column("New %s", "varchar(5)"),
                Column("doc", "json"),
                Column("at", "datetime(6)"),
            ),
        ]
        for _ in range(2):  # the second time there is nothing left to do
            table = loader.evolve(table, source)
        assert loader.table(table.id) is table
        assert list(table.columns) == ["id", "v", "N%", "d", "w", "New %s", "doc", "at"]
        assert (table.columns["v"].length, table.columns["w"].length) == (40, 99)
        assert (table.columns["d"].length, table.columns["d"].scale) == (9, 4)
        assert (table.columns["v"].is_nullable, table.columns["v"].is_required) == (False, False)
        row = (
            "2",
            "y" * 40,
            str(2**63 - 1),
            "12345.6789",
            "new",
            "[]",
            "2024-02-29 23:59:59.123456",
        )
        self.write(loader, table, Writes(("id", "v", "N%", "d", "New %s", "doc", "at"), [row]))
        self.write(loader, table, Writes(("id",), [("3",)]))
        assert self.rows(server, f"id, v, {q('N%')}") == [
            (1, "abc", 7),
            (2, "y" * 40, 2**63 - 1),
            (3, "x", 7),
        ]

    def test_columns_made_wider_keep_what_they_hold_and_take_what_the_source_s_do(
        self, server: TargetServer, loader: Loader
    ) -> None:
        """Each with a default, which keeps its meaning as well."""
        rows = [
            ("whole", "int unsigned", "-5", "4294967295", "7"),
            ("large", "bigint unsigned", "-9223372036854775808", "18446744073709551615", "7"),
            (
                "moment",
                "datetime(6)",
                "2024-02-29 23:59:59.000000",
                "2024-02-29 23:59:59.123456",
                "2001-01-01 00:00:00.000000",
            ),
            (
                "instant",
                "timestamp(6)",
                "2024-02-29 23:59:59.500000",
                "2024-02-29 23:59:59.123456",
                None,
            ),
            ("clock", "time(6)", "23:59:59.000000", "23:59:59.999999", "01:02:03.000000"),
            (
                "day",
                "datetime(6)",
                "2024-02-29 00:00:00.000000",
                "2024-02-29 23:59:59.123456",
                "2001-01-01 00:00:00.000000",
            ),
            ("bits", "bit(8)", "5", "255", "5"),
            ("more bits", "bit(64)", "3", "18446744073709551615", "3"),
        ]
        kinds, types, before, after, defaults = zip(*rows, strict=True)
        names = [f"c{number}" for number in range(len(rows))]
        narrow, wide = (
            [server.types[f"{size} {kind}"] for kind in kinds] for size in ("narrow", "wide")
        )
        columns = ", ".join(
            f"{name} {type_}" for name, (type_, _) in zip(names, narrow, strict=True)
        )
        table = self.table(server, loader, f"id int primary key, {columns}")
        cells = [
            cell.removesuffix(" 00:00:00.000000") if kind == "day" else cell
            for kind, cell in zip(kinds, before, strict=True)
        ]
        self.write(loader, table, Writes(("id", *names), [("1", *cells)]))
        source = [Column(name, type_) for name, type_ in zip(names, types, strict=True)]
        for _ in range(2):  # the second time there is nothing left to do
            table = loader.evolve(table, source)
        assert loader.table(table.id) is table
        self.write(
            loader, table, Writes(("id", *names), [("2", *after)]), Writes(("id",), [("3",)])
        )
        read = ", ".join(
            expression.format(name) for name, (_, expression) in zip(names, wide, strict=True)
        )
        first, second, third = self.rows(server, f"id, {read}")
        assert (first[1:], second[1:]) == (before, after)
        assert [cell for cell, default in zip(third[1:], defaults, strict=True) if default] == [
            cell for cell in defaults if cell
        ]
        assert third[4] is not None

    def test_a_column_that_somebody_else_adds_at_the_same_moment_is_no_error(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key")
        others = [
            make_loader("JdbcBatch", server.target(task_id=f"task {number}")) for number in range(4)
        ]
        together = threading.Barrier(4)
        grown: list[TargetTable] = []

        def run(other: Loader) -> None:
            other.table(table.id)
            together.wait(timeout=30)
            grown.append(
                other.evolve(table, [Column("id", "int"), *(Column(name, "int") for name in "abc")])
            )

        threads = [threading.Thread(target=run, args=(other,)) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert [sorted(each.columns) for each in grown] == [["a", "b", "c", "id"]] * 4
        for other in others:
            other.close()

    def test_a_table_cannot_grow_without_the_right_to(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key")
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        if server.without_rights_to_create().user == server.target().user:
            pytest.skip("this server has no user without rights")
        with pytest.raises(TargetMisconfigured, match="new column new of table"):
            poor.evolve(table, [Column("new", "int")])
        poor.close()
