"""`cdcbus verify` of a table that somebody has locked."""

from __future__ import annotations

from threading import Timer

import pytest

from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.tasks.control import lock_waits
from tests.integration.tasks.verify.verifying import source_of, verify_still
from tests.support.changes.shop import Shop

pytestmark = [pytest.mark.integration, pytest.mark.source]


def test_a_table_that_is_locked_is_waited_for_not_without_a_word(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lock_waits, "LOOK_SECONDS", 1.0)
    shop.create("orders", "id INT PRIMARY KEY")
    source = source_of(shop)
    with MysqlConnection(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        database=shop.name,
    ) as locking:
        locking.cursor().execute("LOCK TABLES orders WRITE")
        unlock = Timer(6, lambda: locking.cursor().execute("UNLOCK TABLES"))
        unlock.start()
        found = verify_still(shop, "postgresql")
        unlock.join()
    assert found.code == 0, found.output
    told = [each.getMessage() for each in caplog.records if "orders is locked" in each.getMessage()]
    assert len(told) == 1
    caplog.clear()
    assert verify_still(shop, "postgresql").code == 0
    assert "is locked" not in caplog.text
