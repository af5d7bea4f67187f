"""Counters of tables: told in short, and added up in porter's nodes."""

from cdcbus.tasks.runtime.table_counts import porters_object
from cdcbus.tasks.zookeeper.stat import (
    TABLES_REPORTED,
    TableCounts,
    table_counts_from_json,
    table_counts_to_json,
)

ORDERS = TableCounts("shop", "shop.orders", 12, 7, 3, 1, 0, 1, 2)
# Metrics of all tasks would end at such a label or number.
DAMAGED: list[list[object]] = [
    [None, "shop.orders", *range(9)],
    ["shop", "shop.orders", *range(8), "x"],
    ["shop", "shop.orders", *range(8), True],
]


def test_what_is_told_is_read_again_and_damage_is_left_out() -> None:
    assert table_counts_from_json(
        [*table_counts_to_json([ORDERS]), ["too", "short"], 7, *DAMAGED]
    ) == (ORDERS,)
    assert table_counts_from_json({"not": "a list"}) == ()


def test_the_tables_with_most_rows_are_told() -> None:
    told = table_counts_from_json(
        table_counts_to_json(
            TableCounts("shop", f"t{number}", number) for number in range(TABLES_REPORTED + 5)
        )
    )
    assert (len(told), told[0].rows, told[-1].rows) == (TABLES_REPORTED, TABLES_REPORTED + 4, 5)


def test_porters_node_counts_on_over_restarts_of_the_task() -> None:
    first = porters_object(
        "7", "n1", {}, TableCounts("shop", "shop.orders"), ORDERS, "2026-05-01 00:00:00"
    )
    again = porters_object(
        "7", "n2", first, TableCounts("shop", "shop.orders"), ORDERS, "2026-05-01 00:01:00"
    )
    assert (
        first["insertRow"],
        again["insertRow"],
        again["updateRow"],
        again["deleteRow"],
        again["errorUpdateRow"],
    ) == (7, 14, 6, 2, 2)
    assert (again["schema"], again["table"], again["nodeId"]) == ("SHOP", "ORDERS", "n2")
    assert (again["registeredTime"], again["heartbeatTime"]) == (
        "2026-05-01 00:00:00",
        "2026-05-01 00:01:00",
    )
