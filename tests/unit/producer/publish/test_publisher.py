"""Which code a publisher keeps, without a broker."""

from __future__ import annotations

import gc
import weakref
from threading import Event
from typing import Any

import pytest
from pymysqlreplication.constants import BINLOG
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.producer import TopicShape
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.config import RowTransform
from cdcbus.producer.decoding.table import decodable
from cdcbus.producer.decoding.table_map import parse
from cdcbus.producer.publish import publisher as module
from cdcbus.producer.publish import routes
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.source.row_events import Rows
from tests.unit.producer.decoding.test_table_map import strings, table_map

BODY = (77).to_bytes(6, "little") + bytes(2) + b"\x01\xff\x00" + (7).to_bytes(4, "little")
TABLES = 1_200


@pytest.mark.parametrize(("columns", "written"), [(10_000, TABLES), (100, 3 * TABLES)])
def test_code_is_kept_by_what_it_takes_not_by_how_many_tables_there_are(
    monkeypatch: pytest.MonkeyPatch, columns: int, written: int
) -> None:
    made: list[Any] = []
    sent: list[Record] = []

    def writer(*arguments: Any, **keywords: Any) -> TableWriter:
        made.append(arguments)
        return TableWriter(*arguments, **keywords)

    monkeypatch.setattr(module, "CODE_COLUMNS", columns)
    monkeypatch.setattr(routes, "TableWriter", writer)
    publisher = KafkaPublisher(
        PublishConfig("127.0.0.1:1", "t", "canalRow"), make_converter("canalRow"), Event()
    )
    monkeypatch.setattr(publisher._topics, "need", lambda _: None)
    monkeypatch.setattr(publisher, "_produce", lambda _, records: sent.extend(records))
    maps = [
        table_map(bytes((TYPE.LONG,)), b"", (4, strings("id")), table=f"t{number}")
        for number in range(TABLES)
    ]
    tables = [decodable(parse(each, {}, is_mariadb=False)) for each in maps]
    for _ in range(3):
        for at in range(0, TABLES, 100):
            rows = [
                Rows(table, BINLOG.WRITE_ROWS_EVENT_V1, BODY, Origin("f", 4))
                for table in tables[at : at + 100]
            ]
            assert publisher.send(rows) == 100
    assert (len(made), len(sent)) == (written, 3 * TABLES)


def as_it_is(change: RowChange) -> RowChange:
    """An event processor."""
    return change


@pytest.mark.parametrize("processor", ["", f"{__name__}:as_it_is"])
@pytest.mark.parametrize("has_template", [True, False])
def test_a_table_that_is_defined_again_and_again_leaves_no_writers(
    monkeypatch: pytest.MonkeyPatch,
    processor: str,
    has_template: bool,
) -> None:
    """Each DDL statement of the server may have altered any table, so all are decoded anew."""
    made: list[Any] = []

    def writer(*arguments: Any, **keywords: Any) -> TableWriter:
        one = TableWriter(*arguments, **keywords)
        made.append(weakref.ref(one))
        return one

    monkeypatch.setattr(module, "CODE_COLUMNS", 100)
    monkeypatch.setattr(routes, "TableWriter", writer)
    converter = make_converter("canalRow")
    publisher = KafkaPublisher(
        PublishConfig("127.0.0.1:1", "t", "canalRow"),
        converter if has_template else routes._Plain(converter),
        Event(),
        transform=RowTransform(processor=processor),
    )
    monkeypatch.setattr(publisher._topics, "need", lambda _: None)
    monkeypatch.setattr(publisher, "_produce", lambda *_: None)
    columns = table_map(bytes((TYPE.LONG,)), b"", (4, strings("id")))
    for _ in range(1_000):
        table = decodable(parse(columns, {}, is_mariadb=False))
        publisher.send([Rows(table, BINLOG.WRITE_ROWS_EVENT_V1, BODY, Origin("f", 4))])
    gc.collect()
    assert sum(one() is not None for one in made) <= 101


