"""What mapper and event processor make of a real server's rows, in Kafka."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Message
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import ConfigError, UnreadableEvent
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, RowChange, TableId
from cdcbus.plugins.start import Edge
from cdcbus.plugins.transform.cells.expression import constant, read_expression
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.config import DdlConfig, FetchTask, RowTransform, SnapshotMode
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, canal, messages, row_changes
from tests.integration.producer.snapshot.following import SnapshotRunning
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

TABLE = "CREATE TABLE {} (id INT PRIMARY KEY, pan VARCHAR(20), owner VARCHAR(20), note TEXT)"
FORMATS = pytest.mark.parametrize("converter", ["canalRow", "oggJson", "porterCompat"])


def hashed(text: str) -> str:
    return hashlib.sha256(f"salt{text}".encode()).hexdigest()


def texts_of(message: Message) -> list[bytes]:
    """All bytes of a record."""
    values = dict(message.headers() or ()).values()
    return [text for text in (message.key(), message.value(), *values) if isinstance(text, bytes)]


def rule(name: str, expression: str = "EU") -> MapperRule:
    return MapperRule(
        schema=(name, "STORE"),
        table=("t", "CARDS"),
        columns={"id": "NO", "owner": "HOLDER"},
        ignored=frozenset({"note"}),
        computed={"ORIGIN": read_expression(expression)},
        masks={"pan": Mask("hash", text="salt")},
    )


def mapped(task: FetchTask, *rules: MapperRule, processor: str = "") -> FetchTask:
    return replace(task, transform=RowTransform(rules, processor))


@FORMATS
@pytest.mark.parametrize("expression", ["EU", "{@table} {owner:upper}"])
def test_rows_come_under_target_names_and_never_with_what_is_masked(
    converter: str,
    expression: str,
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name, 3)
    source_cursor.execute(TABLE.format("t"))
    source_cursor.execute("INSERT INTO t VALUES (1, 'pan-1', 'Ada', 'note-1')")
    task = fetch_task(
        source,
        name,
        servers=kafka,
        converter=converter,
        partition_keys={"STORE.CARDS": ("pan",)},
    )
    task = replace(
        mapped(task, rule(name, expression)), start=Edge.LATEST, snapshot=SnapshotMode.INITIAL
    )
    with SnapshotRunning(task, positions) as running:
        running.until_snapshot("t")
        source_cursor.execute(
            "INSERT INTO t VALUES (2, 'pan-2', 'Bob', 'note-2'), (3, NULL, 'C', NULL)"
        )
        source_cursor.execute("UPDATE t SET owner = 'Eve', note = 'note-3' WHERE id = 2")
        source_cursor.execute("UPDATE t SET pan = 'pan-4' WHERE id = 2")
        source_cursor.execute("DELETE FROM t WHERE id = 1")
        running.until_stored(position(source_cursor))

    found = messages(kafka, name)
    for message in found:
        assert not any(b"pan-" in text or b"note" in text for text in texts_of(message))
        assert message.key() in {
            *(f"{hashed(f'pan-{number}')}_".encode() for number in (1, 2, 4)),
            b"null_",
        }
    changes = row_changes(found, converter)
    assert {change.table.id for change in changes} == {TableId("STORE", "CARDS")}

    def made(owner: str) -> str:
        return "EU" if expression == "EU" else f"t {owner.upper()}"

    pan = "PAN" if converter == "porterCompat" else "pan"
    rows: dict[str, dict[str, str | None]] = {}
    for change in sorted(changes, key=lambda each: (each.origin.pos, each.op is not Op.DELETE)):
        if change.after is not None:
            rows[change.after["NO"] or ""] = dict(change.after)
        elif change.before is not None:
            rows.pop(change.before["NO"] or "")
    assert rows == {
        "2": {"NO": "2", pan: hashed("pan-4"), "HOLDER": "Eve", "ORIGIN": made("Eve")},
        "3": {"NO": "3", pan: None, "HOLDER": "C", "ORIGIN": made("C")},
    }
    assert sorted(change.op for change in changes) == ["DELETE"] * 2 + ["INSERT"] * 4 + ["UPDATE"]


def sorts(change: RowChange) -> list[RowChange] | None:
    """Leaves rows of owner `nobody` out, and sends a copy of those of Ada to a table of hers."""
    row = change.after or change.before or {}
    if row.get("owner") == "nobody":
        return None
    if row.get("owner") != "Ada":
        return [change]
    ada = replace(change.table, id=TableId(change.table.id.schema, "ada"))
    return [change, replace(change, table=ada)]


def test_an_event_processor_leaves_out_and_adds_rows_before_they_are_mapped(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    source_cursor.execute(TABLE.format("t"))
    positions.save(position(source_cursor).to_json())
    source_cursor.execute(
        "INSERT INTO t VALUES (1, 'pan-1', 'Ada', ''), (2, 'pan-2', 'nobody', ''), (3, '', 'C', '')"
    )
    task = mapped(
        fetch_task(source, name, servers=kafka), rule(name), processor=f"{__name__}:sorts"
    )
    with Running(replace(task, rows_per_record=100), positions) as running:
        running.until_stored(position(source_cursor))
    changes = [
        make_converter("canalRow").from_bytes(message.value() or b"")[0]
        for message in messages(kafka, name)
    ]
    rows = [(change.table.id.table, dict(change.after or {})) for change in changes]
    assert sorted(rows, key=str) == [
        ("CARDS", {"NO": "1", "pan": hashed("pan-1"), "HOLDER": "Ada", "ORIGIN": "EU"}),
        ("CARDS", {"NO": "3", "pan": hashed(""), "HOLDER": "C", "ORIGIN": "EU"}),
        ("ada", {"id": "1", "pan": "pan-1", "owner": "Ada", "note": ""}),
    ]
    assert running.progress.done == 3


def fails(change: RowChange) -> None:
    raise ValueError("pan-1")


def test_a_row_that_the_event_processor_fails_on_stops_the_task_before_it(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    source_cursor.execute(TABLE.format("t"))
    start = position(source_cursor)
    positions.save(start.to_json())
    source_cursor.execute("INSERT INTO t VALUES (1, 'pan-1', 'Ada', '')")
    task = mapped(fetch_task(source, name, servers=kafka), processor=f"{__name__}:fails")
    with (
        pytest.raises(UnreadableEvent, match=r"\d+: event processor .* raised ValueError on a row"),
        Running(task, positions) as running,
    ):
        running.ends()
    stored = running.progress.position
    assert stored is not None
    assert (stored.file, stored.pos) == (start.file, start.pos)
    assert messages(kafka, name) == []


def test_ddl_and_truncate_come_under_the_target_s_name(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    """The statement is the source's; of a table with masks it is left out."""
    make_topic(name)
    for table in ("t", "u"):
        source_cursor.execute(TABLE.format(table))
    positions.save(position(source_cursor).to_json())
    source_cursor.execute("TRUNCATE TABLE t")
    alter = "ALTER TABLE {} MODIFY pan VARCHAR(30) DEFAULT 'pan-0'"
    for table in ("t", "u"):
        source_cursor.execute(alter.format(table))
    source_cursor.execute("ALTER TABLE u ADD C INT DEFAULT 7")
    rules = (rule(name), MapperRule(table=("u", "other"), computed={"c": constant("1")}))
    task = mapped(fetch_task(source, name, servers=kafka), *rules)
    with Running(replace(task, ddl=DdlConfig(definitions=True)), positions) as running:
        running.until_stored(position(source_cursor))
    assert [
        (record["database"], record["table"], record["type"], record["sql"])
        for record in canal(kafka, name)
    ] == [
        ("STORE", "CARDS", "TRUNCATE", "TRUNCATE TABLE `CARDS`"),
        ("STORE", "CARDS", "ALTER", ""),
        (name, "other", "ALTER", alter.format("u")),
        (name, "other", "ALTER", ""),  # of a column in whose place a computed one stands
    ]


