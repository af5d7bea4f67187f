"""What mapper and event processor make of a real server's rows, in Kafka."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, RowChange, TableId
from cdcbus.plugins.start import Edge
from cdcbus.plugins.transform.cells.expression import constant, read_expression
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.config import DdlConfig, FetchTask, RowTransform, SnapshotMode
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, canal, messages
from tests.integration.producer.snapshot.following import SnapshotRunning

pytestmark = pytest.mark.integration

TABLE = "CREATE TABLE {} (id INT PRIMARY KEY, pan VARCHAR(20), owner VARCHAR(20), note TEXT)"
FORMATS = pytest.mark.parametrize("converter", ["canalRow", "oggJson", "porterCompat"])


def hashed(text: str) -> str:
    return hashlib.sha256(f"salt{text}".encode()).hexdigest()


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
        texts = [message.key(), message.value(), *dict(message.headers() or ()).values()]
        assert not any(b"pan-" in (text or b"") or b"note" in (text or b"") for text in texts)
        assert message.key() in {
            *(f"{hashed(f'pan-{number}')}_".encode() for number in (1, 2, 4)),
            b"null_",
        }
    changes = [
        change
        for message in found
        for change in make_converter(converter).from_bytes(message.value() or b"")
    ]
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
    ]
