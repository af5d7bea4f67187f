"""Changes of one row in several partitions, on real targets: whichever partition is ahead, the
row ends as the source has left it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from cdcbus.consumer.apply import prepare
from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.moves import FirstRecords
from cdcbus.consumer.offsets.topic_logs import LogRecord
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Record, Records
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import AppliedOffset, Converter, JdbcTarget
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.errors import (
    BusUnavailable,
    TargetMisconfigured,
    TargetRejected,
    TargetUnavailable,
)
from cdcbus.plugins.kafka.partitioner import partition_of
from cdcbus.plugins.kafka.record_key import key_text, split_key_change
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from tests.contract.target_server import TargetServer
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration
CONVERTERS: dict[str, Converter] = {"canalRow": CanalRow(), "oggJson": OggJson()}
MOVES = Table(
    TableId("shop", "moves"),
    (Column("id", "int"), Column("grp", "varchar(9)"), Column("v", "int")),
    ("id",),
)
USERS = Table(
    TableId("shop", "users"), (Column("email", "varchar(40)"), Column("v", "int")), ("email",)
)
T0 = 1_700_000_000_000
HOUR_MS = 3_600_000
VERSION_TABLES = (
    "SELECT table_name FROM information_schema.tables WHERE table_schema = "
    "'{schema}' AND table_name LIKE 'cdcbus_row_%'"
)


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, name: str) -> Iterator[TargetServer]:
    at: Database = request.getfixturevalue(request.param)
    server = PostgresqlServer(at, name) if request.param == "postgresql" else MysqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


@pytest.fixture(params=[False, True], ids=["few", "many"])
def padding(request: pytest.FixtureRequest) -> int:
    """So many other rows come in each partition, as a batch of these would be read as columns."""
    return 300 if request.param else 0


@dataclass
class Source:
    """Writes a log of row changes, and puts them into partitions by their partition key."""

    table: Table
    partition_key: tuple[str, ...]
    partitions: dict[bytes, list[tuple[bytes, RowChange, int]]]
    place: int = 0
    ms_per_change: int = 7

    def change(self, op: Op, before: Row | None, after: Row | None) -> None:
        self.place += 1
        origin = Origin("mysql-bin.000003", 100 * self.place, "", 1, (T0 + self.place) * 1000)
        change = RowChange(self.table, op, before, after, origin)
        for part in split_key_change(change, self.partition_key):
            key = key_text(part, self.partition_key)
            self.partitions.setdefault(key, []).append(
                (key, part, T0 + self.place * self.ms_per_change)
            )


def records(partition: Sequence[tuple[bytes, RowChange, int]], converter: str) -> Records:
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


def interleavings(*lengths: int) -> list[tuple[int, ...]]:
    """All orders in which partitions of so many records can be applied one by one."""
    numbers: list[int] = []
    for partition, length in enumerate(lengths):
        numbers += [partition] * length
    return sorted(set(itertools.permutations(numbers)))


class Partitions:
    """Applies partitions of a source in any order, each part by an applier of its own, as executors
    do."""

    def __init__(
        self,
        server: TargetServer,
        partitions: Sequence[Records],
        task: LoadTask,
        put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None = None,
        places: Sequence[TopicPartition] = (),
        now_ms: int = T0 + HOUR_MS,
    ) -> None:
        """`places`: where the partitions are, if not in topic shop from 0 on. `now_ms`: the time by
        the clock that stamps records."""
        self._partitions, self._task = partitions, task
        self.places = [*places] or [TopicPartition("shop", at) for at in range(len(partitions))]
        self.done = [0] * len(partitions)
        self._loaders = [make_loader("JdbcBatch", server.target()) for _ in partitions]
        self.appliers = []
        for loader in self._loaders:
            applier = PartitionApplier(
                task,
                CONVERTERS[task.converter],
                loader,
                put_dead_letters=put_dead_letters,
                read_on=self._read_on,
                read_first=self._read_first,
            )
            applier.arrivals.saw(now_ms)
            self.appliers.append(applier)
        self.appliers[0].applied_offsets()  # as the driver
        for place, applier in zip(self.places[1:], self.appliers[1:], strict=True):
            applier.begin(place, self.appliers[0].seen)

    def _read_on(self, partition: TopicPartition, offset: int) -> Iterator[Record]:
        return iter(self._partitions[self.places.index(partition)][offset:])

    def _read_first(self, offsets: Mapping[TopicPartition, int]) -> FirstRecords:
        found: list[LogRecord] = []
        counts: dict[str, int] = {}
        for partition in offsets:
            counts[partition.topic] = counts.get(partition.topic, 0) + 1
            held = self._partitions[self.places.index(partition)]
            assert held.keys is not None
            for (offset, value), key in zip(held, held.keys.to_pylist(), strict=True):
                found.append(LogRecord(partition, offset, value, T0, key))
        return FirstRecords(found, counts)

    def take_over(self) -> None:
        """Begins with all partitions, on a target that knows none."""
        self.appliers[0].take_over([AppliedOffset(*place, 0, 1) for place in self.places])
        for place, applier in zip(self.places[1:], self.appliers[1:], strict=True):
            applier.begin(place, self.appliers[0].seen)

    def apply(self, partition: int, count: int) -> int:
        """How many changes were superseded."""
        begin = self.done[partition]
        end = min(len(self._partitions[partition]), begin + count)
        try:
            report = self.appliers[partition].apply(
                self.places[partition], self._partitions[partition][begin:end], end, 1
            )
            self.done[partition] = end
        except PartitionWaits as waiting:
            report, self.done[partition] = waiting.report, waiting.end
        return sum(each.superseded for each in report.tables.values())

    def finish(self) -> None:
        """What waited for other partitions goes on, as long as one gets on."""
        before: list[int] = []
        while before != self.done:
            before = [*self.done]
            for partition, records in enumerate(self._partitions):
                if self.done[partition] < len(records):
                    self.apply(partition, len(records))
        assert self.done == [len(records) for records in self._partitions]

    def __enter__(self) -> Partitions:
        return self

    def __exit__(self, *_: object) -> None:
        for loader in self._loaders:
            loader.close()


def task_of(server: TargetServer, converter: str = "canalRow", **options: bool) -> LoadTask:
    rules = (MapperRule(schema=("shop", server.schema)),)
    return replace(
        LoadTask(
            "7", TopicConfig("", ("shop",)), converter, "JdbcBatch", JdbcTarget(""), rules=rules
        ),
        **options,  # type: ignore[arg-type]
    )


def assert_ends(
    server: TargetServer,
    source: Source,
    table: str,
    expected: list[tuple[object, ...]],
    task: LoadTask,
    padding: int,
) -> None:
    """In whichever order the partitions are applied; `padding`: rows with ids from 1000 on, with
    which a few orders are tried only."""
    partitions = [*source.partitions.values()]
    orders = interleavings(*map(len, partitions))
    if padding:
        orders = [orders[0], orders[len(orders) // 2], orders[-1]]
    for order in orders:
        server.execute(f"DELETE FROM {{schema}}.{table}")
        padded = []
        for number, partition in enumerate(partitions):
            more = pads(source.table, number, partition, padding)
            padded.append(records([*more, *partition], task.converter))
        server.execute("DROP TABLE IF EXISTS {schema}.cdcbus_position")
        for (name,) in server.rows(VERSION_TABLES):
            server.execute(f"DROP TABLE {{schema}}.{name}")
        with Partitions(server, padded, task) as applying:
            seen = set[int]()
            for number in order:
                applying.apply(number, 1 if number in seen else padding + 1)
                seen.add(number)
            applying.finish()
        columns = ", ".join(column.name for column in source.table.columns)
        found = server.rows(f"SELECT {columns} FROM {{schema}}.{table} ORDER BY 1")
        assert [row for row in found if not is_pad(row[0])] == expected, order
        assert len(found) - len(expected) == padding * len(partitions)


def pads(
    table: Table, number: int, partition: Sequence[tuple[bytes, RowChange, int]], count: int
) -> list[tuple[bytes, RowChange, int]]:
    """So many rows more for a partition, with keys that no other one has."""
    key, like, _ = partition[0]
    found = []
    for row in range(count):
        after = pad(table, 1000 * (number + 1) + row, like)
        found.append((key, RowChange(table, Op.INSERT, None, after), T0))
    return found


def pad(table: Table, number: int, like: RowChange) -> dict[str, Cell]:
    row = dict(like.after or like.before or {})
    return {**row, table.key[0]: str(number)}


def is_pad(key: object) -> bool:
    return (text := str(key).strip()).isdigit() and int(text) >= 1000


def move(key: str, grp: str, v: str) -> dict[str, Cell]:
    return {"id": key, "grp": grp, "v": v}


@pytest.mark.parametrize("converter", ["canalRow", "oggJson"])
def test_a_row_that_moves_between_partitions_and_back_ends_as_the_source_left_it(
    server: TargetServer, converter: str, padding: int
) -> None:
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(9), v INT)")
    source = Source(MOVES, ("grp",), {})
    source.change(Op.INSERT, None, move("1", "a", "1"))
    source.change(Op.UPDATE, move("1", "a", "1"), move("1", "b", "2"))
    source.change(Op.UPDATE, move("1", "b", "2"), move("1", "b", "3"))
    source.change(Op.UPDATE, move("1", "b", "3"), move("1", "a", "4"))
    assert_ends(server, source, "moves", [(1, "a", 4)], task_of(server, converter), padding)


def test_a_row_that_is_deleted_and_comes_again_in_another_partition_stays(
    server: TargetServer, padding: int
) -> None:
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(9), v INT)")
    source = Source(MOVES, ("grp",), {})
    source.change(Op.INSERT, None, move("1", "a", "1"))
    source.change(Op.DELETE, move("1", "a", "1"), None)
    source.change(Op.INSERT, None, move("1", "b", "2"))
    source.change(Op.UPDATE, move("1", "b", "2"), move("1", "b", "3"))
    assert_ends(
        server,
        source,
        "moves",
        [(1, "b", 3)],
        task_of(server, insert_on_update_error=False),
        padding,
    )


def test_a_row_that_is_gone_at_last_stays_away(server: TargetServer) -> None:
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(9), v INT)")
    source = Source(MOVES, ("grp",), {})
    source.change(Op.INSERT, None, move("1", "a", "1"))
    source.change(Op.UPDATE, move("1", "a", "1"), move("1", "b", "2"))
    source.change(Op.DELETE, move("1", "b", "2"), None)
    assert_ends(server, source, "moves", [], task_of(server), 0)


MODIFY = {"postgresql": "ALTER COLUMN id TYPE {}", "mariadb": "MODIFY id {} NOT NULL"}


@pytest.mark.parametrize("type_", ["BIGINT", "DECIMAL(20)", "VARCHAR(20)"])
def test_a_row_that_is_gone_stays_away_though_its_key_is_altered_meanwhile(
    server: TargetServer, request: pytest.FixtureRequest, type_: str
) -> None:
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(9), v INT)")
    source = Source(MOVES, ("grp",), {})
    source.change(Op.INSERT, None, move("1", "a", "1"))
    source.change(Op.UPDATE, move("1", "a", "1"), move("1", "b", "2"))
    source.change(Op.DELETE, move("1", "b", "2"), None)
    behind, ahead = source.partitions.values()
    parts = [records(behind, "canalRow"), records(ahead, "canalRow")]
    alter = MODIFY[request.node.callspec.params["server"]].format(type_)
    with Partitions(server, parts, task_of(server)) as applying:
        applying.apply(1, len(ahead))
    server.execute(f"ALTER TABLE {{schema}}.moves {alter}")
    with Partitions(server, parts, task_of(server)) as applying:
        assert applying.apply(0, 1) == 1
    assert server.rows("SELECT * FROM {schema}.moves") == []


CASE = {
    "postgresql": "CREATE COLLATION {schema}.ci (provider = icu, locale = 'und-u-ks-level2', "
    "deterministic = false)"
}


@pytest.mark.parametrize(
    ("one", "other"), [("user1", "User1"), ("user1", "user1 ")], ids=["case", "trailing blank"]
)
def test_a_key_that_changes_in_case_or_blanks_only_stays(
    server: TargetServer, request: pytest.FixtureRequest, one: str, other: str, padding: int
) -> None:
    kind = "VARCHAR(40)"
    if isinstance(server, PostgresqlServer):
        server.execute(CASE["postgresql"])
        kind = "CHAR(40)" if other.endswith(" ") else "VARCHAR(40) COLLATE {schema}.ci"
    server.execute(f"CREATE TABLE {{schema}}.users (email {kind} PRIMARY KEY, v INT)")
    source = Source(USERS, ("email",), {})
    source.change(Op.INSERT, None, {"email": one, "v": "1"})
    source.change(Op.UPDATE, {"email": one, "v": "1"}, {"email": other, "v": "2"})
    source.change(Op.UPDATE, {"email": other, "v": "2"}, {"email": other, "v": "3"})
    left = other.rstrip() if kind == "CHAR(40)" else other
    shown = left.ljust(40) if kind == "CHAR(40)" else left
    assert_ends(server, source, "users", [(shown, 3)], task_of(server), padding)


# the target's key in PostgreSQL, in MariaDB and in MySQL 9, and two keys that are one there
COARSE = {
    "case": ("VARCHAR(40) COLLATE {schema}.ci", "VARCHAR(40)", "VARCHAR(40)", "user1", "User1"),
    "trailing blank": (
        "CHAR(40)",
        "VARCHAR(40)",
        "VARCHAR(40) COLLATE utf8mb4_bin",
        "user1",
        "user1 ",
    ),
    "CHAR": ("CHAR(40)", "CHAR(40)", "CHAR(40)", "user1", "user1 "),
    "CHAR, no pad": (
        "BPCHAR",
        "CHAR(40) COLLATE utf8mb4_nopad_bin",
        "CHAR(40) COLLATE utf8mb4_0900_ai_ci",
        "user1",
        "user1 ",
    ),
}


@pytest.fixture(params=["postgresql", "mariadb", "mysql_9"])
def any_server(request: pytest.FixtureRequest, name: str) -> Iterator[TargetServer]:
    at: Database = request.getfixturevalue(request.param)
    server = PostgresqlServer(at, name) if request.param == "postgresql" else MysqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    if request.param == "postgresql":
        server.execute(CASE["postgresql"])
    yield server
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


@pytest.mark.parametrize("kind", COARSE)
def test_two_rows_in_two_partitions_that_are_one_at_the_target_are_refused_once_no_delete_can_come(
    any_server: TargetServer, request: pytest.FixtureRequest, kind: str, padding: int
) -> None:
    """The second to come waits for the other partition, as the first may be gone there;
    `low_watermark` says that it is not."""
    types, one, other = COARSE[kind][:3], *COARSE[kind][3:]
    number = ["postgresql", "mariadb", "mysql_9"].index(request.node.callspec.params["any_server"])
    any_server.execute(f"CREATE TABLE {{schema}}.users (email {types[number]} PRIMARY KEY, v INT)")
    source = Source(USERS, ("email",), {})
    source.change(Op.INSERT, None, {"email": one, "v": "1"})
    source.change(Op.INSERT, None, {"email": other, "v": "2"})
    partitions = []
    for at, partition in enumerate(source.partitions.values()):
        more = pads(USERS, at, partition, padding)
        partitions.append(records([*more, *partition], "canalRow"))
    with Partitions(any_server, partitions, task_of(any_server)) as applying:
        applying.apply(0, padding + 1)
        applying.apply(1, padding + 1)
        assert applying.done == [padding + 1, padding]
        left = partitions[1][padding:]
        with pytest.raises(TargetRejected, match="two source rows would become one"):
            applying.appliers[1].apply(TopicPartition("shop", 1), left, padding + 1, 1, padding + 1)
    found = {}
    for email, v in any_server.rows("SELECT email, v FROM {schema}.users"):
        if not is_pad(email):
            found[str(email).rstrip()] = v
    assert found == {one: 1}


# the target's key in PostgreSQL and elsewhere, the source's, and two keys that are one there
ROUNDED = {
    "DECIMAL": ("DECIMAL(10,1)", "DECIMAL(10,1)", "decimal(10,2)", "1.31", "1.32"),
    "DATE": ("DATE", "DATE", "datetime", "2024-02-29 10:00:00", "2024-02-29 11:00:00"),
    "FLOAT": ("REAL", "FLOAT", "double", "0.1", "0.100000000001"),
    "CHAR": ("CHAR(40)", "CHAR(40) COLLATE utf8mb4_bin", "varchar(40)", "a", "a "),
}


@pytest.mark.parametrize("kind", ROUNDED)
def test_a_key_that_changes_in_what_the_target_does_not_keep_stays(
    server: TargetServer, kind: str
) -> None:
    own, elsewhere, type_, one, other = ROUNDED[kind]
    server.execute(
        f"CREATE TABLE {{schema}}.rounded (k "
        f"{own if isinstance(server, PostgresqlServer) else elsewhere} PRIMARY KEY, v INT)"
    )
    source = Source(
        Table(TableId("shop", "rounded"), (Column("k", type_), Column("v", "int")), ("k",)),
        ("k",),
        {},
    )
    source.change(Op.INSERT, None, {"k": one, "v": "1"})
    source.change(Op.UPDATE, {"k": one, "v": "1"}, {"k": other, "v": "2"})
    source.change(Op.UPDATE, {"k": other, "v": "2"}, {"k": other, "v": "3"})
    partitions = [*source.partitions.values()]
    for order in interleavings(*map(len, partitions)):
        server.execute("DELETE FROM {schema}.rounded")
        server.execute("DROP TABLE IF EXISTS {schema}.cdcbus_position")
        for (name,) in server.rows(VERSION_TABLES):
            server.execute(f"DROP TABLE {{schema}}.{name}")
        with Partitions(
            server, [records(partition, "canalRow") for partition in partitions], task_of(server)
        ) as applying:
            for number in order:
                applying.apply(number, 1)
            applying.finish()
        assert server.rows("SELECT v FROM {schema}.rounded") == [(3,)], order


def test_changes_of_many_rows_by_columns_are_known_by_their_record_keys(
    server: TargetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows whose records have the key of the table make no version table, also where the
    partition key is a part of it."""
    monkeypatch.setattr(prepare, "MIN_RECORDS", 1)
    server.execute("CREATE TABLE {schema}.moves (id INT, grp INT, v INT, PRIMARY KEY (id, grp))")
    columns = (Column("id", "int"), Column("grp", "int"), Column("v", "int"))
    table = replace(MOVES, columns=columns, key=("id", "grp"))
    for partition_key in (("grp", "id"), ("grp",), ("id",)):
        partition = Source(table, partition_key, {})
        for number in range(300):
            partition.change(Op.INSERT, None, {"id": str(number), "grp": str(number % 7), "v": "1"})
        [made] = [
            records(
                [each for key in partition.partitions for each in partition.partitions[key]],
                "canalRow",
            )
        ]
        with Partitions(server, [made], task_of(server)) as applying:
            applying.apply(0, 300)
        server.execute("DELETE FROM {schema}.moves")
        server.execute("DELETE FROM {schema}.cdcbus_position")
        assert server.rows(VERSION_TABLES) == []