def test_a_mapper_that_cannot_be_applied_refuses_the_start(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    source_cursor.execute(TABLE.format("t"))
    task = mapped(fetch_task(source, name, servers=kafka), MapperRule(ignored=frozenset(("id",))))
    with (
        pytest.raises(ConfigError, match=rf"leaves out column id, .* key of {name}\.t"),
        Running(replace(task, start=Edge.LATEST), positions) as running,
    ):
        running.ends()
    assert positions.load() is None


def test_a_consumer_task_loads_the_mapped_topic_and_finds_no_word_of_what_is_masked(
    shop: Shop, source: Database
) -> None:
    """Task files as an operator writes them, a snapshot, and a target with other names."""
    shop.cursor.execute(TABLE.format("t"))
    shop.cursor.execute("INSERT INTO t VALUES (1, 'pan-1', 'Ada', 'x'), (2, 'pan-2', 'Bob', 'y')")
    shop.postgresql(
        f'CREATE TABLE {shop.name}.cards (no int PRIMARY KEY, pan char(64), holder text, "from" text)'
    )
    fetch = shop.fetch(source, consumer__snapshot="initial")
    with (shop.folder / f"{fetch.task_id}.properties").open("a") as file:
        file.write(
            f"""
mapper[0].schema={shop.name},{shop.name}
mapper[0].table=t,cards
mapper[0].column.id=no
mapper[0].column.owner=holder
mapper[0].ignore=note
mapper[0].constant.from=EU
mapper[0].mask.pan=hash:salt
loader.source.partitionKey.{shop.name}.cards=no
"""
        )
    load = shop.load("postgresql", consumer__includes=f"{shop.name}.cards")
    fetch.start()
    load.start()

    def rows() -> list[tuple[object, ...]]:
        return sorted(shop.postgresql(f"SELECT * FROM {shop.name}.cards"))

    wait_until(lambda: len(rows()) == 2, "the snapshot is at the target", 120)
    shop.cursor.execute("UPDATE t SET pan = 'pan-3', id = 3 WHERE id = 2")
    shop.cursor.execute("DELETE FROM t WHERE id = 1")
    shop.cursor.execute("INSERT INTO t VALUES (4, NULL, 'Eve', 'z')")
    expected = [(3, hashed("pan-3"), "Bob", "EU"), (4, None, "Eve", "EU")]
    wait_until(lambda: rows() == expected, "the changes are at the target", 120)
    texts = [
        text for message in messages(shop.addresses.kafka, shop.name) for text in texts_of(message)
    ]
    assert not any(b"pan-" in text for text in texts)
