"""Random histories of a source on real targets: however they are cut into batches, they leave what
an interpreter leaves row by row.

CDCBUS_TEST_EXAMPLES makes it try more of them than a test run has time for, and others each time.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cdcbus.consumer.apply import prepare
from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.merge.columnar import MIN_RECORDS
from cdcbus.plugins.contracts import JdbcTarget, Loader
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer
from tests.support.topics.records import records_of
from tests.unit.consumer.merge.test_fold import SENT, Key, Rows, apply_one, copy, sent

pytestmark = pytest.mark.integration

EXAMPLES_GIVEN = os.environ.get("CDCBUS_TEST_EXAMPLES", "")
# making a found example small takes minutes
PHASES = [Phase.generate, *([Phase.shrink] if EXAMPLES_GIVEN else [])]
TRIED = settings(
    max_examples=int(EXAMPLES_GIVEN or "80"),
    derandomize=not EXAMPLES_GIVEN,
    database=None,
    phases=PHASES,
    suppress_health_check=list(HealthCheck),
)
KEYS: list[Key] = [("1", "p"), ("2", "p"), ("3", "p"), ("3", "q")]
CELLS = [None, "", "x", "y", "null"]
CANAL = CanalRow()
PARTITION = TopicPartition("shop", 0)
LOADERS = pytest.mark.parametrize(
    ("loader", "merge"),
    [("JdbcBatch", True), ("JdbcBatch", False), ("JdbcSingle", True)],
    ids=["merged", "unmerged", "JdbcSingle"],
)
ALONE, PARENTS, CHILDREN = (
    TableId("shop", "alone"),
    TableId("shop", "parents"),
    TableId("shop", "children"),
)
COLUMNS = "k VARCHAR(9), part VARCHAR(9), a VARCHAR(9), b VARCHAR(9), PRIMARY KEY (k, part)"
TABLES = {
    ALONE: f"{COLUMNS}, own VARCHAR(9) DEFAULT 'default', UNIQUE (a)",
    PARENTS: f"{COLUMNS}, own VARCHAR(9) DEFAULT 'default', UNIQUE (a)",
    CHILDREN: f"{COLUMNS}, FOREIGN KEY (a, b) REFERENCES {{schema}}.parents (k, part)",
}
SOURCES = {
    name: Table(name, tuple(Column(column, "varchar(9)") for column in SENT), ("k", "part"))
    for name in TABLES
}


# Histories of a source


@dataclass
class Source:
    """Tables of a server that checks all keys at each row, and the changes that its log holds."""

    tables: dict[TableId, Rows]
    changes: list[RowChange] = field(default_factory=list)

    def run(self, *changes: RowChange) -> None:
        """Up to the first one that a key forbids."""
        for change in changes:
            tables = {name: copy(rows) for name, rows in self.tables.items()}
            apply_one(tables[change.table.id], change, insert_on_update=False)
            if not is_allowed(tables):
                return
            self.tables = tables
            self.changes.append(change)


def is_allowed(tables: dict[TableId, Rows]) -> bool:
    for name in {ALONE, PARENTS} & tables.keys():
        values = [row["a"] for row in tables[name].values() if row["a"] is not None]
        if len(set(values)) < len(values):
            return False
    named = {(row["a"], row["b"]) for row in tables.get(CHILDREN, {}).values()}
    return {key for key in named if None not in key} <= tables.get(PARENTS, {}).keys()


def insert(table: TableId, row: Row) -> RowChange:
    return RowChange(SOURCES[table], Op.INSERT, None, row)


def update(table: TableId, before: Row, after: Row) -> RowChange:
    return RowChange(SOURCES[table], Op.UPDATE, before, after)


def delete(table: TableId, row: Row) -> RowChange:
    return RowChange(SOURCES[table], Op.DELETE, row, None)


def truncate(table: TableId) -> RowChange:
    return RowChange(SOURCES[table], Op.TRUNCATE, None, None)


def image(dice: random.Random, source: Source, table: TableId, key: Key) -> Row:
    a, b = dice.choice(CELLS), dice.choice(CELLS)
    if table == CHILDREN:
        a, b = dice.choice([(None, None), *source.tables[PARENTS]])
    return dict(zip(SENT, (*key, a, b), strict=True))


def step(dice: random.Random, source: Source, table: TableId) -> None:
    """A transaction of one statement or a few."""
    rows = sent(source.tables[table])
    key, other = dice.choice([*KEYS, *rows]), dice.choice(KEYS)
    row, after = rows.get(key), image(dice, source, table, key)
    if row is None:
        source.run(insert(table, after))
        return
    match dice.choice(
        [
            "update",
            "partial",
            "move",
            "hand over",
            "hand over",
            "inherit",
            "delete",
            "delete",
            "truncate",
        ]
    ):
        case "update":
            source.run(update(table, row, after))
        case "partial":
            column = dice.choice(["a", "b"])
            source.run(update(table, {"k": row["k"], "part": row["part"]}, {column: after[column]}))
        case "move" if other not in rows:
            source.run(update(table, row, image(dice, source, table, other)))
        case "hand over" if other in rows and other != key:
            two = rows[other]
            source.run(
                update(table, two, {**two, "a": None}),
                update(table, row, {**row, "a": two["a"]}),
                update(table, {**two, "a": None}, {**two, "a": row["a"]}),
            )
        case "inherit" if other in rows and other != key:
            source.run(
                delete(table, row),
                update(table, rows[other], {**rows[other], "a": row["a"], "b": row["b"]}),
            )
        case "delete":
            deletes = []
            if table == PARENTS:
                for child in sent(source.tables.get(CHILDREN, {})).values():
                    if (child["a"], child["b"]) == key:
                        deletes.append(delete(CHILDREN, child))
            source.run(*deletes, delete(table, row))
        case "truncate" if table != PARENTS and dice.random() < 0.3:  # refused for parents
            source.run(truncate(table))


def history(tables: Sequence[TableId], seed: int, steps: int) -> list[RowChange]:
    """From empty tables on."""
    dice, source = random.Random(seed), Source({table: {} for table in tables})
    for _ in range(steps):
        step(dice, source, dice.choice(tables))
    return source.changes


def histories(*tables: TableId) -> st.SearchStrategy[list[RowChange]]:
    return st.builds(history, st.just(tables), st.integers(0, 2**32), st.integers(1, 30))


def row_by_row(
    tables: dict[TableId, Rows], changes: Sequence[RowChange], *, insert_on_update: bool = True
) -> dict[TableId, Rows]:
    tables = {name: copy(rows) for name, rows in tables.items()}
    for change in changes:
        apply_one(tables[change.table.id], change, insert_on_update)
    return tables


# The target


@dataclass(frozen=True)
class Target:
    """The tables on a real server, and the loaders that write to it."""

    schema: str
    connection: Any
    loaders: dict[str, Loader]

    def run(self, sql: str) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(sql.encode())
            return cursor.fetchall() if cursor.description else ()

    def fill(self, tables: dict[TableId, Rows]) -> None:
        for name in reversed(TABLES):
            self.run(f"DELETE FROM {self.schema}.{name.table}")
        for name, rows in tables.items():
            for row in rows.values():
                cells = ", ".join("NULL" if cell is None else f"'{cell}'" for cell in row.values())
                self.run(
                    f"INSERT INTO {self.schema}.{name.table} ({', '.join(row)}) VALUES ({cells})"
                )

    def rows(self, *tables: TableId) -> dict[TableId, Rows]:
        found: dict[TableId, Rows] = {}
        for table in tables:
            names = (*SENT, "own") if table == ALONE else SENT
            rows = self.run(f"SELECT {', '.join(names)} FROM {self.schema}.{table.table}")
            found[table] = {row[:2]: dict(zip(names, row, strict=True)) for row in rows}
        return found

    def apply(
        self, loader: str, task: LoadTask, changes: Sequence[RowChange], *batches: tuple[int, int]
    ) -> None:
        """Of the only partition, these parts one after the other."""
        records = records_of(
            [(offset, CANAL.to_bytes(change)) for offset, change in enumerate(changes)]
        )
        task = replace(task, rules=(MapperRule(schema=("shop", self.schema)),))
        applier = PartitionApplier(
            task, CANAL, self.loaders[loader], read_on=lambda _, offset: iter(records[offset:])
        )
        applier.applied_offsets()  # as each start asks
        for begin, end in batches:
            applier.apply(PARTITION, records[begin:end], end, 1, sys.maxsize)


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    kind = PostgresqlServer if request.param == "postgresql" else MysqlServer
    server = kind(request.getfixturevalue(request.param), "t" + uuid.uuid4().hex[:10])
    server.execute("CREATE SCHEMA {schema}")
    for name, columns in TABLES.items():
        server.execute(f"CREATE TABLE {{schema}}.{name.table} ({columns})")
    loaders = {name: make_loader(name, server.target()) for name in ("JdbcBatch", "JdbcSingle")}
    with server.connected() as connection:
        yield Target(server.schema, connection, loaders)
    for loader in loaders.values():
        loader.close()
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


def task(**options: Any) -> LoadTask:
    return replace(
        LoadTask("contract", TopicConfig("", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget("")),
        **options,
    )


@contextmanager
def columns_from(least: int) -> Iterator[None]:
    """From how many records on a batch is read as columns."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prepare, "MIN_RECORDS", least)
        yield


