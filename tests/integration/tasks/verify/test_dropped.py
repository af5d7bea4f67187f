"""Tables that the source had, and whose rows are still at the target."""

from __future__ import annotations

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.history_codec import entry_name
from cdcbus.tasks.zookeeper.schema_history import schema_path
from tests.integration.tasks.verify.verifying import both, verify_still
from tests.support.changes.shop import Shop

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