def test_versions_are_forgotten_that_no_record_can_be_older_than(server: TargetServer) -> None:
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(9), v INT)")
    source = Source(MOVES, ("grp",), {})
    for number in range(4):
        source.change(Op.INSERT, None, move(str(number), "a", "1"))
    partition = source.partitions[b"a_"]
    with Partitions(server, [records(partition, "canalRow")], task_of(server)) as applying:
        applying.apply(0, 4)
        [(versions,)] = server.rows(VERSION_TABLES)
        applying.appliers[0].forget_versions(lambda: partition[2][2])
        assert server.rows(f"SELECT id FROM {{schema}}.{versions} ORDER BY id") == [(2,), (3,)]


def test_partitions_that_were_added_while_the_task_was_stopped_make_it_keep_versions(
    server: TargetServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Each record has the key of its table; those from before are in another partition than
    those from after."""
    partition = inserted_and_updated(server)
    with Partitions(
        server,
        [records(partition[:1], "canalRow"), records(partition[1:], "canalRow")],
        task_of(server),
    ) as applying:
        applying.appliers[0].take_over([AppliedOffset("shop", 0, 0, 1)])
        assert server.rows(VERSION_TABLES) == []
        applying.appliers[0].applied_offsets()
        applying.appliers[0].take_over(
            [AppliedOffset("shop", 0, 0, 1), AppliedOffset("shop", 1, 0, 1)]
        )
        assert (
            "partitions were added to topic shop, so records of one row are in several of them"
            in caplog.text
        )
        applying.appliers[1].begin(TopicPartition("shop", 1), applying.appliers[0].seen)
        applying.apply(1, 1)
        assert applying.apply(0, 1) == 1
    assert server.rows("SELECT id, v FROM {schema}.moves") == [(1, 2)]


@pytest.mark.parametrize("server", ["mariadb"], indirect=True)
def test_an_executor_whose_account_sees_no_table_of_versions_writes_nothing(
    server: MysqlServer, padding: int
) -> None:
    """It has rights on the other tables: an older change replaced a newer one."""
    partitions = in_two(inserted_and_updated(server), padding)
    with Partitions(server, partitions, task_of(server)) as applying:
        driver, executor = applying.appliers
        driver.take_over([AppliedOffset("shop", 0, 0, 1)])
        driver.applied_offsets()
        driver.take_over([AppliedOffset("shop", 0, 0, 1), AppliedOffset("shop", 1, 0, 1)])
        executor.begin(TopicPartition("shop", 1), driver.seen)
        applying.apply(1, len(partitions[1]))
        loader = make_loader(
            "JdbcBatch", server.without_rights_to_tables_but("moves", "cdcbus_position")
        )
        with closing(loader):
            poor = PartitionApplier(task_of(server), CONVERTERS["canalRow"], loader)
            poor.begin(TopicPartition("shop", 0), driver.seen)
            assert poor.scattered == frozenset()
            poor.add_scattered(driver.scattered)
            with pytest.raises(TargetMisconfigured, match=r"cdcbus_row_"):
                poor.apply(TopicPartition("shop", 0), partitions[0], len(partitions[0]), 1)
    assert server.rows("SELECT id, v FROM {schema}.moves WHERE id = 1") == [(1, 2)]


def test_partitions_that_were_added_before_the_first_start_make_it_keep_versions(
    server: TargetServer, caplog: pytest.LogCaptureFixture, padding: int
) -> None:
    """Row 1 belongs into partition 1 of two, and was inserted while there was one."""
    partition = inserted_and_updated(server)
    with Partitions(
        server,
        in_two(partition, padding),
        task_of(server),
    ) as applying:
        applying.take_over()
        assert (
            "partitions were added to topic shop after its first records, so records of one row "
            "are in several of them" in caplog.text
        )
        applying.apply(1, padding + 1)
        assert applying.apply(0, padding + 1) == 1
    assert server.rows("SELECT id, v FROM {schema}.moves WHERE id < 1000") == [(1, 2)]


@pytest.mark.parametrize("fails", [False, True])
def test_a_newer_change_that_was_applied_before_an_added_partition_was_noticed_stays(
    server: TargetServer, fails: bool
) -> None:
    """The row's insert is in the added partition, its update in the first one: read alone until
    then, so without record keys. Where Kafka fails meanwhile, the next attempt catches up."""
    first = TopicPartition("shop", 0)
    added = TopicPartition("shop", 1)
    insert, update = inserted_and_updated(server)
    older = records([insert], "canalRow")
    keyed = records([update], "canalRow")
    newer = Records(keyed.offsets, keyed.values, times=keyed.times)
    asked: list[tuple[list[TopicPartition], Mapping[TopicPartition, int]]] = []

    def read_beside(
        partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int]
    ) -> list[tuple[TopicPartition, Records]]:
        asked.append(([*partitions], known))
        if fails and len(asked) == 1:
            raise BusUnavailable("away")
        return [(first, newer)]

    with closing(make_loader("JdbcBatch", server.target())) as loader:
        applier = PartitionApplier(
            task_of(server), CONVERTERS["canalRow"], loader, read_beside=read_beside
        )
        applier.applied_offsets()
        applier.take_over([AppliedOffset(*first, 0, 1)])
        applier.apply(first, newer, 1, 1)
        if fails:
            with pytest.raises(BusUnavailable):
                applier.add_partitions([AppliedOffset(*added, 0, 1)], "partition 1 was added")
            [held] = applier.applied_offsets()
            applier.take_over([held, AppliedOffset(*added, 0, 1)])
        else:
            applier.add_partitions([AppliedOffset(*added, 0, 1)], "partition 1 was added")
        report = applier.apply(added, older, 1, 1)
    assert asked == [([added], {first: 1})] * (1 + fails)
    assert [each.superseded for each in report.tables.values()] == [1]
    assert server.rows("SELECT id, v FROM {schema}.moves") == [(1, 2)]


def inserted_and_updated(server: TargetServer) -> list[tuple[bytes, RowChange, int]]:
    """Makes an empty target table; the records of the source's only row."""
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(9), v INT)")
    source = Source(MOVES, ("id",), {})
    source.change(Op.INSERT, None, move("1", "a", "1"))
    source.change(Op.UPDATE, move("1", "a", "1"), move("1", "a", "2"))
    [partition] = source.partitions.values()
    return partition


