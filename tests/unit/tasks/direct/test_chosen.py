"""The tables that a direct load takes from each fetch task, without servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress
from cdcbus.tasks.control.source_of import Mapped
from cdcbus.tasks.direct import chosen
from cdcbus.tasks.direct import opened as opened_module
from cdcbus.tasks.direct.watch import Watch
from tests.unit.tasks.direct.stand_ins import LOAD, ORDERS


class Reader:
    """Describes any table."""

    def __init__(self, *_: object) -> None:
        pass

    def describe(self, table: TableId) -> object:
        return object()

    def close(self) -> None:
        pass

    def interrupt(self) -> None:
        pass


def opened_for(
    monkeypatch: pytest.MonkeyPatch,
    shown: dict[str, list[TableId]],
    unreadable: Sequence[TableId] = (),
    load: LoadTask = LOAD,
    targets: Mapping[TableId, Sequence[TableId]] = {},
) -> Any:
    """The fetch tasks of a load. `shown`: the tables that each feeds; `unreadable`: those that
    cannot be read of each. `targets`: of tables that have others than one of their own name."""
    monkeypatch.setattr(opened_module, "ChunkReader", Reader)
    monkeypatch.setattr(chosen, "check_table", lambda *_: None)
    monkeypatch.setattr("cdcbus.producer.server.connection.reported", lambda _: nullcontext())

    def mapped_tables(feed: Any, _: object) -> Mapped:
        tables: list[Any] = []
        for each in shown[feed.place]:
            for target in targets.get(each, [each]):
                source = SimpleNamespace(id=each)
                tables.append(SimpleNamespace(source=source, target=target, topic="shop"))
        return Mapped(tables, {each: [each] for each in unreadable})

    monkeypatch.setattr(chosen, "mapped_tables", mapped_tables)
    sources = []
    for place in shown:
        feed = SimpleNamespace(place=place, fetch=SimpleNamespace(source=None))
        sources.append(
            SimpleNamespace(feed=feed, server=None, connection=None, tables={}, others={})
        )
    loader = SimpleNamespace(table=lambda table: SimpleNamespace(id=table), is_one_table=bool)
    return SimpleNamespace(
        load=load, sources=sources, loader=loader, further=[], watch=Watch(Event())
    )


def checked_tables(
    monkeypatch: pytest.MonkeyPatch,
    shown: dict[str, list[TableId]],
    *names: str,
    unreadable: Sequence[TableId] = (),
    load: LoadTask = LOAD,
) -> dict[str, list[TableId]]:
    """The chosen tables of each fetch task; see `opened_for`."""
    opened = opened_for(monkeypatch, shown, unreadable, load)
    chosen.checked_tables(opened, names, {})
    return {source.feed.place: list(source.tables) for source in opened.sources}


PARTS = TableId("shop", "parts")
BOUGHT, SOLD = TableId("mart", "bought"), TableId("mart", "sold")


def test_tables_of_two_fetch_tasks_are_loaded_each_from_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert checked_tables(monkeypatch, {"a": [ORDERS], "b": [PARTS]}) == {
        "a": [ORDERS],
        "b": [PARTS],
    }


def test_a_table_that_two_fetch_tasks_feed_is_not_loaded_from_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"a": [ORDERS], "b": [ORDERS, PARTS]}
    with pytest.raises(ConfigError, match=r"shop\.orders comes from a and from b.* --table"):
        checked_tables(monkeypatch, shown)
    assert checked_tables(monkeypatch, shown, "parts") == {"a": [], "b": [PARTS]}


def test_a_table_that_cannot_be_read_is_not_left_out_silently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"a": [ORDERS]}
    with pytest.raises(ConfigError, match=r"shop\.parts is there .* GRANT SELECT on it"):
        checked_tables(monkeypatch, shown, unreadable=[PARTS])
    with pytest.raises(ConfigError, match=r"shop\.parts is there"):
        checked_tables(monkeypatch, shown, "parts", unreadable=[PARTS])
    assert checked_tables(monkeypatch, shown, "orders", unreadable=[PARTS]) == {"a": [ORDERS]}


def test_neither_is_one_that_the_task_names_and_the_source_does_not_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"a": [ORDERS]}
    load = replace(LOAD, includes=frozenset({"SHOP.ORDERS", "SHOP.PARTS"}))
    with pytest.raises(ConfigError, match=r"SHOP\.PARTS is in consumer.includes, but"):
        checked_tables(monkeypatch, shown, load=load)
    assert checked_tables(monkeypatch, shown, "orders", load=load) == {"a": [ORDERS]}


@pytest.mark.parametrize("names", [(), ("orders",), ("shop.orders",), ("mart.bought",)])
def test_a_table_is_loaded_into_all_its_targets_whichever_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, names: tuple[str, ...]
) -> None:
    """A chunk is written to all of them, so each must be fit."""
    caplog.set_level("INFO")
    shown, targets = {"a": [ORDERS, PARTS]}, {ORDERS: [BOUGHT, SOLD]}
    opened = opened_for(monkeypatch, shown, targets=targets)
    alone: list[TableId] = []
    fit: list[TableId] = []
    monkeypatch.setattr(chosen, "check_alone", lambda _, target, __: alone.append(target))
    monkeypatch.setattr(chosen, "check_table", lambda mapped, *_: fit.append(mapped.target))
    found = chosen.checked_tables(opened, names, {})
    assert [target.id for target in found[ORDERS]] == [BOUGHT, SOLD]
    assert alone == fit == [BOUGHT, SOLD, PARTS][: 2 if names else None]
    assert opened.sources[0].others == ({PARTS: "shop"} if names else {})
    told = "shop.orders is loaded into all its target tables: mart.bought, mart.sold"
    assert caplog.messages == [told]


def test_a_load_that_goes_on_checks_all_targets_of_its_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = opened_for(monkeypatch, {"a": [ORDERS, PARTS]}, targets={ORDERS: [BOUGHT, SOLD]})
    found = chosen.checked_tables(opened, (), {ORDERS: TableProgress()})
    assert {table: [each.id for each in its] for table, its in found.items()} == {
        ORDERS: [BOUGHT, SOLD]
    }
