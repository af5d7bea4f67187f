"""Which tables a verify reports on, without servers."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.control.source_of import Mapped
from cdcbus.tasks.verify import run
from cdcbus.tasks.verify.compare import Options
from cdcbus.tasks.verify.run import may_belong, verify

ORDERS, PARTS, COPY = (TableId("shop", name) for name in ("orders", "parts", "copy"))


def reports(monkeypatch: pytest.MonkeyPatch, mapped: Mapped, *tables: str) -> dict[str, str]:
    """The errors by table of a verify of these source tables, each of which differs."""

    def comparison_of(*_: object) -> Any:
        raise ConfigError("compared")

    monkeypatch.setattr(run, "mapped_tables", lambda *_: mapped)
    monkeypatch.setattr(run, "comparison_of", comparison_of)
    monkeypatch.setattr(run, "gone_reports", lambda *_: [])
    opened: Any = SimpleNamespace(
        feeds=[SimpleNamespace(place="f")],
        loader=SimpleNamespace(is_one_table=bool),
        sources={"f": None},
        task=SimpleNamespace(task_id="7", includes=frozenset({"SHOP.PARTS"})),
        further=(),
        unread_feeds={},
        beside=SimpleNamespace(unread_feeds={}),
    )
    return {found.target: found.error for found, _ in verify(opened, Options(), tables)}


def source(table: TableId, target: TableId) -> Any:
    return SimpleNamespace(source=SimpleNamespace(id=table), target=target)


def test_a_table_that_cannot_be_read_is_an_error_also_one_of_several_of_a_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = [source(ORDERS, ORDERS), source(ORDERS, COPY)]
    mapped = Mapped(tables, {PARTS: [COPY]})
    found = reports(monkeypatch, mapped)
    assert found.keys() == {"shop.orders", "shop.copy"}
    assert found["shop.orders"] == "compared"
    assert "shop.parts is there and belongs to the task" in found["shop.copy"]
    broken = replace(mapped, unopened={PARTS: "shop.parts cannot be opened: 1194"})
    assert reports(monkeypatch, broken)["shop.copy"] == "shop.parts cannot be opened: 1194"
    assert reports(monkeypatch, mapped, "parts").keys() == {"shop.copy"}
    with pytest.raises(ConfigError, match=r"it has shop\.copy, shop\.orders"):
        reports(monkeypatch, mapped, "nothing")


@pytest.mark.parametrize(
    ("name", "is_sent", "is_there", "may"),
    [
        ("shop.orders", True, True, True),
        ("shop.orders", False, True, False),
        ("shop.orders", True, False, False),
        ("shop.or.ders", False, False, True),
    ],
)
def test_a_table_without_a_report_belongs_to_the_task_unless_that_is_disproved(
    monkeypatch: pytest.MonkeyPatch, name: str, is_sent: bool, is_there: bool, may: bool
) -> None:
    monkeypatch.setattr(run, "may_send", lambda *_: is_sent)
    loader = SimpleNamespace(table=lambda table: table if is_there else None)
    opened: Any = SimpleNamespace(
        feeds=[SimpleNamespace(fetch=None)], task=None, loader=loader, further=[], unread_feeds={}
    )
    assert may_belong(opened, name) is may


@pytest.mark.parametrize(
    ("further", "unread"), [(["6"], {}), ([], {"6": None})], ids=["further", "unread"]
)
def test_a_table_without_a_report_may_be_of_a_fetch_task_that_was_not_compared(
    monkeypatch: pytest.MonkeyPatch, further: list[str], unread: dict[str, None]
) -> None:
    monkeypatch.setattr(run, "may_send", lambda _, fetch, __: fetch == "6")
    loader = SimpleNamespace(table=lambda table: table)
    opened: Any = SimpleNamespace(
        feeds=[SimpleNamespace(fetch="5")],
        task=None,
        loader=loader,
        further=further,
        unread_feeds=unread,
    )
    assert may_belong(opened, "shop.orders")


def test_a_task_that_brings_a_part_of_the_other_direction_leaves_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be waited for at each row, and never be known to have passed."""
    lag = SimpleNamespace(is_partial=True)
    for name, found in {
        "is_both_ways": True,
        "bringing_tasks": ["ba"],
        "consumer_task": SimpleNamespace(task_id="ba"),
        "feeds_of": [],
        "_refuse_unlike": None,
        "_followed": (None, None, lag),
    }.items():
        monkeypatch.setattr(run, name, lambda *_, found=found: found)
    nothing: Any = None

    def inbound() -> Any:
        beside: Any = SimpleNamespace(tasks=[])
        return run._inbound(nothing, nothing, nothing, [], beside, nothing)

    found, doubt = inbound()
    assert (found, "consumer.source.partition" in doubt) == ({}, True)
    lag.is_partial = False
    assert inbound() == ({"ba": lag}, "")


