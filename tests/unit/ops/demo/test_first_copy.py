"""What the demo says of what `cdcbus verify` has found."""

from rich.console import Console

from cdcbus.ops.demo.first_copy import Verified
from cdcbus.ops.demo.task_files import TARGETS

ORDERS = {
    "table": "shop.orders",
    "result": "equal",
    "sourceRows": 1200,
    "targetRows": 1200,
    "seconds": 0.25,
}
POSTGRESQL, MARIADB = TARGETS


def test_one_table_that_differs_is_enough() -> None:
    differing = {**ORDERS, "table": "shop.lines", "result": "different", "targetRows": 1199}
    verified = Verified({POSTGRESQL: [ORDERS], MARIADB: [ORDERS, differing]})
    assert not verified.is_equal
    assert verified.fields()["equal"] is False
    assert verified.fields()["targets"]["mysql"][1]["result"] == "different"
    console = Console(width=100, record=True)
    console.print(*verified.shown(), sep="\n")
    shown = console.export_text()
    assert "PostgreSQL is equal to the source" in shown
    assert "MariaDB is not equal to the source: shop.lines" in shown
    assert "1,199" in shown


def test_all_equal() -> None:
    assert Verified({POSTGRESQL: [ORDERS]}).is_equal