def in_two(partition: list[tuple[bytes, RowChange, int]], padding: int) -> list[Records]:
    """The first record in one partition and the others in another, with further rows."""
    return [
        records([*partition[:1], *pads_by_key(0, padding)], "canalRow"),
        records([*partition[1:], *pads_by_key(1, padding)], "canalRow"),
    ]


def pads_by_key(number: int, count: int) -> list[tuple[bytes, RowChange, int]]:
    """So many rows more for a partition out of two, as Kafka's hash chooses it."""
    found: list[tuple[bytes, RowChange, int]] = []
    ids = itertools.count(1000)
    while len(found) < count:
        row = move(str(next(ids)), "a", "0")
        key = f"{row['id']}_".encode()
        if partition_of(key, 2) == number:
            change = RowChange(MOVES, Op.INSERT, None, row, Origin(server_id=1))
            found.append((key, change, T0))
    return found


@pytest.mark.parametrize("has_letters", [True, False])
def test_what_is_too_old_is_not_refused_though_another_process_knows_of_the_versions(
    server: TargetServer, has_letters: bool
) -> None:
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(3), v INT)")
    source = Source(MOVES, ("id",), {})
    source.change(Op.INSERT, None, move("1", "too long", "1"))
    source.change(Op.UPDATE, move("1", "too long", "1"), move("1", "a", "2"))
    [partition] = source.partitions.values()
    letters: list[DeadLetter] = []
    with Partitions(
        server, in_two(partition, 0), task_of(server), letters.extend if has_letters else None
    ) as applying:
        applying.appliers[1].scatter("partitions were added")
        applying.apply(1, 1)
        assert applying.apply(0, 1) == 1
    assert not letters
    assert server.rows("SELECT id, v FROM {schema}.moves") == [(1, 2)]


