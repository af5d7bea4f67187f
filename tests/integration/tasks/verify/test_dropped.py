"""Tables that the source had, and whose rows are still at the target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.history_codec import entry_name
from cdcbus.tasks.zookeeper.schema_history import schema_path
from cdcbus.tasks.zookeeper.znode import get_children
from tests.integration.producer.reading import global_variable
from tests.integration.tasks.verify.verifying import both, source_of, verify_still
from tests.support.changes.shop import Shop
from tests.support.servers.few_rights import PASSWORD, user_with
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_rows_of_a_table_that_the_source_has_no_more_are_a_difference(
    shop: Shop, target: str
) -> None:
    run = both(shop, target)
    for table in ("orders", "gone", "foreign"):
        shop.create(f"t_{table}", "id INT PRIMARY KEY")
        run(f"INSERT INTO {shop.name}.t_{table} VALUES (1), (2)")
        shop.cursor.execute(f"INSERT INTO t_{table} VALUES (1), (2)")
    # As a fetch task notes it that has read the table; of t_foreign none has.
    history = schema_path(f"{shop.name}-fetch", shop.name)
    for table in ("t_orders", "t_gone"):
        path = f"{history}/{entry_name(TableId(shop.name, table))}"
        shop.zookeeper.create(path, b"", makepath=True)
    assert verify_still(shop, target).code == 0
    shop.cursor.execute("DROP TABLE t_gone, t_foreign")
    found = verify_still(shop, target)
    assert found.code == 1, found.output
    results = {table["table"]: table for table in found.tables}
    assert results.keys() == {f"{shop.name}.t_orders", f"{shop.name}.t_gone"}
    gone = results[f"{shop.name}.t_gone"]
    assert (gone["result"], gone["isGone"], gone["targetRows"]) == ("different", True, 2)
    run(f"DELETE FROM {shop.name}.t_gone")
    emptied = verify_still(shop, target)
    assert (emptied.code, len(emptied.tables)) == (0, 1), emptied.output


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_what_no_fetch_task_has_noted_is_known_from_the_target(shop: Shop, target: str) -> None:
    """As where the server sends the columns with the rows, and no snapshot is taken."""
    run = both(shop, target)
    tables = ("t_orders", "t_gone", "t_hidden")
    for table in tables:
        shop.create(table, "id INT PRIMARY KEY")
    fetch = shop.fetch(source_of(shop), consumer__snapshot="never")
    load = shop.load(target)
    with global_variable(source_of(shop), "binlog_row_metadata", "FULL"):
        fetch.start()
        wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
        load.start()
        for table in tables:
            shop.cursor.execute(f"INSERT INTO {table} VALUES (1), (2)")
        counts = [f"SELECT COUNT(*) FROM {shop.name}.{table}" for table in tables]
        wait_until(lambda: [run(sql)[0][0] for sql in counts] == [2, 2, 2], "the rows", 180)
        for task in (fetch, load):
            task.ask_to_stop()
            assert task.await_stop() == 0
    history = schema_path(fetch.task_id, shop.name)
    assert not [name for name in get_children(shop.zookeeper, history) if "t_gone" in name]
    equal = verify_still(shop, target)
    assert (equal.code, len(equal.tables)) == (0, 3), equal.output
    seen = [f"SELECT ON {shop.name}.{table}" for table in ("t_orders", "t_gone")]
    rights = "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"
    with user_with(shop.cursor, user := f"u{shop.name}"[:32], rights, *seen):
        shop.fetch(replace(source_of(shop), user=user, password=PASSWORD))
        hidden = verify_still(shop, target)
        assert hidden.code == 2, hidden.output
        errors = {table["table"]: table["error"] for table in hidden.tables if table["error"]}
        assert errors.keys() == {f"{shop.name}.t_hidden"}
        assert "GRANT SELECT" in errors[f"{shop.name}.t_hidden"]
    shop.fetch(source_of(shop))
    shop.cursor.execute("DROP TABLE t_gone")
    found = verify_still(shop, target)
    assert (found.code, len(found.tables)) == (1, 3), found.output
    [gone] = [table for table in found.tables if table["result"] != "equal"]
    assert (gone["table"], gone["isGone"], gone["targetRows"]) == (f"{shop.name}.t_gone", True, 2)
    run(f"DROP TABLE {shop.name}.t_gone")
    assert verify_still(shop, target).code == 0
