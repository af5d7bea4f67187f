"""Foreign keys of a target that change or delete rows on their own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace

import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import CascadingKey, JdbcTarget, TableBatch
from cdcbus.plugins.errors import RowConflict
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_applier import CANAL, applying, server, task  # noqa: F401
from tests.support.servers.private_mariadb import private_mariadb
from tests.support.servers.target_servers import PostgresqlServer
from tests.support.topics.records import records_of

pytestmark = pytest.mark.integration
PARTITION = TopicPartition("shop", 0)
INT = "int(11)"
PAR = Table(TableId("shop", "par"), (Column("id", INT), Column("code", "varchar(5)")), ("id",))
CH = Table(TableId("shop", "ch"), (Column("id", INT), Column("p", INT)), ("id",))
GCH = Table(TableId("shop", "gch"), (Column("id", INT), Column("c", INT)), ("id",))
CODED = Table(TableId("shop", "coded"), (Column("id", INT), Column("code", "varchar(5)")), ("id",))
Change = tuple[Table, Op, Sequence[str] | None, Sequence[str] | None]
BEGINNING: list[Change] = [
    (PAR, Op.INSERT, None, ("1", "a")),
    (PAR, Op.INSERT, None, ("2", "b")),
    (CH, Op.INSERT, None, ("10", "1")),
    (CH, Op.INSERT, None, ("20", "2")),
    (GCH, Op.INSERT, None, ("100", "10")),
    (GCH, Op.INSERT, None, ("101", "10")),
    (GCH, Op.INSERT, None, ("200", "20")),
]


def row(table: Table, cells: Sequence[str] | None) -> Row | None:
    return None if cells is None else dict(zip(table.names, cells, strict=True))


def values(made: Sequence[Change]) -> list[bytes]:
    """Each change as an event of its own; the insert of a key change is of the delete's event."""
    found: list[bytes] = []
    pos = 4
    for number, (table, op, before, after) in enumerate(made):
        is_pair = number > 0 and made[number - 1][1] is Op.DELETE and op is Op.INSERT
        pos += 0 if is_pair and made[number - 1][0] is table else 100
        origin = Origin("mysql-bin.000003", pos, server_id=1, commit_us=pos * 1000)
        change = RowChange(table, op, row(table, before), row(table, after), origin)
        found.append(CANAL.to_bytes(change))
    return found


def create(server: TargetServer, actions: str = "ON DELETE CASCADE") -> None:
    server.execute("CREATE TABLE {schema}.par (id INT PRIMARY KEY, code VARCHAR(5) UNIQUE)")
    server.execute(
        "CREATE TABLE {schema}.ch (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES "
        f"{{schema}}.par (id) {actions})"
    )
    server.execute(
        "CREATE TABLE {schema}.gch (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES "
        f"{{schema}}.ch (id) {actions})"
    )


def apply(applier: PartitionApplier, *batches: Sequence[Change]) -> None:
    begin = 0
    for batch in batches:
        made = [(begin + number, value) for number, value in enumerate(values(batch))]
        begin += len(batch)
        applier.apply(PARTITION, records_of(made), begin, 1)


def rows(server: TargetServer, table: str) -> list[tuple[object, ...]]:
    return server.rows(f"SELECT * FROM {{schema}}.{table} ORDER BY id")


# Few rows are merged one by one, many by columns.
@pytest.mark.parametrize("others", [0, 500])
def test_a_child_that_moves_before_its_parent_goes_keeps_its_own_children(
    server: TargetServer, task: LoadTask, others: int
) -> None:
    create(server)
    more: list[Change] = []
    for number in range(others):
        more.append((CH, Op.UPDATE, ("20", "2"), ("20", "2")))
        more.append((PAR, Op.INSERT, None, (str(1000 + number), f"n{number}")))
    with applying(server, task) as applier:
        apply(
            applier,
            BEGINNING,
            [
                (CH, Op.UPDATE, ("10", "1"), ("10", "2")),
                (PAR, Op.DELETE, ("1", "a"), None),
                *more,
            ],
        )
    assert rows(server, "ch") == [(10, 2), (20, 2)]
    assert rows(server, "gch") == [(100, 10), (101, 10), (200, 20)]
    assert len(rows(server, "par")) == 1 + others


def test_a_parent_that_is_replaced_loses_its_children_as_at_the_source(
    server: TargetServer, task: LoadTask
) -> None:
    """MariaDB logs the delete and the insert of REPLACE, and none of the children."""
    create(server)
    with applying(server, task) as applier:
        apply(
            applier,
            BEGINNING,
            [
                (PAR, Op.DELETE, ("1", "a"), None),
                (CH, Op.INSERT, None, ("30", "2")),
                (PAR, Op.INSERT, None, ("1", "c")),
            ],
        )
    assert rows(server, "ch") == [(20, 2), (30, 2)]
    assert rows(server, "gch") == [(200, 20)]


