"""Rows of the source that are one to the target's collation, with records in several partitions:
none takes another one's place, and a row that is only respelled stays."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import time

import pytest

from cdcbus.consumer.apply.applier import PartitionWaits
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Records
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.kafka.partitioner import partition_of
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_row_order import (
    CASE,
    T0,
    USERS,
    VERSION_TABLES,
    Partitions,
    Source,
    interleavings,
    records,
    task_of,
)
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration
KINDS = {
    "postgresql": "VARCHAR(40) COLLATE {schema}.ci",
    "citext": "CITEXT",
    "mariadb": "VARCHAR(40)",
}
REFUSED = "two source rows would become one"
Partition = list[tuple[bytes, RowChange, int]]


class _WithPublic(PostgresqlServer):
    """Its sessions find what compares citext."""

    def target(self, **changes: str | int) -> JdbcTarget:
        target = super().target(**changes)
        return replace(target, url=target.url + ",public")


@pytest.fixture(params=[*KINDS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest, name: str, kind: str) -> Iterator[TargetServer]:
    is_mysql = kind == "mariadb"
    at: Database = request.getfixturevalue("mariadb" if is_mysql else "postgresql")
    server = MysqlServer(at, name) if is_mysql else _WithPublic(at, name)
    server.execute("CREATE SCHEMA {schema}")
    if kind == "citext":
        server.execute("CREATE EXTENSION IF NOT EXISTS citext SCHEMA public")
    elif kind == "postgresql":
        server.execute(CASE["postgresql"])
    server.execute(f"CREATE TABLE {{schema}}.users (email {KINDS[kind]} PRIMARY KEY, v INT)")
    yield server
    server.execute("DROP SCHEMA {schema}" + ("" if is_mysql else " CASCADE"))


def user(email: str, v: int) -> Row:
    return {"email": email, "v": str(v)}


def begin_anew(server: TargetServer, table: str = "users") -> None:
    server.execute(f"DELETE FROM {{schema}}.{table}")
    server.execute("DROP TABLE IF EXISTS {schema}.cdcbus_position")
    for (name,) in server.rows(VERSION_TABLES):
        server.execute(f"DROP TABLE {{schema}}.{name}")


def assert_ends(
    server: TargetServer,
    source: Source,
    expected: list[tuple[object, ...]],
    table: str = "users",
    most: int = 10,
    columns: str = "*",
) -> None:
    """In whichever order the partitions are applied record by record; of many orders in some."""
    partitions = [*source.partitions.values()]
    orders = interleavings(*map(len, partitions))
    for order in orders[:: 1 + len(orders) // most]:
        begin_anew(server, table)
        read = [records(partition, "canalRow") for partition in partitions]
        with Partitions(server, read, task_of(server)) as applying:
            for number in order:
                applying.apply(number, 1)
            applying.finish()
        assert server.rows(f"SELECT {columns} FROM {{schema}}.{table} ORDER BY v") == expected, (
            order
        )


def both_there() -> Source:
    source = Source(USERS, ("email",), {})
    source.change(Op.INSERT, None, user("user1", 1))
    source.change(Op.INSERT, None, user("User1", 2))
    return source


@pytest.mark.parametrize("first", [0, 1], ids=["the older one is first", "the newer one is first"])
def test_two_rows_that_are_one_at_the_target_are_refused_whichever_partition_is_ahead(
    server: TargetServer, first: int
) -> None:
    partitions = [records(partition, "canalRow") for partition in both_there().partitions.values()]
    with Partitions(server, partitions, task_of(server)) as applying:
        applying.apply(first, 1)
        with pytest.raises(TargetRejected, match=REFUSED):
            applying.appliers[1 - first].apply(
                TopicPartition("shop", 1 - first), partitions[1 - first], 1, 1, 1
            )
    kept = [("user1", 1), ("User1", 2)][first]
    assert server.rows("SELECT email, v FROM {schema}.users") == [kept]


@pytest.mark.parametrize("first", [0, 1], ids=["the older one is first", "the newer one is first"])
def test_the_second_of_two_such_rows_becomes_a_dead_letter(
    server: TargetServer, first: int
) -> None:
    letters: list[DeadLetter] = []
    partitions = [records(partition, "canalRow") for partition in both_there().partitions.values()]
    with Partitions(server, partitions, task_of(server), letters.extend) as applying:
        applying.apply(first, 1)
        applying.appliers[1 - first].apply(
            TopicPartition("shop", 1 - first), partitions[1 - first], 1, 1, 1
        )
    assert [(letter.topic, letter.partition, letter.offset) for letter in letters] == [
        ("shop", 1 - first, 0)
    ]
    assert REFUSED in letters[0].reason
    assert len(server.rows("SELECT email FROM {schema}.users")) == 1


@pytest.mark.parametrize("first", [0, 1], ids=["the older one is first", "the newer one is first"])
def test_a_row_waits_as_long_as_the_delete_of_the_other_one_may_come(
    server: TargetServer, first: int
) -> None:
    """Its records came just now; the delete comes to Kafka behind them, and is read on its own."""
    source = both_there()
    now_ms = int(time() * 1000)
    older, newer = [
        [(key, each, now_ms) for key, each, _ in partition]
        for partition in source.partitions.values()
    ]
    gone = RowChange(USERS, Op.DELETE, user("user1", 1), None, replace(newer[0][1].origin, pos=150))
    whole = records([*older, (older[0][0], gone, now_ms)], "canalRow")
    read, then = [whole[:1], records(newer, "canalRow")], whole[1:]
    with Partitions(server, read, task_of(server)) as applying:
        applying.apply(first, 1)
        applying.apply(1 - first, 1)
        assert applying.done[1 - first] == 0
        if first == 0:
            applying.appliers[0].apply(TopicPartition("shop", 0), then, 2, 1)
            applying.apply(1, 1)
        else:
            read[0] = whole
            applying.apply(0, 2)
        assert applying.done[1 - first] == 2 - (first == 0)
    assert server.rows("SELECT email, v FROM {schema}.users") == [("User1", 2)]


def test_an_executor_that_begins_late_waits_no_longer_than_the_driver(
    server: TargetServer,
) -> None:
    """Its first look at the row is when the driver knows that no delete can come any more."""
    older, newer = [
        records([(key, each, T0) for key, each, _ in partition], "canalRow")
        for partition in both_there().partitions.values()
    ]
    with Partitions(server, [older, newer], task_of(server)) as applying:
        applying.apply(1, 1)
    for now_ms, expected in [(T0 + 60_000, PartitionWaits), (T0 + 180_000, TargetRejected)]:
        with (
            Partitions(server, [older, newer], task_of(server), now_ms=now_ms) as applying,
            pytest.raises(expected, match=REFUSED),
        ):
            applying.appliers[0].apply(TopicPartition("shop", 0), older, 1, 1, 1)


def test_a_row_that_is_deleted_and_comes_again_spelled_otherwise_is_there(
    server: TargetServer,
) -> None:
    source = Source(USERS, ("email",), {})
    source.change(Op.INSERT, None, user("user1", 1))
    source.change(Op.UPDATE, user("user1", 1), user("user1", 2))
    source.change(Op.DELETE, user("user1", 2), None)
    source.change(Op.INSERT, None, user("User1", 3))
    source.change(Op.UPDATE, user("User1", 3), user("User1", 4))
    assert_ends(server, source, [("User1", 4)])


def test_a_row_that_comes_and_goes_in_one_batch_leaves_the_other_one_its_delete(
    server: TargetServer,
) -> None:
    """The batch has no effect but to be newer than the other row's delete, which comes last."""
    source = Source(USERS, ("email",), {})
    source.change(Op.INSERT, None, user("user1", 1))
    source.change(Op.UPDATE, user("user1", 1), user("User1", 2))
    source.change(Op.DELETE, user("User1", 2), None)
    partitions = [records(partition, "canalRow") for partition in source.partitions.values()]
    with Partitions(server, partitions, task_of(server)) as applying:
        applying.apply(0, 1)
        applying.apply(1, 2)
        applying.finish()
    assert server.rows("SELECT email FROM {schema}.users") == []


