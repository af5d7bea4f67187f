"""Which statements of a source give loaded tables other rows."""

from __future__ import annotations

import logging
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.plugins.errors import CdcError, ConfigError, SourceUnavailable
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.rows.unlogged import Unlogged
from cdcbus.producer.ddl.tokens import STRICT, Session
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.tasks.direct import other_rows
from cdcbus.tasks.direct.other_rows import Looks, check, effects
from cdcbus.tasks.snapshots.direct import DirectLoad

ORDERS, PARTS, WORDS = (
    TableId("shop", "orders"),
    TableId("shop", "parts"),
    TableId("shop", "wörter"),
)
LOADED = (ORDERS, PARTS)


def statement(sql: str, *, is_exact: bool = True) -> Statement:
    encoding = "utf-8" if is_exact else "latin-1"
    session = replace(Session(), is_exact=is_exact)
    return Statement(BinlogCoordinates("bin.000003", 99), 1, "shop", sql.encode(encoding), session)


@pytest.mark.parametrize(
    ("sql", "replaced"),
    [
        ("RENAME TABLE orders TO old.orders, new.orders TO orders", {ORDERS}),
        ("ALTER TABLE other EXCHANGE PARTITION p WITH TABLE shop.parts", {PARTS}),
        ("DROP DATABASE shop", {ORDERS, PARTS}),
        ("RENAME TABLE old.orders TO other.orders", set()),
        ("DROP TABLE Orders", set()),
        ("DROP DATABASE shops", set()),
        ("ALTER TABLE orders ADD note TEXT", set()),
        ("TRUNCATE TABLE orders", set()),
    ],
)
def test_only_statements_that_concern_a_loaded_table_count(
    sql: str, replaced: set[TableId]
) -> None:
    assert effects(statement(sql), LOADED, folds_names=False) == Unlogged(frozenset(replaced))


def test_values_that_follow_from_the_session_count() -> None:
    added = statement("ALTER TABLE orders ADD made TIMESTAMP")
    session = replace(added.session, explicit_timestamps=False)
    for given, refilled in ((added, set()), (replace(added, session=session), {ORDERS})):
        assert effects(given, LOADED, folds_names=False) == Unlogged(refilled=frozenset(refilled))


def test_the_case_of_names_counts_as_it_does_at_the_server() -> None:
    for sql in ("DROP TABLE Orders", "RENAME TABLE Shop.ORDERS TO x, y TO Orders"):
        found = effects(statement(sql), LOADED, folds_names=True)
        assert found.replaced == {ORDERS}
    assert effects(statement("DROP SCHEMA SHOP"), LOADED, folds_names=True).replaced == {*LOADED}


def test_a_statement_that_is_not_understood_counts_for_the_tables_that_it_may_name() -> None:
    tables = (*LOADED, WORDS)
    for sql, replaced in (
        ("RENAME TABLE orders TO `é`", {ORDERS, WORDS}),
        ("RENAME TABLE others TO `é`", {WORDS}),
    ):
        found = effects(statement(sql, is_exact=False), tables, folds_names=False)
        assert found.replaced == replaced


def test_a_table_with_other_rows_ends_the_load_with_what_to_do() -> None:
    harmless, swap = statement("DROP TABLE x"), statement("RENAME TABLE orders TO x, y TO orders")
    check([harmless], LOADED, folds_names=False)
    with pytest.raises(CdcError, match=r"shop\.orders .* bin\.000003:99.* again with --anew"):
        check([harmless, swap], LOADED, folds_names=False)


def test_a_source_that_is_away_is_looked_at_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load itself waits for it, too; only at its end the look must succeed."""

    def away(*_: object) -> BinlogPosition:
        tries.append(None)
        raise SourceUnavailable("the source is away")

    tries: list[None] = []
    monkeypatch.setattr(other_rows, "_look", away)
    monkeypatch.setattr(other_rows, "check_server", lambda *_: None)
    monkeypatch.setattr(other_rows, "LOOK_SECONDS", 0.0)
    feed = SimpleNamespace(fetch=SimpleNamespace(task_id="fetch"))
    opened: Any = SimpleNamespace(stop=Event(), sources=[SimpleNamespace(feed=feed)])
    looks = Looks(opened, DirectLoad({}, seen={"fetch": BinlogPosition("bin.000003", 4)}))
    looks.look_sometimes()
    with pytest.raises(SourceUnavailable):
        looks.look()
    assert len(tries) == 2
    opened.stop.set()
    looks.look_sometimes()
    assert len(tries) == 2


def test_each_look_sees_where_the_fetch_task_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ConfigError("to another server")

    monkeypatch.setattr(other_rows, "check_server", gone)
    feed = SimpleNamespace(fetch=SimpleNamespace(task_id="fetch"))
    opened: Any = SimpleNamespace(stop=Event(), sources=[SimpleNamespace(feed=feed)])
    looks = Looks(opened, DirectLoad({}, seen={"fetch": BinlogPosition("bin.000003", 4)}))
    with pytest.raises(ConfigError, match="to another server"):
        looks.look()


def test_partitions_that_are_dropped_are_told_and_end_no_load(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        check([statement("ALTER TABLE parts DROP PARTITION p")], LOADED, folds_names=False)
    assert "table shop.parts has lost rows, as of partitions" in caplog.text


def test_cells_that_no_event_tells_are_told(caplog: pytest.LogCaptureFixture) -> None:
    sql = "ALTER TABLE parts DROP COLUMN c, ADD COLUMN c INT DEFAULT 7"
    with caplog.at_level(logging.WARNING):
        check([statement(sql)], LOADED, folds_names=False)
    assert "table shop.parts has other cells" in caplog.text


@pytest.mark.parametrize(
    "action",
    [
        "MODIFY c DECIMAL(5,1)",
        "CONVERT TO CHARACTER SET latin1",
        "MODIFY c INT AUTO_INCREMENT, ADD KEY (c)",
    ],
)
@pytest.mark.parametrize("mode", [0, STRICT])
def test_cells_that_may_be_others_are_told(
    action: str, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether they are follows from the former types."""
    altered = statement(f"ALTER TABLE Parts {action}")
    altered = replace(altered, session=replace(altered.session, sql_mode=mode))
    check([altered], LOADED, folds_names=True)
    [line] = caplog.messages
    assert line.startswith("table shop.parts may have other cells")
    assert "bin.000003:99" in line
    caplog.clear()
    check([altered], LOADED, folds_names=False)
    assert not caplog.messages