@st.composite
def batches(draw: st.DrawFn, begin: int, end: int) -> list[tuple[int, int]]:
    """How all from `begin` to before `end` is cut."""
    edges = sorted({begin, end, *draw(st.lists(st.integers(begin, end), max_size=5))})
    return list(itertools.pairwise(edges))


LEAST = st.sampled_from([1, MIN_RECORDS])
WEIGHTS = st.sampled_from([{}, {"PARENTS": 1, "CHILDREN": 2}])


@LOADERS
@TRIED
@given(st.data(), histories(ALONE), st.booleans(), LEAST)
def test_a_target_that_lacks_rows_is_left_as_row_by_row(
    target: Target,
    loader: str,
    merge: bool,
    data: st.DataObject,
    changes: list[RowChange],
    insert_on_update: bool,
    least: int,
) -> None:
    start = data.draw(st.integers(0, len(changes)))
    held = row_by_row({ALONE: {}}, changes[:start])[ALONE]
    kept: Rows = {}
    for key in sorted(held, key=str):
        if data.draw(st.booleans()):
            kept[key] = {**held[key], "own": data.draw(st.sampled_from(CELLS))}
    target.fill({ALONE: kept})
    with columns_from(least):
        options = task(merge=merge, insert_on_update_error=insert_on_update)
        target.apply(loader, options, changes, *data.draw(batches(start, len(changes))))
    assert target.rows(ALONE) == row_by_row(
        {ALONE: kept}, changes[start:], insert_on_update=insert_on_update
    )


