"""MySQL and MariaDB take a number that is no label for the number of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import TargetUnavailable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_applier import applying, changes, task
from tests.integration.consumer.apply.test_keys import crowd
from tests.support.servers.target_servers import MysqlServer
from tests.support.topics.records import records_of

__all__ = ["task"]
pytestmark = pytest.mark.integration
PLACE = TopicPartition("shop", 0)


@pytest.fixture(params=["mariadb", "mysql_9"])
def server(request: pytest.FixtureRequest, name: str) -> Iterator[TargetServer]:
    at: Database = request.getfixturevalue(request.param)
    server = MysqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema}")


@pytest.mark.parametrize("count", [0, 300], ids=["small", "large"])
def test_a_label_that_is_a_number_and_that_the_target_lacks_becomes_no_other_label(
    server: TargetServer, task: LoadTask, count: int
) -> None:
    server.execute(
        "CREATE TABLE {schema}.t (id INT PRIMARY KEY, e ENUM('5','10'), s SET('1','2','8'))"
    )
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")
    rows = [("1", "5", "1,8"), ("2", "1", "1"), ("3", "10", "4"), ("4", "0", None)]
    source = "id int, e enum('0','1','5','10'), s set('1','2','4','8')"
    cells = [dict(zip(("id", "e", "s"), row, strict=True)) for row in rows]
    made = [*changes("t", source, "id", *((Op.INSERT, None, row) for row in cells)), *crowd(count)]
    letters: list[DeadLetter] = []
    read = "SELECT id, CONCAT(e), CONCAT(s) FROM {schema}.t ORDER BY id"
    with applying(server, task, letters) as applier:

        def apply(begin: int) -> None:
            values = [(begin + at, CanalRow().to_bytes(each)) for at, each in enumerate(made)]
            applier.apply(PLACE, records_of(values), begin + len(made), 1)

        apply(0)
        assert [letter.offset for letter in letters] == [1, 2, 3]
        assert server.rows(read) == [(1, "5", "1,8")]
        server.execute(
            "ALTER TABLE {schema}.t MODIFY e ENUM('5','10','0','1'), MODIFY s SET('1','2','8','4')"
        )
        # an attempt can end with this: the next one has looked at the table again
        with suppress(TargetUnavailable):
            apply(1000)
        apply(1000)
    assert len(letters) == 3
    expected = [(int(key), label, labels) for key, label, labels in rows]
    assert server.rows(read) == expected