def test_a_record_that_becomes_a_dead_letter_makes_no_change_of_its_row_too_old(
    server: TargetServer,
) -> None:
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(3), v INT)")
    source = Source(MOVES, ("grp",), {})
    ids = [str(number) for number in range(20)]
    for number in ids:
        source.change(Op.INSERT, None, move(number, "a", "1"))
    for number in ids:
        source.change(Op.UPDATE, move(number, "a", "1"), move(number, "a", "2"))
    for number in ids:
        source.change(Op.UPDATE, move(number, "a", "2"), move(number, "too long", "3"))
    changes = [change for partition in source.partitions.values() for change in partition]
    changes.sort(key=lambda change: change[2])
    # What leaves a partition is a delete there.
    newest = [change for change in changes[40:] if change[1].op is Op.INSERT]
    partitions = [
        records([*changes[:20], *newest], "canalRow"),
        records(changes[20:40], "canalRow"),
    ]
    letters: list[DeadLetter] = []
    with Partitions(server, partitions, task_of(server), letters.extend) as applying:
        applying.appliers[0].scatter("partitions were added")
        applying.apply(0, 20)
        applying.apply(0, 20)
        assert [letter.offset for letter in letters] == [*range(20, 40)]
        assert applying.apply(1, 20) == 0
    assert server.rows("SELECT DISTINCT grp, v FROM {schema}.moves") == [("a", 2)]