@LOADERS
@TRIED
@given(st.data(), histories(PARENTS, CHILDREN), WEIGHTS, st.booleans(), LEAST)
def test_parents_and_children_are_left_as_row_by_row(
    target: Target,
    loader: str,
    merge: bool,
    data: st.DataObject,
    changes: list[RowChange],
    weights: dict[str, int],
    insert_on_update: bool,
    least: int,
) -> None:
    target.fill({})
    with columns_from(least):
        options = task(merge=merge, insert_on_update_error=insert_on_update, weights=weights)
        target.apply(loader, options, changes, *data.draw(batches(0, len(changes))))
    wanted = row_by_row({PARENTS: {}, CHILDREN: {}}, changes)
    assert target.rows(PARENTS, CHILDREN) == {name: sent(rows) for name, rows in wanted.items()}


@LOADERS
@TRIED
@given(st.data(), histories(*TABLES), WEIGHTS, LEAST)
def test_changes_that_come_again_leave_the_source_s_rows(
    target: Target,
    loader: str,
    merge: bool,
    data: st.DataObject,
    changes: list[RowChange],
    weights: dict[str, int],
    least: int,
) -> None:
    done = data.draw(st.just(len(changes)) | st.integers(0, len(changes)))
    again = data.draw(st.just(0) | st.integers(0, done))
    target.fill({})
    with columns_from(least):
        parts = [*data.draw(batches(0, done)), *data.draw(batches(again, len(changes)))]
        target.apply(loader, task(merge=merge, weights=weights), changes, *parts)
    left, wanted = target.rows(*TABLES), row_by_row({name: {} for name in TABLES}, changes)
    assert {name: sent(rows) for name, rows in left.items()} == {
        name: sent(rows) for name, rows in wanted.items()
    }