@pytest.mark.parametrize(
    ("targets", "refused", "why"),
    [
        ([ORDERS], {}, ""),
        ([ORDERS, COPY], {}, ""),
        ([ORDERS], {ORDERS: "it has no key"}, "it has no key"),
        ([ORDERS, COPY], {COPY: "it has no key"}, "shop.orders go to target table shop.copy, too"),
        ([ORDERS, COPY], {COPY: ConfigError("it is gone")}, "repaired by them: it is gone"),
    ],
)
def test_a_table_is_repaired_only_if_all_targets_of_its_source_can_be(
    monkeypatch: pytest.MonkeyPatch,
    targets: list[TableId],
    refused: dict[TableId, str | ConfigError],
    why: str,
) -> None:
    """The records of a row go to all of them."""
    found = refusal_of(monkeypatch, targets, refused)
    assert why in found
    assert bool(found) is bool(why)


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (Mapped([], {}), "shop.copy, too, .* does not show its source tables any more"),
        (ConfigError("no table passes"), "shop.copy, too, .* by them: no table passes"),
        (
            pymysql.OperationalError(2013, "Lost connection"),
            r"shop.copy, too, .* has gone away or refuses it \(2013\)",
        ),
    ],
)
def test_a_source_that_has_changed_meanwhile_refuses_the_repair_of_one_table_only(
    monkeypatch: pytest.MonkeyPatch, then: Mapped | Exception, why: str
) -> None:
    """As its tables were listed before the first of them was compared."""
    assert re.search(why, refusal_of(monkeypatch, [ORDERS, COPY], {}, then))


def refusal_of(
    monkeypatch: pytest.MonkeyPatch,
    targets: list[TableId],
    refused: dict[TableId, str | ConfigError],
    then: Mapped | Exception | None = None,
) -> str:
    """`then`: what the source shows by now."""
    ways = [source(ORDERS, target) for target in targets]
    task = SimpleNamespace(mapper=SimpleNamespace(routes=lambda _: ways))
    opened: Any = SimpleNamespace(task=task, feeds=[SimpleNamespace(place="f")], sources={"f": 0})

    def comparison_of(_: object, target: TableId, mapped: Any, __: object) -> Any:
        """Of all its source tables."""
        assert [each.target for _, each in mapped] == [target] * 2
        if isinstance(found := refused.get(target), ConfigError):
            raise found
        sources = [SimpleNamespace(mapped=source(ORDERS, target))]
        subject = SimpleNamespace(target=target, sources=sources)
        return SimpleNamespace(subject=subject, options=None)

    mapped = Mapped([*ways, *(source(PARTS, target) for target in targets)], {})

    def mapped_tables(*_: object) -> Mapped:
        if isinstance(then, Exception):
            raise then
        return then or mapped

    monkeypatch.setattr(run, "mapped_tables", mapped_tables)
    monkeypatch.setattr(run, "comparison_of", comparison_of)
    monkeypatch.setattr(run, "refusal", lambda of: refused.get(of.subject.target, ""))
    both = [(None, each) for each in mapped.tables if each.target == ORDERS]
    return run.repair_refusal(opened, comparison_of(None, ORDERS, both, None))
