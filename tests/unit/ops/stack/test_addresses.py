import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cdcbus.ops.stack import addresses
from cdcbus.ops.stack.addresses import PORT_NAMES, Plan, free_port, is_free
from cdcbus.plugins.errors import ConfigError


def test_a_new_plan_has_a_port_of_its_own_for_each_server() -> None:
    plan = Plan.new()
    assert set(plan.ports) == set(PORT_NAMES)
    assert len(set(plan.ports.values())) == len(PORT_NAMES)


def test_ports_are_below_those_of_outgoing_connections() -> None:
    assert all(1024 < port < 32768 for port in Plan.new().ports.values())


def test_addresses_of_a_plan() -> None:
    plan = Plan({name: 1000 + number for number, name in enumerate(PORT_NAMES)}, "secret")
    found = plan.addresses()
    assert (found.zookeeper, found.kafka) == ("127.0.0.1:1000", "127.0.0.1:1001")
    assert (found.source.port, found.mariadb.port, found.postgresql.port) == (1003, 1004, 1005)
    assert found.source.password == "secret"


def test_no_password_where_something_is_printed() -> None:
    plan = Plan.new()
    assert plan.password not in repr(plan)
    assert plan.password not in repr(plan.addresses())


def test_a_plan_is_remembered_for_its_owner_only(tmp_path: Path) -> None:
    plan = Plan.new()
    addresses.save(tmp_path, plan)
    assert addresses.load(tmp_path) == plan
    assert addresses.plan_file(tmp_path).stat().st_mode & 0o777 == 0o600


def test_no_plan_yet(tmp_path: Path) -> None:
    assert addresses.load(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", '{"ports": {}, "password": "x"}', '{"password": "x"}'])
def test_a_damaged_plan_is_one_sentence(tmp_path: Path, text: str) -> None:
    addresses.plan_file(tmp_path).write_text(text)
    with pytest.raises(ConfigError, match=r"stack\.json is damaged"):
        addresses.load(tmp_path)


def test_a_port_somebody_listens_on_is_taken() -> None:
    plan = Plan.new()
    with socket.create_server(("127.0.0.1", plan.ports["kafka"])):
        assert not is_free(plan.ports["kafka"])
        assert plan.taken(PORT_NAMES) == ["kafka"]
    assert is_free(plan.ports["kafka"])


def test_another_port_changes_only_that_one() -> None:
    plan = Plan.new()
    changed = plan.with_new_port("source")
    assert changed.ports["source"] != plan.ports["source"]
    assert {**changed.ports, "source": 0} == {**plan.ports, "source": 0}


def test_no_free_port_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="no free port"):
        free_port(range(65536))


def test_a_plan_with_spark_has_ports_for_its_master_and_each_worker(tmp_path: Path) -> None:
    plan = Plan.new()
    assert (plan.workers, plan.spark, plan.addresses().spark) == (0, "", "")
    with_two = plan.with_spark(2)
    addresses.save(tmp_path, with_two)
    assert addresses.load(tmp_path) == with_two
    assert with_two.workers == 2
    assert with_two.addresses().spark == f"spark://127.0.0.1:{with_two.ports['spark-master']}"
    assert len({*with_two.ports.values()}) == len(with_two.ports) == len(PORT_NAMES) + 6


def test_another_number_of_workers_leaves_ports_as_they_are() -> None:
    one = Plan.new().with_spark(1)
    three = one.with_spark(3)
    assert one.ports.items() < three.ports.items()
    assert three.with_spark(1) == one
    assert {*three.with_spark(0).ports} == {*PORT_NAMES}


def test_no_two_processes_get_the_same_port() -> None:
    """Stacks that start at the same time: their servers listen seconds later."""
    port = free_port(())
    code = (
        "from cdcbus.ops.stack import addresses\n"
        f"addresses._PORTS = range({port}, {port} + 1)\n"
        "print(addresses.free_port(()))"
    )
    run = [sys.executable, "-c", code]
    other = subprocess.run(run, capture_output=True, text=True, check=False)
    assert "no free port" in other.stderr
    assert other.stdout == ""