@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_table_that_was_moved_to_another_topic_keeps_versions(
    server: TargetServer, caplog: pytest.LogCaptureFixture, padding: int, is_fresh: bool
) -> None:
    """Both topics are new to the target, or the second one."""
    partition = inserted_and_updated(server)
    with Partitions(
        server,
        in_two(partition, padding),
        of_two_topics(task_of(server)),
        places=[TopicPartition("shop", 0), TopicPartition("orders", 0)],
    ) as applying:
        if not is_fresh:
            applying.appliers[0].take_over([AppliedOffset("shop", 0, 0, 1)])
            applying.appliers[0].applied_offsets()
        applying.take_over()
        assert "table shop.moves comes in topics" in caplog.text
        applying.apply(1, padding + 1)
        assert applying.apply(0, padding + 1) == 1
    assert server.rows("SELECT id, v FROM {schema}.moves WHERE id < 1000") == [(1, 2)]
    assert server.rows("SELECT COUNT(*) FROM {schema}.moves") == [(1 + 2 * padding,)]


def test_a_table_that_moves_to_another_topic_while_both_are_read_keeps_versions(
    server: TargetServer, caplog: pytest.LogCaptureFixture, padding: int
) -> None:
    partition = inserted_and_updated(server)
    with Partitions(
        server,
        [
            records([*pads_by_key(0, padding + 1), *partition[:1]], "canalRow"),
            records([*partition[1:], *pads_by_key(1, padding)], "canalRow"),
        ],
        of_two_topics(task_of(server)),
        places=[TopicPartition("shop", 0), TopicPartition("orders", 0)],
    ) as applying:
        applying.appliers[1] = applying.appliers[0]
        applying.apply(0, padding + 1)
        assert server.rows(VERSION_TABLES) == []
        applying.apply(1, padding + 1)
        assert "table shop.moves comes in topics shop and orders from one writer" in caplog.text
        assert applying.apply(0, 1) == 1
    assert server.rows("SELECT id, v FROM {schema}.moves WHERE id < 1000") == [(1, 2)]


