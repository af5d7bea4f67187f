"""What ends a direct load before rows are lost, without servers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine

from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.direct import run
from cdcbus.tasks.direct.given import given
from cdcbus.tasks.snapshots.direct import DirectLoad
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper
from tests.unit.tasks.direct.stand_ins import LOAD, ONE, ORDERS, Logs


def test_a_task_that_reads_some_partitions_of_its_topics_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "TopicLogs", Logs)
    run._check_partitions(LOAD)
    for partitions, is_refused in (((0, 1), False), ((1,), True)):
        load = replace(LOAD, source=replace(LOAD.source, partitions=partitions))
        with pytest.raises(ConfigError, match="partition 0 of") if is_refused else nullcontext():
            run._check_partitions(load)


def check_shapes(progress: TableProgress) -> None:
    """Of a table whose key is `v`, and whose columns have the digest `c`."""
    selected = SimpleNamespace(key_order=("v",), shape_digest="c")
    source: Any = SimpleNamespace(tables={ORDERS: selected})
    run._check_shapes([source], {ORDERS: progress})


@pytest.mark.parametrize(
    "progress",
    [
        TableProgress(TableState.RUNNING, key=("v",), shape="c", after=("2",)),
        TableProgress(TableState.DONE, key=("id",), shape="b", after=("2",)),
        # As stored before the key and the shape were.
        TableProgress(TableState.RUNNING, after=("2",)),
    ],
)
def test_a_load_goes_on_by_the_key_by_which_it_was_begun(progress: TableProgress) -> None:
    check_shapes(progress)


@pytest.mark.parametrize("key", [("id",), ("v", "id")])
def test_a_load_does_not_go_on_by_another_key(key: tuple[str, ...]) -> None:
    with pytest.raises(CdcError, match=r"shop\.orders was altered while it was loaded"):
        check_shapes(TableProgress(TableState.RUNNING, key=key, after=("2",)))


def test_a_load_does_not_go_on_with_other_columns() -> None:
    """For example after CONVERT TO CHARACTER SET, of which no row changes in the binlog."""
    with pytest.raises(CdcError, match=r"shop\.orders was altered while it was loaded"):
        check_shapes(TableProgress(TableState.RUNNING, key=("v",), shape="b", after=("2",)))


def test_a_load_does_not_go_on_once_the_progress_of_a_table_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That table would be left out, silently."""
    found = DirectLoad({ONE: 150}, given=given(LOAD), tables=2)
    monkeypatch.setattr(run, "direct_load", lambda *_: found)
    opened: Any = SimpleNamespace(
        load=LOAD,
        client=None,
        applier=SimpleNamespace(applied_offsets=list, keeps_offsets=False),
        store=SimpleNamespace(load=lambda: {ORDERS: TableProgress(TableState.DONE)}),
    )
    with pytest.raises(ConfigError, match="was begun with 2 tables"):
        run._run(opened, (), 1, is_anew=False, others_later=False, on_progress=lambda _: None)


@pytest.mark.parametrize(
    ("owner", "said"), [(SESSION + 1, "stop it first"), (0, "in a persistent znode")]
)
def test_who_else_holds_the_tasks_lock_is_told_apart_from_a_lock_that_was_left(
    owner: int, said: str
) -> None:
    client: Any = MemoryZooKeeper()
    # Of a topic that the task read before.
    client.put("/datas/task/7/lock/former", {"processId": 1, "hostName": "h"}, 0)
    run._refuse_held(client, "7", ["orders"])
    client.put("/datas/task/7/lock/orders", {"processId": 2, "hostName": "h"}, owner)
    with pytest.raises(ConfigError, match=said):
        run._refuse_held(client, "7", ["orders"])


@pytest.mark.parametrize(("rows", "is_refused"), [(5, True), (0, False)])
def test_a_load_does_not_go_on_once_any_target_of_a_loaded_table_was_emptied(
    monkeypatch: pytest.MonkeyPatch, rows: int, is_refused: bool
) -> None:
    for name in ("check_held", "settle_again"):
        monkeypatch.setattr(run, name, lambda *_: None)
    targets: Any = [SimpleNamespace(id=TableId("", name)) for name in ("emptied", "full")]
    with create_engine("sqlite://").connect() as connection:
        for each in targets:
            connection.exec_driver_sql(f"CREATE TABLE {each.id.table} (id int)")
        connection.exec_driver_sql("INSERT INTO full VALUES (1)")
        database = SimpleNamespace(connected=lambda _: nullcontext(connection))
        opened: Any = SimpleNamespace(load=LOAD, sources=[], database=database)
        known = {ORDERS: TableProgress(TableState.RUNNING, rows)}
        refusal = pytest.raises(ConfigError, match=r"target table \.emptied has no rows any more")
        with refusal if is_refused else nullcontext():
            run._prepare_again(opened, DirectLoad({}), known, {ORDERS: targets})


def test_a_load_begins_only_if_all_targets_of_its_tables_are_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[str] = []

    def check_new(_: object, targets: Iterable[Any], *__: object, **___: object) -> None:
        checked.extend(target.id.table for target in targets)
        raise ConfigError("that is all")

    targets = [SimpleNamespace(id=TableId("", name)) for name in ("first", "last")]
    monkeypatch.setattr(run, "direct_load", lambda *_: None)
    monkeypatch.setattr(run, "check_fence", lambda _: None)
    monkeypatch.setattr(run, "checked_tables", lambda *_: {ORDERS: targets})
    monkeypatch.setattr(run, "stored_positions", lambda *_, **__: {})
    monkeypatch.setattr(run, "left_out", lambda _: None)
    monkeypatch.setattr(run, "_check_new", check_new)
    applier = SimpleNamespace(applied_offsets=list)
    opened: Any = SimpleNamespace(load=LOAD, client=None, applier=applier)
    with pytest.raises(ConfigError, match="that is all"):
        run._run(opened, (), 1, is_anew=False, others_later=False, on_progress=lambda _: None)
    assert checked == ["first", "last"]