def test_values_that_parents_exchange_reach_children_in_order(
    server: TargetServer, task: LoadTask
) -> None:
    """As MySQL 9.7 logs it: the children that its own key changes come before their parent."""
    create(server)
    server.execute(
        "CREATE TABLE {schema}.coded (id INT PRIMARY KEY, code VARCHAR(5), FOREIGN KEY (code) "
        "REFERENCES {schema}.par (code) ON UPDATE CASCADE)"
    )
    first: list[Change] = [
        *BEGINNING[:2],
        (CODED, Op.INSERT, None, ("10", "a")),
        (CODED, Op.INSERT, None, ("20", "b")),
        (CODED, Op.INSERT, None, ("30", "a")),
    ]
    with applying(server, task) as applier:
        apply(
            applier,
            first,
            [
                (CODED, Op.UPDATE, ("10", "a"), ("10", "tmp")),
                (CODED, Op.UPDATE, ("30", "a"), ("30", "tmp")),
                (PAR, Op.UPDATE, ("1", "a"), ("1", "tmp")),
                (CODED, Op.UPDATE, ("20", "b"), ("20", "a")),
                (PAR, Op.UPDATE, ("2", "b"), ("2", "a")),
                (CODED, Op.UPDATE, ("10", "tmp"), ("10", "b")),
                (CODED, Op.UPDATE, ("30", "tmp"), ("30", "b")),
                (PAR, Op.UPDATE, ("1", "tmp"), ("1", "b")),
            ],
        )
    assert rows(server, "par") == [(1, "b"), (2, "a")]
    assert rows(server, "coded") == [(10, "b"), (20, "a"), (30, "b")]


def test_the_keys_are_found_and_a_warning_names_them_once(
    server: TargetServer, task: LoadTask, caplog: pytest.LogCaptureFixture
) -> None:
    create(server, "ON DELETE SET NULL ON UPDATE CASCADE")
    server.execute("CREATE TABLE {schema}.alone (id INT PRIMARY KEY)")
    schema = server.schema
    with closing(make_loader("JdbcBatch", server.target())) as loader:
        found = loader.table(TableId(schema, "ch"))
        alone = loader.table(TableId(schema, "alone"))
    assert found is not None
    assert alone is not None
    assert alone.cascades == ()
    names = [TableId(schema, table) for table in ("par", "ch", "gch")]
    assert found.cascades == (
        CascadingKey(names[1], names[0], "SET NULL", "CASCADE"),
        CascadingKey(names[2], names[1], "SET NULL", "CASCADE"),
    )
    with applying(server, task) as applier, caplog.at_level(logging.WARNING):
        apply(applier, BEGINNING, BEGINNING)
    told = [line for line in caplog.messages if "foreign keys with actions" in line]
    assert len(told) == 3
    assert f"{names[1]} to {names[0]} ON DELETE SET NULL ON UPDATE CASCADE" in told[0]


def test_the_keys_are_found_where_the_server_keeps_names_in_lower_case() -> None:
    """lower_case_table_names=1: it finds a table under any spelling."""
    with private_mariadb("--lower-case-table-names=1") as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.par (id INT PRIMARY KEY)",
            "CREATE TABLE shop.ch (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES "
            "shop.par (id) ON DELETE CASCADE)",
        )
        at = server.database
        target = JdbcTarget(f"jdbc:mysql://{at.host}:{at.port}/shop", at.user, at.password)
        with closing(make_loader("JdbcBatch", target)) as loader:
            found = loader.table(TableId("Shop", "Par"))
    assert found is not None
    assert found.cascades == (CascadingKey(TableId("shop", "ch"), found.id, "CASCADE", ""),)


def test_a_parent_is_emptied_alone_where_the_session_runs_no_foreign_keys(
    server: TargetServer,
) -> None:
    server.execute("CREATE TABLE {schema}.parents (id INT PRIMARY KEY)")
    server.execute(
        "CREATE TABLE {schema}.children (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES "
        "{schema}.parents (id) ON DELETE CASCADE)"
    )
    server.execute("INSERT INTO {schema}.parents VALUES (1)")
    server.execute("INSERT INTO {schema}.children VALUES (1)")
    setting = "?sessionVariables=foreign_key_checks=0"
    if isinstance(server, PostgresqlServer):
        setting = "&options=-c%20session_replication_role=replica"
    target = server.target()
    for each, is_refused in ((target, True), (replace(target, url=target.url + setting), False)):
        with closing(make_loader("JdbcBatch", each)) as loader:
            table = loader.table(TableId(server.schema, "parents"))
            assert table is not None
            refused: AbstractContextManager[object] = nullcontext()
            if is_refused:
                refused = pytest.raises(RowConflict)
            with refused, loader.transaction() as transaction:
                transaction.write(TableBatch(table, truncate=True))
        left = [(1 if is_refused else 0,)]
        assert server.rows("SELECT COUNT(*) FROM {schema}.parents") == left
        assert server.rows("SELECT COUNT(*) FROM {schema}.children") == [(1,)]


def test_a_parent_is_not_emptied_where_a_foreign_key_came_since_it_was_read(
    server: TargetServer,
) -> None:
    server.execute("CREATE TABLE {schema}.parents (id INT PRIMARY KEY)")
    server.execute("INSERT INTO {schema}.parents VALUES (1)")
    with closing(make_loader("JdbcBatch", server.target())) as loader:
        table = loader.table(TableId(server.schema, "parents"))
        assert table is not None
        server.execute(
            "CREATE TABLE {schema}.children (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES "
            "{schema}.parents (id) ON DELETE CASCADE)"
        )
        server.execute("INSERT INTO {schema}.children VALUES (1)")
        with pytest.raises(RowConflict), loader.transaction() as transaction:
            transaction.write(TableBatch(table, truncate=True))
    assert server.rows("SELECT COUNT(*) FROM {schema}.children") == [(1,)]