def of_two_topics(task: LoadTask) -> LoadTask:
    return replace(task, source=replace(task.source, topics=("shop", "orders")))


def test_partitions_that_are_applied_at_the_same_time_do_not_pass_each_other(
    server: TargetServer,
) -> None:
    """Rows that move on each change, by two partitions at once in batches of a few."""
    server.execute("CREATE TABLE {schema}.moves (id INT PRIMARY KEY, grp VARCHAR(9), v INT)")
    source = Source(MOVES, ("grp",), {})
    for number in range(20):
        source.change(Op.INSERT, None, move(str(number), "a", "0"))
    for turn in range(8):
        for number in range(20):
            old, new = "ab"[turn % 2], "ab"[(turn + 1) % 2]
            source.change(
                Op.UPDATE, move(str(number), old, str(turn)), move(str(number), new, str(turn + 1))
            )
    partitions = [records(partition, "canalRow") for partition in source.partitions.values()]

    def run(partition: int) -> None:
        left = len(partitions[partition])
        while left:
            try:
                applying.apply(partition, 7)
            except TargetUnavailable:  # a deadlock: the batch comes again
                applying.done[partition] -= min(7, left)
                continue
            left -= min(7, left)

    with Partitions(server, partitions, task_of(server)) as applying, ThreadPoolExecutor() as pool:
        list(pool.map(run, range(len(partitions))))
    assert server.rows("SELECT DISTINCT grp, v FROM {schema}.moves") == [("a", 8)]
    assert server.rows("SELECT COUNT(*) FROM {schema}.moves") == [(20,)]


