"""Which records are in the partition that their row's key says."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from cdcbus.consumer.apply.placing import Placing
from cdcbus.consumer.apply.scattered import ScatteredTables
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.kafka.key_form import KeyForm
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.plan import Plan
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.unit.consumer.apply.applying import TASK

ORDERS = Table(TableId("shop", "Orders"), (Column("id", "int"), Column("a", "int")), ("id",))


def plan() -> Plan:
    [route] = Mapper(()).routes(ORDERS.id)
    columns = {name: TargetColumn(name, "int4") for name in ("id", "a")}
    return route.plan(ORDERS, TargetTable(ORDERS.id, columns, ("id",)))


@pytest.mark.parametrize(
    ("key", "is_by_key"),
    [
        (b"7_", True),
        (b"", True),
        (b"Orders", True),  # all rows of the table in one partition, by its name
        (b"orders", False),
        (b"8_", False),
        (b"9_", False),
    ],
)
def test_rows_are_where_their_key_says_or_all_in_one_partition(key: bytes, is_by_key: bool) -> None:
    change = RowChange(ORDERS, Op.INSERT, None, {"id": "7", "a": "9"})
    assert Placing().is_row_by_key(plan(), key, change) is is_by_key
    image = {"id": pa.array(["7", "7"]), "a": pa.array(["9", "9"])}
    assert Placing().is_by_key(plan(), pa.array([key, key]), image) is is_by_key


def test_a_table_s_name_as_porter_s_readers_get_it_places_all_rows() -> None:
    upper = replace(ORDERS, id=TableId("SHOP", "ORDERS"))
    [route] = Mapper(()).routes(upper.id)
    columns = {name: TargetColumn(name, "int4") for name in ("id", "a")}
    made = route.plan(upper, TargetTable(ORDERS.id, columns, ("id",)))
    change = RowChange(upper, Op.INSERT, None, {"id": "7", "a": "9"})
    assert Placing().is_row_by_key(made, b"orders", change)
    image = {"id": pa.array(["7", "8"]), "a": pa.array(["9", "9"])}
    assert Placing().is_by_key(made, pa.array([b"orders", b"orders"]), image)
    assert not Placing().is_by_key(made, pa.array([b"orders", b"Orders"]), image)


@pytest.mark.parametrize("key", [b"7_", b'{"database":"shop","table":"Orders","pk.id":7}'])
@pytest.mark.parametrize("old", ["7", "6"])
def test_a_row_whose_key_changes_was_in_another_partition(key: bytes, old: str) -> None:
    """Of writers that do not make a delete and an insert of it."""
    change = RowChange(ORDERS, Op.UPDATE, {"id": old}, {"id": "7", "a": "9"})
    assert Placing().is_row_by_key(plan(), key, change) is (old == "7")
    assert Placing().is_row_by_key(plan(), b"Orders", change)


def plan_of(source_type: str, target_type: str, *, is_bound: bool = False) -> Plan:
    [route] = Mapper(()).routes(ORDERS.id)
    id_ = Column("id", source_type, is_bound=is_bound)
    source = replace(ORDERS, columns=(id_, Column("a", "int")))
    columns = {"id": TargetColumn("id", target_type), "a": TargetColumn("a", "integer")}
    return route.plan(source, TargetTable(ORDERS.id, columns, ("id",)))


@pytest.mark.parametrize(
    ("source", "target", "is_by_key"),
    [
        ("char(36)", "uuid", False),
        ("", "uuid", False),  # of a form without types
        ("", "bigint", True),
        ("uuid", "uuid", True),  # a source that spells them in one way
        ("varchar(9)", "bigint", False),
        ("int", "bigint", True),
        ("varchar(40)", "inet", False),
        ("varchar(40)", "character varying", True),
    ],
)
def test_rows_whose_key_can_be_spelled_in_several_ways_are_in_several_partitions(
    source: str, target: str, is_by_key: bool
) -> None:
    change = RowChange(ORDERS, Op.INSERT, None, {"id": "17", "a": "9"})
    made = plan_of(source, target)
    assert Placing().is_row_by_key(made, b"17_", change) is is_by_key
    image = {"id": pa.array(["17"]), "a": pa.array(["9"])}
    assert Placing().is_by_key(made, pa.array([b"17_"]), image) is is_by_key


@pytest.mark.parametrize(
    ("target", "is_by_key"), [("numeric", True), ("timestamp", True), ("uuid", False)]
)
def test_a_text_of_a_schema_can_be_a_number_that_its_writer_spells_in_one_way(
    target: str, is_by_key: bool
) -> None:
    """Of a DECIMAL, Debezium makes a text where decimal.handling.mode=string."""
    change = RowChange(ORDERS, Op.INSERT, None, {"id": "17.50", "a": "9"})
    made = plan_of("longtext", target, is_bound=True)
    assert Placing().is_row_by_key(made, b'{"id":"17.50"}', change) is is_by_key


def scattered_by(
    *types: str,
    keys: tuple[bytes, ...],
    key: tuple[str, ...] = ("id",),
    topics: tuple[str, ...] = ("shop",),
    partitions: tuple[int, ...] = (),
) -> bool:
    """Whether records that come with these types of the column `id` show that rows are in several
    partitions. All come in partition 0 unless `partitions` are given."""
    task = replace(TASK, source=replace(TASK.source, topics=topics))
    tables = ScatteredTables(task, MemoryTarget({}), CanalRow())
    numbers = partitions or (0,) * len(types)
    for type_, text, number in zip(types, keys, numbers, strict=True):
        [route] = Mapper(()).routes(ORDERS.id)
        columns = (Column("id", type_), Column("a", "int"))
        held = {"id": TargetColumn("id", "text"), "a": TargetColumn("a", "text")}
        table = replace(ORDERS, columns=columns, key=key)
        made = route.plan(table, TargetTable(ORDERS.id, held, key))
        cell = text.decode().partition("_")[0]
        change = RowChange(table, Op.INSERT, None, {"id": cell if len(key) == 1 else "7", "a": "9"})
        step = MappedChange(0, made, made.map(change))
        tables.look_at_key(text, [(step, change)], TopicPartition("shop", number))
    return tables.has_shown(ORDERS.id)


@pytest.mark.parametrize(
    ("scales", "partitions"),
    [
        ((2, 4, 4), (0, 0, 0)),
        ((2, 4, 4), (0, 0, 1)),
        ((2, 4), (1, 0)),  # the one that is ahead has no other number than a topic's only one
        ((2, 4, 2), (0, 0, 1)),
    ],
)
def test_of_several_topics_each_may_have_one_partition_in_which_all_rows_stay(
    scales: tuple[int, ...], partitions: tuple[int, ...]
) -> None:
    found = scattered_by(
        *(f"decimal(9,{scale})" for scale in scales),
        keys=tuple(f"7.{'0' * scale}_".encode() for scale in scales),
        topics=("shop", "crm"),
        partitions=partitions,
    )
    assert found is (max(partitions) > 0)


def test_forms_that_are_not_told_yet_are_told_with_the_next_record_of_a_shared_topic() -> None:
    """Also of a plan that was compared before."""
    told: list[KeyForm] = []
    placing = Placing(lambda _, *forms: told.extend(forms))
    first, other = plan_of("decimal(9,2)", "text"), plan_of("decimal(9,4)", "text")
    for made, text, is_shared in (first, "7.00", True), (other, "7.0000", False):
        change = RowChange(made.source, Op.INSERT, None, {"id": text, "a": "9"})
        placing.is_row_by_key(made, f"{text}_".encode(), change, is_shared=is_shared)
    assert told == []
    change = RowChange(ORDERS, Op.INSERT, None, {"id": "7.00", "a": "9"})
    placing.is_row_by_key(first, b"7.00_", change, is_shared=True)
    assert len(told) == 2


@pytest.mark.parametrize(
    ("before", "after", "keys", "is_scattered"),
    [
        ("decimal(9,2)", "decimal(9,4)", (b"7.00_", b"7.0000_"), True),
        ("decimal(9,4)", "decimal(9,2)", (b"7.0000_", b"7.00_"), True),
        ("int", "bigint", (b"7_", b"7_"), False),
        # all rows of the table are in one partition
        ("decimal(9,2)", "decimal(9,4)", (b"Orders", b"Orders"), False),
    ],
)
def test_rows_whose_key_has_another_text_than_before_are_in_several_partitions(
    before: str,
    after: str,
    keys: tuple[bytes, bytes],
    caplog: pytest.LogCaptureFixture,
    *,
    is_scattered: bool,
) -> None:
    """Each record has the text of its own key."""
    found = scattered_by(before, before, after, after, keys=(*keys[:1] * 2, *keys[1:] * 2))
    assert found is is_scattered
    lines = [line for line in caplog.messages if "two forms of its key" in line]
    assert len(lines) == is_scattered
    for line in lines:
        assert f"(id {before}) and (id {after})" in line
        assert "target table shop.Orders" in line and "cdcbus verify 7 --repair" in line


def test_records_that_are_merged_by_columns_show_two_forms_as_well() -> None:
    told: list[KeyForm] = []
    placing = Placing(lambda _, *forms: told.extend(forms))
    for scale in (2, 4):
        text = f"7.{'0' * scale}"
        image = {"id": pa.array([text]), "a": pa.array(["9"])}
        made = plan_of(f"decimal(9,{scale})", "text")
        assert placing.is_by_key(made, pa.array([f"{text}_".encode()]), image)
    assert told == [(("id", "decimal(9,2)"),), (("id", "decimal(9,4)"),)]


@pytest.mark.parametrize("has_wider_target", [True, False])
@pytest.mark.parametrize(
    ("keys", "types", "is_scattered"),
    [
        ((b"9_", b"9_"), ("decimal(9,2)", "decimal(9,2)"), False),
        ((b"9_", b"9_"), ("decimal(9,2)", "decimal(9,4)"), False),
        ((b"Orders", b"Orders"), ("decimal(9,2)", "decimal(9,4)"), False),
        ((b"", b""), ("decimal(9,2)", "decimal(9,2)"), False),
        ((b'{"a":"9"}', b'{"a":"9"}'), ("decimal(9,2)", "decimal(9,2)"), False),
        ((b"7.00_", b"7.00_"), ("decimal(9,2)", "decimal(9,2)"), False),
        ((b"7.00_", b"7.0000_"), ("decimal(9,2)", "decimal(9,4)"), True),
        ((b"9_7.00_", b"9_7.00_eu_"), ("decimal(9,2)", "decimal(9,2)"), True),
    ],
)
def test_a_key_that_gets_a_column_moves_the_rows_whose_record_key_it_changes(
    keys: tuple[bytes, bytes],
    types: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
    *,
    is_scattered: bool,
    has_wider_target: bool,
) -> None:
    """Not where a part of it that stays, or the table's name, is the record key."""
    tables = ScatteredTables(TASK, MemoryTarget({}), CanalRow())
    [route] = Mapper(()).routes(ORDERS.id)
    key: tuple[str, ...] = ("a", "id")
    target_key = key
    for text, type_ in zip(keys, types, strict=True):
        columns = (Column("id", type_), Column("a", "int"), Column("region", "char(2)"))
        held = {column.name: TargetColumn(column.name, "text") for column in columns}
        table = replace(ORDERS, columns=columns, key=key)
        made = route.plan(table, TargetTable(ORDERS.id, held, target_key))
        cells = {"id": "7.00" if type_.endswith("2)") else "7.0000", "a": "9", "region": "eu"}
        change = RowChange(table, Op.INSERT, None, cells)
        step = MappedChange(0, made, made.map(change))
        tables.look_at_key(text, [(step, change)], TopicPartition("shop", 0))
        key = ("a", "id", "region")
        target_key = key if has_wider_target else target_key
    assert tables.has_shown(ORDERS.id) is is_scattered
    assert is_scattered or caplog.text == ""