def test_a_key_that_is_respelled_within_one_partition_stays(server: TargetServer) -> None:
    source = Source(USERS, (), {})
    source.change(Op.INSERT, None, user("user1", 1))
    source.change(Op.UPDATE, user("user1", 1), user("User1", 2))
    source.change(Op.UPDATE, user("User1", 2), user("USER1", 3))
    assert_ends(server, source, [("USER1", 3)])


def test_three_rows_that_are_one_at_the_target_follow_each_other_in_three_partitions(
    server: TargetServer,
) -> None:
    source = Source(USERS, ("email",), {})
    source.change(Op.INSERT, None, user("user1", 1))
    source.change(Op.UPDATE, user("user1", 1), user("User1", 2))
    source.change(Op.UPDATE, user("User1", 2), user("USER1", 3))
    source.change(Op.UPDATE, user("USER1", 3), user("user1", 4))
    assert_ends(server, source, [("user1", 4)], most=12)


def test_keys_of_several_columns_are_respelled(server: TargetServer, kind: str) -> None:
    server.execute(
        f"CREATE TABLE {{schema}}.seats (n INT, email {KINDS[kind]}, v INT, PRIMARY KEY (n, email))"
    )
    columns = Column("n", "int"), Column("email", "varchar(40)"), Column("v", "int")
    source = Source(Table(TableId("shop", "seats"), columns, ("n", "email")), ("email", "n"), {})
    source.change(Op.INSERT, None, {**user("user1", 1), "n": "1"})
    source.change(Op.INSERT, None, {**user("User1", 5), "n": "2"})
    source.change(Op.UPDATE, {**user("user1", 1), "n": "1"}, {**user("User1", 2), "n": "1"})
    source.change(Op.UPDATE, {**user("User1", 2), "n": "1"}, {**user("User1", 3), "n": "1"})
    assert_ends(server, source, [(1, "User1", 3), (2, "User1", 5)], "seats")


