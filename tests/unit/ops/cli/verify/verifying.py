"""A task whose verify has given results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main
from cdcbus.plugins.rowchange import Cell, Op
from cdcbus.tasks.verify import repair as repairs
from cdcbus.tasks.verify import run, sendable
from cdcbus.tasks.verify.compare import Options
from cdcbus.tasks.verify.repair import Planned
from cdcbus.tasks.verify.report import Example, Kind, TableReport
from cdcbus.tasks.zookeeper import audit
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper


def report(**fields: Any) -> TableReport:
    return TableReport("shop.orders", ["shop.orders"], **fields)


def different(*examples: Example) -> TableReport:
    found = report(examples=list(examples))
    found.counts[Kind.MISSING] = 2
    return found


class World:
    """A task whose tables have these reports. `published`: how many rows each step of a repair
    sends; `refusal`: why there is none; `unheld`: keys that are left out; `audited`: what was noted; `further`, `unread_feeds`: what
    feeds the task, too, although --source names another fetch task."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *reports: TableReport) -> None:
        self.reports = reports
        self.error: Exception | None = None
        self.zookeeper = MemoryZooKeeper()
        self.refusal = ""
        self.unheld: list[dict[str, Cell]] = []
        self.published: list[int] = []
        self.kinds: Collection[Kind] = ()
        self.audited: list[str] = []
        self.further: list[SimpleNamespace] = []
        self.unread_feeds: dict[str, object] = {}
        self.planned = [Planned(Op.INSERT, "shop.orders", "orders", {"id": "1", "part": None})]
        self.options: Options | None = None
        self.logs_in_to_send = self.needs_all_tasks = self.is_at_rest = False
        self.asked: tuple[Sequence[str], str] | None = None
        monkeypatch.setattr(run, "opened", self._opened)
        monkeypatch.setattr(run, "verify", self._verify)
        monkeypatch.setattr(audit, "audited", self._audited)
        monkeypatch.setattr(run, "repair_refusal", lambda *_: self.refusal)
        monkeypatch.setattr(sendable, "unheld", lambda *_: self.unheld)
        monkeypatch.setattr(repairs, "planned", self._planned)
        monkeypatch.setattr(sendable, "repairable", lambda *_: [])
        monkeypatch.setattr(repairs, "repair", self._repair)

    def run(self, *words: str, answer: str = "") -> Result:
        return CliRunner().invoke(main, ["verify", "7", *words], input=answer)

    @contextmanager
    def _opened(
        self, *_: object, is_repairing: bool, is_sending: bool, is_at_rest: bool
    ) -> Iterator[Any]:
        self.logs_in_to_send, self.needs_all_tasks = is_sending, is_repairing
        self.is_at_rest = is_at_rest
        yield SimpleNamespace(
            zookeeper=self.zookeeper,
            lag=None,
            task=SimpleNamespace(task_id="7"),
            further=self.further,
            beside=SimpleNamespace(unread_feeds=self.unread_feeds),
            unread_feeds={},
        )

    def _verify(
        self, _: object, options: Options, tables: Sequence[str], where: str, told: Any
    ) -> Iterator[Any]:
        self.options, self.asked = options, (tables, where)
        for each in self.reports:
            told(each.target, 5, 10)
            comparison = SimpleNamespace(
                report=each, different=each.differences, look_again=lambda each=each: _equal(each)
            )
            yield each, None if each.error else comparison
        if self.error:
            raise self.error

    def _planned(self, _: object, kinds: Collection[Kind]) -> list[Planned]:
        self.kinds = kinds
        return self.planned

    def _repair(self, *_: object) -> Iterator[list[Planned]]:
        for count in (2, 1):
            self.published.append(count)
            yield self.planned * count

    @contextmanager
    def _audited(self, _: object, by: str, what: str, on: str) -> Iterator[None]:
        self.audited.append(f"{what}, {on}")
        yield


def _equal(found: TableReport) -> None:
    found.counts = dict.fromkeys(Kind, 0)