@pytest.mark.parametrize("is_wider_first", [True, False])
@pytest.mark.parametrize("has_source_key", [True, False])
@pytest.mark.parametrize(
    "texts", [(b'{"pk.id":"7"}', b'{"pk.a":"9","pk.id":"7"}'), (b"7_", b"9_7_")]
)
def test_a_source_key_that_changes_within_the_targets_is_noticed(
    texts: tuple[bytes, bytes],
    caplog: pytest.LogCaptureFixture,
    *,
    has_source_key: bool,
    is_wider_first: bool,
) -> None:
    """As the target is altered first. Some records do not say what the source's key is."""
    tables = ScatteredTables(TASK, MemoryTarget({}), CanalRow())
    [route] = Mapper(()).routes(ORDERS.id)
    held = {column.name: TargetColumn(column.name, "text") for column in ORDERS.columns}
    target = TargetTable(ORDERS.id, held, ("a", "id"))
    keys: tuple[tuple[str, ...], ...] = (("id",), ("a", "id"))
    for text, key in sorted(zip(texts, keys, strict=True), reverse=is_wider_first):
        table = replace(ORDERS, key=key if has_source_key else ())
        made = route.plan(table, target)
        change = RowChange(table, Op.INSERT, None, {"id": "7", "a": "9"})
        step = MappedChange(0, made, made.map(change))
        tables.look_at_key(text, [(step, change)], TopicPartition("shop", 0))
    assert tables.has_shown(ORDERS.id)
    assert ("two forms of its key" in caplog.text) is has_source_key


def test_a_part_of_the_key_by_which_no_record_is_placed_may_change() -> None:
    types = "decimal(9,2)", "decimal(9,4)"
    assert not scattered_by(*types, keys=(b"9_", b"9_"), key=("id", "a"))