def test_partitions_whose_rows_are_respelled_again_and_again_are_applied_together_at_once(
    server: TargetServer,
) -> None:
    source = Source(USERS, ("email",), {})
    spellings = [[f"user{row}", f"User{row}", f"USER{row}"] for row in range(30)]
    for row in range(30):
        source.change(Op.INSERT, None, user(spellings[row][0], 0))
    for turn in range(20):
        for row in range(30):
            old, new = spellings[row][turn % 3], spellings[row][(turn + 1) % 3]
            source.change(Op.UPDATE, user(old, turn), user(new, turn + 1))
    partitions = in_partitions(source, 3)
    with Partitions(server, partitions, task_of(server)) as applying:
        parts = [
            (TopicPartition("shop", partition), each, len(each), 1)
            for partition, each in enumerate(partitions)
        ]
        together = applying.appliers[0].apply_together(parts)
    assert {partition: end for partition, (end, _) in together.items()} == {
        TopicPartition("shop", partition): len(each) for partition, each in enumerate(partitions)
    }
    assert sorted(server.rows("SELECT email, v FROM {schema}.users")) == sorted(
        (each[20 % 3], 20) for each in spellings
    )


def in_partitions(source: Source, count: int) -> list[Records]:
    """Those that hold something."""
    partitions: dict[int, Partition] = {}
    for key, partition in source.partitions.items():
        partitions.setdefault(partition_of(key, count), []).extend(partition)
    return [
        records(sorted(partition, key=place), "canalRow")
        for _, partition in sorted(partitions.items())
    ]


def place(logged: tuple[bytes, RowChange, int]) -> tuple[int, bool]:
    return logged[1].origin.pos, logged[1].op is not Op.DELETE


