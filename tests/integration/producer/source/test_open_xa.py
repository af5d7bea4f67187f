"""An XA transaction that stays prepared is told of, as nothing gets on behind it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.start import Edge
from cdcbus.plugins.task_status import State, TaskStatus
from cdcbus.producer import open_xa
from cdcbus.tasks.local.memory import MemoryPositions
from tests.integration.producer.reading import connect, fetch_task, position
from tests.integration.producer.running import Running
from tests.support.topics.committed import committed_canal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def works(status: TaskStatus) -> bool:
    status.observe(is_behind=False)
    return status.now == (State.WORKING, "")


@pytest.mark.parametrize(
    "transactional_id", ["", "cdcbus-xa"], ids=["without transactions", "in transactions"]
)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_task_says_which_xa_transaction_holds_it_up_and_works_again_once_it_is_finished(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    transactional_id: str,
    end: str,
) -> None:
    monkeypatch.setattr(open_xa, "OPEN_XA_SECONDS", 1.0)
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    task = replace(fetch_task(source, name, servers=kafka), start=Edge.LATEST)
    task = replace(
        task,
        publish=replace(
            task.publish, transactional_id=transactional_id and f"{transactional_id}-{name}"
        ),
    )
    positions, xid = MemoryPositions(), f"X'{name.encode().hex()}',X'',1"
    running = Running(task, positions)
    with closing(connect(source)) as connection, connection.cursor() as other, running:
        running.until(lambda: running.progress.position is not None)
        for statement in (
            f"USE {name}",
            f"XA START '{name}'",
            "INSERT INTO t VALUES (1)",
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
        ):
            other.execute(statement)
        source_cursor.execute("INSERT INTO t VALUES (2)")
        wait_until(lambda: running.status.now[0] is State.RETRYING, "it to be reported")
        assert f"task {name} waits for XA transaction {xid}, prepared " in running.status.now[1]
        other.execute(f"XA {end} '{name}'")
        running.until_stored(position(source_cursor))
        wait_until(lambda: works(running.status), "it to work again")
    sent = [int(record["data"][0]["id"]) for record in committed_canal(kafka, name)]
    assert sent == ([2, 1] if end == "COMMIT" else [2])
