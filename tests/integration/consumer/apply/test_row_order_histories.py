"""Random histories whose rows change their partitions, on real targets: whichever partition is ahead,
they end as the source has left them.

CDCBUS_TEST_EXAMPLES makes it try more of them than a test run has time for, and others each time.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.consumer.apply import prepare
from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.merge.columnar import MIN_RECORDS
from cdcbus.consumer.records.records import Record, Records
from cdcbus.plugins.contracts import Converter, JdbcTarget
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.kafka.partitioner import partition_of
from cdcbus.plugins.kafka.record_key import key_text, split_key_change
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_histories import TRIED
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration
CONVERTERS: dict[str, Converter] = {"canalRow": CanalRow(), "oggJson": OggJson()}
TABLE = Table(
    TableId("shop", "t"),
    (Column("k", "varchar(9)"), Column("grp", "varchar(9)"), Column("v", "int")),
    ("k",),
)
KEYS = {"exact": ["1", "2", "3"], "coarse": ["ann", "Ann", "ANN", "bob", "bob ", "Bob"]}
NUMBERS = count(1)
T0 = 1_700_000_000_000

Logged = tuple[bytes, RowChange, int]  # key, change, when it came


def same(kind: str, key: str) -> str:
    """What the target takes for one."""
    return key if kind == "exact" else key.lower().rstrip()


@dataclass
class History:
    """A source's table, and the partitions of its topic. From the partitions' places in `grown` on,
    records came after partitions were added."""

    kind: str
    dice: random.Random
    partition_key: tuple[str, ...]
    count: int
    rows: dict[str, dict[str, Cell]] = field(default_factory=dict)
    log: list[RowChange] = field(default_factory=list)
    partitions: dict[int, list[Logged]] = field(default_factory=dict)
    grown: dict[int, int] | None = None
    now_ms: int = T0

    def run(self, steps: int, grow_at: int | None) -> History:
        for step in range(steps):
            if step == grow_at:
                self.grown = {
                    partition: len(records) for partition, records in self.partitions.items()
                }
                self.count += self.dice.randint(1, 2)
            self.change()
            if self.dice.random() < 0.1:  # the fetch task was killed, and reads again
                for change in self.log[-self.dice.randint(1, 4) :]:
                    self.publish(change)
        return self

    def change(self) -> None:
        key, grp = self.dice.choice(KEYS[self.kind]), self.dice.choice(["a", "b", "c"])
        old = self.rows.get(same(self.kind, key))
        new: dict[str, Cell] = {"k": key, "grp": grp, "v": str(len(self.log))}
        before: dict[str, Cell] | None
        after: dict[str, Cell] | None
        if old is None:
            op, before, after = Op.INSERT, None, new
        elif self.dice.random() < 0.3:
            op, before, after = Op.DELETE, old, None
        else:
            op, before, after = (
                Op.UPDATE,
                old,
                new if self.dice.random() < 0.6 else {**old, "v": new["v"]},
            )
        self.rows.pop(same(self.kind, key), None)
        if after is not None:
            self.rows[same(self.kind, key)] = after
        place = len(self.log) + 1
        origin = Origin(
            "binlog.000007", 100 * place, "", 1, (T0 + self.dice.randint(-1, 1) * 1000) * 1000
        )
        self.log.append(RowChange(TABLE, op, before, after, origin))
        self.publish(self.log[-1])

    def publish(self, change: RowChange) -> None:
        self.now_ms += self.dice.choice([0, 1, 3000])
        for part in split_key_change(change, self.partition_key):
            key = key_text(part, self.partition_key)
            self.partitions.setdefault(partition_of(key, self.count), []).append(
                (key, part, self.now_ms)
            )


def history(
    kind: str, seed: int, partition_key: str, partitions: int, steps: int, grow_at: int | None
) -> History:
    return History(kind, random.Random(seed), (partition_key,), partitions).run(steps, grow_at)


HISTORIES = st.builds(
    history,
    st.sampled_from([*KEYS]),
    st.integers(0, 2**32),
    st.sampled_from(["k", "grp"]),
    st.integers(2, 4),
    st.integers(1, 40),
    st.none() | st.integers(1, 30),
)


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[TargetServer]:
    kind = PostgresqlServer if request.param == "postgresql" else MysqlServer
    server: TargetServer = kind(request.getfixturevalue(request.param), "t" + uuid.uuid4().hex[:10])
    server.execute("CREATE SCHEMA {schema}")
    if request.param == "postgresql":
        server.execute(
            "CREATE COLLATION {schema}.ci (provider = icu, locale = 'und-u-ka-shifted-ks-level1', "
            "deterministic = false)"
        )
    server.execute(
        f"CREATE TABLE {{schema}}.exact (k {_exact(request.param)} PRIMARY KEY, grp VARCHAR(9), v "
        f"INT)"
    )
    server.execute(
        f"CREATE TABLE {{schema}}.coarse (k {_coarse(request.param)} PRIMARY KEY, grp VARCHAR(9), "
        f"v INT)"
    )
    yield server
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


def _exact(server: str) -> str:
    return "VARCHAR(9)" if server == "postgresql" else "VARCHAR(9) COLLATE utf8mb4_nopad_bin"


def _coarse(server: str) -> str:
    if server == "postgresql":
        return "VARCHAR(9) COLLATE {schema}.ci"
    return "VARCHAR(9) COLLATE utf8mb4_general_ci"


def records(partition: list[Logged], converter: str) -> Records:
    keys, changes, times = zip(*partition, strict=True)
    values = [CONVERTERS[converter].to_bytes(change) for change in changes]
    offsets = pa.array(range(len(partition)), pa.int64())
    return Records(
        offsets,
        pa.array(values, pa.binary()),
        None,
        pa.array(keys, pa.binary()),
        pa.array(times, pa.int64()),
    )


def apply_together(
    appliers: dict[int, PartitionApplier],
    partitions: dict[int, Records],
    done: dict[int, int],
    left: list[int],
) -> None:
    """Partitions that wait for each other, to their ends, as the driver does."""
    driver = appliers[-1]
    parts = []
    for number in left:
        partition = TopicPartition("shop", number)
        if partition in appliers[number].seen:
            driver.seen[partition] = appliers[number].seen[partition]
        whole = partitions[number]
        parts.append((partition, whole[done[number] :], len(whole), 1))
    together = driver.apply_together(parts)
    assert together, "no partition gets on"
    for partition, (end, _) in together.items():
        done[partition.partition] = end
        appliers[partition.partition].seen[partition] = driver.seen[partition]


@TRIED
@given(
    st.data(),
    HISTORIES,
    st.sampled_from([*CONVERTERS]),
    st.booleans(),
    st.sampled_from([1, MIN_RECORDS]),
)
def test_rows_end_as_the_source_has_left_them_whichever_partition_is_ahead(
    server: TargetServer,
    data: st.DataObject,
    history: History,
    converter: str,
    insert_on_update: bool,
    least: int,
) -> None:
    """Each partition by an applier of its own, as on executors. 80 histories with connections of
    their own take 20 s for each server."""
    server.execute(f"DELETE FROM {{schema}}.{history.kind}")
    rules = (MapperRule(schema=("shop", server.schema), table=("t", history.kind)),)
    task_id = f"task{next(NUMBERS)}"
    source = TopicConfig("", ("shop",))
    task = LoadTask(
        task_id,
        source,
        converter,
        "JdbcBatch",
        JdbcTarget(""),
        rules=rules,
        insert_on_update_error=insert_on_update,
    )
    partitions = {
        number: records(partition, converter) for number, partition in history.partitions.items()
    }
    loaders = {
        partition: make_loader("JdbcBatch", replace(server.target(), task_id=task_id))
        for partition in (*partitions, -1)
    }

    def read_on(partition: TopicPartition, offset: int) -> Iterator[Record]:
        return iter(partitions[partition.partition][offset:])

    appliers = {
        partition: PartitionApplier(task, CONVERTERS[converter], loader, read_on=read_on)
        for partition, loader in loaders.items()
    }
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(prepare, "MIN_RECORDS", least)
            apply_as_drawn(data, history, appliers, partitions)
    finally:
        for loader in loaders.values():
            loader.close()
    found: list[Row] = []
    for row in server.rows(f"SELECT k, grp, v FROM {{schema}}.{history.kind}"):
        found.append(dict(zip(("k", "grp", "v"), map(str, row), strict=True)))
    assert sorted(map(repr, found)) == sorted(map(repr, history.rows.values()))


def apply_as_drawn(
    data: st.DataObject,
    history: History,
    appliers: dict[int, PartitionApplier],
    partitions: dict[int, Records],
) -> None:
    """All partitions to their ends, in batches of any size, whichever is ahead."""
    done, is_told, waiting = dict.fromkeys(partitions, 0), False, set[int]()
    while left := sorted(number for number, end in done.items() if end < len(partitions[number])):
        if waiting == {*left}:
            apply_together(appliers, partitions, done, left)
            waiting.clear()
            continue
        number = data.draw(st.sampled_from(left))
        begin = done[number]
        end = data.draw(st.integers(begin + 1, len(partitions[number])))
        if history.grown is not None and not is_told and end > history.grown.get(number, 0):
            # as the driver does before such a batch
            appliers[-1].scatter("partitions were added")
            is_told = True
        try:
            part = partitions[number][begin:end]
            appliers[number].apply(TopicPartition("shop", number), part, end, 1)
            done[number] = end
        except PartitionWaits as one:
            done[number] = one.end
            waiting |= {number}
        if done[number] > begin:
            waiting.clear()


def test_an_update_ahead_of_its_insert_brings_the_row_also_where_updates_do_not_insert(
    server: TargetServer,
) -> None:
    """Partitions were added between the two, so they are in two partitions; the insert comes last, and
    is older than what the target holds."""
    server.execute("DELETE FROM {schema}.exact")
    row: dict[str, Cell] = {"k": "1", "grp": "a", "v": "1"}
    newer: dict[str, Cell] = {**row, "v": "2"}
    origins = [Origin("binlog.000007", 100 * place, "", 1, (T0 + place) * 1000) for place in (1, 2)]
    older = RowChange(TABLE, Op.INSERT, None, row, origins[0])
    partitions = {0: older, 1: RowChange(TABLE, Op.UPDATE, row, newer, origins[1])}
    rules = (MapperRule(schema=("shop", server.schema), table=("t", "exact")),)
    task_id = f"task{next(NUMBERS)}"
    task = LoadTask(
        task_id,
        TopicConfig("", ("shop",)),
        "canalRow",
        "JdbcBatch",
        JdbcTarget(""),
        rules=rules,
        insert_on_update_error=False,
    )
    loader = make_loader("JdbcBatch", replace(server.target(), task_id=task_id))
    try:
        partition_applier = PartitionApplier(task, CONVERTERS["canalRow"], loader)
        partition_applier.scatter("partitions were added")
        for partition in (1, 0):
            log = [(key_text(partitions[partition], ("k",)), partitions[partition], T0 + partition)]
            partition_applier.apply(
                TopicPartition("shop", partition), records(log, "canalRow"), 1, 1
            )
    finally:
        loader.close()
    assert server.rows("SELECT k, grp, v FROM {schema}.exact") == [("1", "a", 2)]