@dataclass
class People:
    """A source that tells rows apart which are one to the target, and how it changes by chance.
    `is_apart`: no two of these were there at once."""

    dice: random.Random
    is_apart: bool
    source: Source = field(default_factory=lambda: Source(USERS, ("email",), {}))
    rows: dict[str, int] = field(default_factory=dict)

    def change(self, v: int) -> None:
        email = self.dice.choice(["ann", "Ann", "ANN", "aNN", "bob", "Bob", "BOB"])
        others = [one for one in self.rows if one.lower() == email.lower() and one != email]
        if email in self.rows and self.dice.random() < 0.5:
            self.source.change(Op.DELETE, user(email, self.rows.pop(email)), None)
        elif email in self.rows:
            self.source.change(Op.UPDATE, user(email, self.rows[email]), user(email, v))
            self.rows[email] = v
        elif others and (self.is_apart or self.dice.random() < 0.7):
            old = self.dice.choice(others)
            self.source.change(Op.UPDATE, user(old, self.rows.pop(old)), user(email, v))
            self.rows[email] = v
        else:
            self.source.change(Op.INSERT, None, user(email, v))
            self.rows[email] = v


@pytest.mark.parametrize("is_apart", [True, False], ids=["one at a time", "several at once"])
def test_no_row_takes_the_place_of_another_whatever_happens(
    server: TargetServer, is_apart: bool
) -> None:
    """The target ends as the source, but for rows of which a record became a dead letter; of these
    there are none where no two rows that are one to the target were there at once."""
    seed = random.SystemRandom().randrange(2**32)
    for number in range(12):
        print(f"seed {seed + number}")
        people = People(random.Random(seed + number), is_apart)
        for v in range(people.dice.randint(2, 30)):
            people.change(v)
        begin_anew(server)
        refused = apply_by_chance(server, people)
        found = {str(email): v for email, v in server.rows("SELECT email, v FROM {schema}.users")}
        assert {key: v for key, v in found.items() if key not in refused} == {
            key: v for key, v in people.rows.items() if key not in refused
        }
        assert not (is_apart and refused)


def apply_by_chance(server: TargetServer, people: People) -> set[str]:
    """Applies all as the driver does, whichever partitions are ahead; the keys of dead letters."""
    letters: list[DeadLetter] = []
    partitions, dice = in_partitions(people.source, 3), people.dice
    changes = [
        [CanalRow().from_bytes(value or b"")[0] for _, value in partition]
        for partition in partitions
    ]
    with Partitions(server, partitions, task_of(server), letters.extend) as applying:
        done, waiting = applying.done, set[int]()
        while left := unfinished(partitions, done):
            if waiting < {*left}:
                partition = dice.choice([each for each in left if each not in waiting])
                before = done[partition]
                applying.apply(partition, dice.randint(1, 8))
                waiting = set() if done[partition] > before else waiting | {partition}
                continue
            waiting = set()
            if not together(applying, partitions, left, dice):
                # nothing that is still to be read was made before this one
                partition = min(left, key=lambda each: place((b"", changes[each][done[each]], 0)))
                try:
                    applying.appliers[partition].apply(
                        TopicPartition("shop", partition),
                        partitions[partition][done[partition] :],
                        len(partitions[partition]),
                        1,
                        done[partition] + 1,
                    )
                    done[partition] = len(partitions[partition])
                except PartitionWaits as one:
                    assert one.end > done[partition]
                    done[partition] = one.end
    refused = [changes[letter.partition][letter.offset] for letter in letters]
    return {str((change.after or change.before or {})["email"]) for change in refused}


def unfinished(partitions: Sequence[Records], done: Sequence[int]) -> list[int]:
    """The partitions that have records left."""
    left = []
    for number, partition in enumerate(partitions):
        if done[number] < len(partition):
            left.append(number)
    return left


def together(
    applying: Partitions, partitions: Sequence[Records], left: Sequence[int], dice: random.Random
) -> bool:
    """As far as batches go that end anywhere. Whether that got on."""
    appliers, done = applying.appliers, applying.done
    driver = appliers[0]
    parts = []
    for number in left:
        partition = TopicPartition("shop", number)
        if partition in appliers[number].seen:
            driver.seen[partition] = appliers[number].seen[partition]
        end = dice.randint(done[number] + 1, len(partitions[number]))
        parts.append((partition, partitions[number][done[number] : end], end, 1))
    found = driver.apply_together(parts)
    for partition, (end, _) in found.items():
        done[partition.partition] = end
        appliers[partition.partition].seen[partition] = driver.seen[partition]
    return bool(found)
