"""A source and a target in memory, asked as databases are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any
from zlib import crc32

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget, TargetColumn, TargetTable, ZeroDate
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.processor import Processor
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.ddl.table_schema import PRIMARY, TableColumn, TableSchema, UniqueKey
from cdcbus.tasks.control.source_of import Feed, MappedTable
from cdcbus.tasks.verify.compare import Comparison, Options
from cdcbus.tasks.verify.lag import Ends, Moment
from cdcbus.tasks.verify.report import Kind
from cdcbus.tasks.verify.sql.checksums import Digest, Sums
from cdcbus.tasks.verify.subject import Cells, Subject, Way, subject_of

PLACE = "fetch.properties"
ORDERS = TableId("shop", "orders")
INT = {"id": "int(11)", "name": "varchar(9)"}
PG_INT = {"id": "integer", "name": "text"}


def feed(converter: str = "canalRow", keys: Mapping[str, tuple[str, ...]] | None = None) -> Feed:
    fetch = FetchTask(
        "1",
        "orders",
        SourceConfig((("mysql", 3306),), "cdc"),
        FilterConfig(),
        PublishConfig("kafka:9092", "orders", converter, keys or {}),
    )
    return Feed(fetch, load(), PLACE, frozenset(("orders",)))


def load(converter: str = "canalRow") -> LoadTask:
    topics = TopicConfig("kafka:9092", ("orders",))
    return LoadTask("7", topics, converter, "JdbcBatch", JdbcTarget(""))


def mapped(
    types: Mapping[str, str],
    key: Sequence[str] = ("id",),
    rule: MapperRule | None = None,
    name: TableId = ORDERS,
    zone: tzinfo | None = None,
) -> MappedTable:
    columns = tuple(
        TableColumn(
            each, type_, "utf8mb4" if "char" in type_ or type_ == "text" else "", each not in key
        )
        for each, type_ in types.items()
    )
    uniques = (UniqueKey(PRIMARY, tuple(key)),) if key else ()
    table = Table(name, tuple(Column(each, type_) for each, type_ in types.items()), tuple(key))
    [route] = Mapper([rule] if rule else [], zone=zone).routes(name)
    return MappedTable(table, TableSchema(columns, uniques), "orders", route, {})


def target(
    types: Mapping[str, str], key: Sequence[str] = ("id",), dialect: str = "postgresql"
) -> TargetTable:
    columns = {name: TargetColumn(name, type_, declared=type_) for name, type_ in types.items()}
    return TargetTable(ORDERS, columns, tuple(key), dialect=dialect)


def with_short_key(length: int | None, dialect: str = "postgresql") -> TargetTable:
    """A target whose key is a VARCHAR of this length."""
    kind = {"postgresql": "character varying", "mysql": "varchar"}[dialect]
    table = target({"id": kind, "name": kind}, dialect=dialect)
    return replace(table, columns={**table.columns, "id": TargetColumn("id", kind, length)})


def subject(
    sources: Sequence[MappedTable] = (mapped(INT),),
    table: TargetTable | None = None,
    process: Processor | None = None,
    converter: str = "canalRow",
    charsets: dict[str, str] | None = None,
    reading: str = "",
) -> Subject:
    return subject_of(
        load(reading or converter),
        table or target(PG_INT),
        [(feed(converter), each) for each in sources],
        charsets or {},
        process,
        ZeroDate.REJECT,
    )


class Side:
    """Rows of one side in memory. A condition is the name of one that it knows. `read`: how many
    rows were given out; `conditions`: of whole questions, in order; `digests`: how many were asked
    for; `is_in_order`: whether rows are read by their key; `unspelled`: keys without a literal."""

    def __init__(self, subject: Subject, rows: Sequence[Cells], table: Any = None) -> None:
        self.subject, self.held, self.table = subject, list(rows), table
        self.read = 0
        self.conditions: list[str] = []
        self.has_hashes = self.is_in_order = True
        self.digests = self.bytes_of_a_row = 0
        self.unspelled = set[Cells]()
        self._tests: dict[str, Callable[[Cells], bool]] = {"1 = 1": lambda _: True}

    def rows(self, where: str = "1 = 1", *, is_narrowed: bool = True) -> Iterator[Cells]:
        self.conditions.append(where)
        for row in self._chosen(where):
            self.read += 1
            yield row

    def sums(self, _: object, where: str) -> Sums:
        total = Sums()
        for row in self._chosen(where):
            total += Sums(1, int(self.has_hashes), crc32(repr(row).encode()))
        return total

    def digest(self, _: object, where: str, most: int) -> Digest:
        self.digests += 1
        found = [repr(row) for row in self._chosen(where)]
        text = " ".join(sorted(found) if self.is_in_order else reversed(found))
        is_digested = self.has_hashes and 0 < len(found) < most
        return Digest(len(found), text if is_digested else None)

    def bucket_sums(self, pairs: object, _: object, where: str) -> Iterator[tuple[int, Sums]]:
        for bucket in range(10):
            name = self.in_buckets([bucket])
            sums = self.sums(pairs, f"{where} AND {name}")
            if sums.rows:
                yield bucket, sums

    def bound(self, last: Cells | None, rows: int) -> Cells | None:
        keys = sorted((self._key(row) for row in self.held), key=_numbers)
        beyond = [key for key in keys if last is None or _numbers(key) > _numbers(last)]
        return beyond[rows - 1] if len(beyond) >= rows else None

    def beyond(self, key: Cells) -> str:
        return self._named(f"> {key}", lambda row: _numbers(self._key(row)) > _numbers(key))

    def up_to(self, key: Cells) -> str:
        return self._named(f"<= {key}", lambda row: _numbers(self._key(row)) <= _numbers(key))

    def among(self, keys: Sequence[Cells]) -> str:
        known = set(keys) - self.unspelled
        return self._named(f"in {sorted(map(repr, keys))}", lambda row: self._key(row) in known)

    def can_spell(self, keys: Sequence[Cells]) -> bool:
        return self.unspelled.isdisjoint(keys)

    def in_buckets(self, buckets: Sequence[int]) -> str:
        return self._named(f"buckets {list(buckets)}", lambda row: bucket_of(row) in buckets)

    def estimate(self) -> int:
        return len(self.held)

    def row_bytes(self) -> int:
        return self.bytes_of_a_row

    def _key(self, row: Cells) -> Cells:
        return tuple(row[place] for place in self.subject.key)

    def _named(self, name: str, test: Callable[[Cells], bool]) -> str:
        self._tests[name] = test
        return name

    def _chosen(self, where: str) -> list[Cells]:
        tests = [self._tests[name] for name in where.split(" AND ")]
        return [row for row in self.held if all(test(row) for test in tests)]


def _numbers(key: Cells) -> list[int]:
    return [int(cell or 0) for cell in key]


def bucket_of(row: Cells) -> int:
    """By the last digit of the first cell; 0 without one."""
    last = (row[0] or "")[-1:]
    return int(last) if last.isdigit() else 0


class Clock:
    """As a Lag. `has_come`: whether the target has all. `then`: called at each look at the source's
    end with its number; `is_moving`: the source's end is another each time; `has_moved`: the tasks
    have since a wait was given up."""

    def __init__(self) -> None:
        self.looks = 0
        self.has_come = self.is_sent = True
        self.is_moving = False
        self.has_moved = True
        self.given_up = 0
        self.is_partial = False
        self.then: Callable[[int], None] = lambda _: None

    def now(self) -> Moment:
        self.looks += 1
        self.then(self.looks)
        return Moment(self.ends())

    def ends(self) -> Ends:
        return {PLACE: BinlogCoordinates("bin.1", 4 + self.looks * self.is_moving)}

    def has_passed(self, _: Moment) -> bool:
        return self.has_come

    def give_up(self) -> None:
        self.given_up += 1

    def is_stuck(self) -> bool:
        return self.given_up > 0 and not self.has_moved

    def is_published(self, _: Moment) -> bool:
        return self.is_sent

    def server(self, _: Feed) -> str:
        return "server-1"

    def source_ms(self, _: Feed) -> int:
        return 1_700_000_000_999


class World:
    """A comparison of rows that are there at each side."""

    def __init__(
        self,
        own: Sequence[Cells],
        theirs: Sequence[Cells],
        what: Subject | None = None,
        *,
        others: Sequence[Cells] = (),
        back: Clock | None = None,
        doubt: str = "",
        **options: Any,
    ) -> None:
        """`others`: of a second source table, where there is one. `back`: how far the task is that
        brings the target's changes to the source, where there is one."""
        self.subject = what or subject()
        self.sources = [
            Side(self.subject, rows, table)
            for rows, table in zip((own, others), self.subject.sources, strict=False)
        ]
        self.source, self.target = self.sources[0], Side(self.subject, theirs)
        self.clock = Clock()
        sides: Any = self.sources
        asked: Any = self.target
        lag: Any = self.clock
        self.told: list[int] = []
        inbound: Any = {"8": back} if back else {}
        self.comparison = Comparison(
            self.subject,
            sides,
            asked,
            lag,
            Options(**options),
            self.told.append,
            inbound=inbound,
            doubt=doubt,
        )


def rows(*numbers: int) -> list[Cells]:
    return [(str(number), "a") for number in numbers]


def buckets() -> Subject:
    return replace(subject(), way=Way.BUCKETS)


def streamed() -> Subject:
    return subject([mapped(INT, ())], target(PG_INT, ()))


def streamed_by_key() -> Subject:
    return replace(subject(), way=Way.STREAM)


def counted(world: World) -> dict[Kind, int]:
    return {kind: count for kind, count in world.comparison.run().counts.items() if count}


def two_sources() -> Subject:
    return subject([mapped(INT), mapped(INT, name=TableId("shop", "older"))])
