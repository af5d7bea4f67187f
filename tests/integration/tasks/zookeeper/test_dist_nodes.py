"""porter's dist nodes in a real ZooKeeper, and `cdcbus lineage` on them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.dist_nodes import stored_dists

pytestmark = pytest.mark.integration

GOLDEN = Path(__file__).parents[3] / "golden" / "dist"


def test_tasks_of_porter_are_followed_from_table_to_table(
    zookeeper: str, name: str, tmp_path: Path
) -> None:
    client = connect(f"{zookeeper}/{name}")
    try:
        assert stored_dists(client) == {}
        client.create(
            "/datas/task/1083/dist/smssdb",
            (GOLDEN / "binlog-to-kafka.json").read_bytes(),
            makepath=True,
        )
        client.create(
            "/datas/task/1084/dist/SMS",
            (GOLDEN / "kafka-to-mysql.json").read_bytes(),
            makepath=True,
        )
        client.create("/datas/task/1085/position/SMS", b"", makepath=True)
        assert [*stored_dists(client)] == [
            "/datas/task/1083/dist/smssdb",
            "/datas/task/1084/dist/SMS",
        ]
    finally:
        client.stop()
        client.close()
    result = CliRunner().invoke(
        main,
        ["lineage", "T_SMS_SEND", "--tasks", str(tmp_path), "--zookeeper", f"{zookeeper}/{name}"],
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split(" at ")[0].strip("└─ ") for line in result.stdout.splitlines()] == [
        "smssdb.t_sms_send",
        "topic SMS, written by task 1083",
        "task 1084",
        "sms.t_sms_send",
    ]