def test_a_key_whose_text_changes_with_its_column_s_type_keeps_versions(
    server: TargetServer, caplog: pytest.LogCaptureFixture, padding: int
) -> None:
    """Its record keys put the row into another partition, and each is the text of its own row."""
    server.execute("CREATE TABLE {schema}.prices (id DECIMAL(9,4) PRIMARY KEY, v INT)")
    parts: list[Records] = []
    place = 0
    for scale, values in ((2, "01"), (4, "2")):
        columns = (Column("id", f"decimal(9,{scale})"), Column("v", "int"))
        source = Source(Table(TableId("shop", "prices"), columns, ("id",)), ("id",), {}, place)
        for v in values:
            row: Row = {"id": f"{7:.{scale}f}", "v": v}
            source.change(Op.INSERT if v == "0" else Op.UPDATE, None if v == "0" else row, row)
        place = source.place
        [partition] = source.partitions.values()
        others = []
        for number in range(padding):
            cell = f"{1000 * scale + number:.{scale}f}"
            change = RowChange(source.table, Op.INSERT, None, {"id": cell, "v": "5"})
            others.append((f"{cell}_".encode(), change, T0))
        parts.append(records([*partition[:1], *others, *partition[1:]], "canalRow"))
    with Partitions(server, parts, task_of(server)) as applying:
        applying.appliers[1] = applying.appliers[0]
        applying.apply(0, padding + 1)
        assert server.rows(VERSION_TABLES) == []
        applying.apply(1, padding + 1)
        assert "(id decimal(9,2)) and (id decimal(9,4))" in caplog.text
        assert applying.apply(0, 1) == 1
    assert server.rows("SELECT v FROM {schema}.prices WHERE id = 7") == [(2,)]
    assert server.rows("SELECT COUNT(*) FROM {schema}.prices") == [(1 + 2 * padding,)]