@pytest.mark.parametrize(
    ("partitions", "types", "is_warned_of"),
    [
        (2, (TYPE.LONG, TYPE.LONG, TYPE.TIMESTAMP), True),
        (0, (TYPE.LONG, TYPE.TIMESTAMP), True),  # their number is not known
        (1, (TYPE.LONG, TYPE.TIMESTAMP), False),
        (2, (TYPE.LONG, TYPE.LONG), False),
    ],
)
def test_rows_that_go_to_other_partitions_as_their_key_was_altered_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    partitions: int,
    types: tuple[int, ...],
    *,
    is_warned_of: bool,
) -> None:
    publisher = KafkaPublisher(
        PublishConfig("127.0.0.1:1", "t", "canalRow"), make_converter("canalRow"), Event()
    )

    def shape(_: str) -> TopicShape:
        if not partitions:
            raise BusUnavailable("silent")
        return TopicShape(partitions, 1, 1)

    monkeypatch.setattr(publisher, "shape", shape)
    monkeypatch.setattr(publisher._topics, "need", lambda _: None)
    monkeypatch.setattr(publisher, "_produce", lambda *_: None)
    for at, type_ in enumerate(types):
        columns = table_map(bytes((type_,)), b"", (4, strings("id")), (8, b"\0"))
        table = decodable(parse(columns, {}, is_mariadb=False))
        publisher.send([Rows(table, BINLOG.WRITE_ROWS_EVENT_V1, BODY, Origin("f", 4 + at))])
    lines = [line for line in caplog.messages if "record keys" in line]
    assert len(lines) == is_warned_of
    for line in lines:
        assert "from (id int) to (id timestamp), before the rows at f:" in line
        assert "partitions of topic t " in line


def test_large_rows_without_a_place_are_told_apart_by_their_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher = KafkaPublisher(
        PublishConfig("127.0.0.1:1", "t", "canalRow"), make_converter("canalRow"), Event()
    )
    watched: list[Any] = []
    monkeypatch.setattr(publisher._topics, "need", lambda _: None)
    monkeypatch.setattr(publisher, "_produce", lambda *_: None)
    monkeypatch.setattr(publisher, "_watch", lambda _, large: watched.append(large[0]))
    monkeypatch.setattr(publisher, "_batch_bytes", 1)
    table = Table(TableId("shop", "docs"), (Column("id", "int"),), ("id",))
    for key in ("1", "2", "1"):
        publisher.send_changes([RowChange(table, Op.INSERT, None, {"id": key})])
    first, second, again = watched
    assert first == again != second
    publisher._dead.add(first)  # of one that was too large; this one may be smaller
    publisher.send_changes([RowChange(table, Op.INSERT, None, {"id": "1"})])
    assert watched[3] == first


def test_topics_that_are_named_after_dropped_tables_begin_anew_by_their_names_in_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = (
        MapperRule(schema=("shop", "STORE"), table=("orders", "SALES")),
        MapperRule(schema=("old", "New")),
        *(MapperRule(schema=("s", "S"), table=(name, "all")) for name in ("part_1", "part_2")),
    )
    publisher = KafkaPublisher(
        PublishConfig("127.0.0.1:1", "t", "canalRow"),
        make_converter("canalRow"),
        Event(),
        transform=RowTransform(rules, heartbeats=TableId("old", "beats")),
    )
    dropped: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        publisher.logs,
        "dropped",
        lambda name, *, is_schema=False: dropped.append((name, is_schema)),
    )
    # The last ones share a name.
    names = ("s.part_1", "s.part_2", "shop.orders", "shop.Stock", "my.db", "old.stock", "old.beats")
    tables = [TableId(*name.split(".")) for name in names]
    publisher.dropped([*tables, TableId("old", ""), TableId("a.b", "")])
    assert dropped == [
        ("store_sales", False),
        ("shop_stock", False),
        ("my_db", False),
        ("new_stock", False),
        ("old_beats", False),
        ("new", True),
        ("a_b", True),
    ]
