"""The picture of lineage: everything once, nothing on top of another."""

from __future__ import annotations

from itertools import combinations

from cdcbus.ops.web.pages.lineage_graph import fitted, graph
from cdcbus.tasks.control.lineage import Way

SHOP = Way("shop.orders", "db:3306", "fetch", "shop", "load-a", "public.orders", "postgresql://a")
WAYS = [
    SHOP,
    Way("shop.orders", "db:3306", "fetch", "shop", "load-b", "orders", "mysql://b"),
    Way("shop.items", "db:3306", "fetch", "shop", "load-a", "public.items", "postgresql://a"),
    Way("stock.t", "db:3306", "fetch2", "stock"),
    Way("*.*", "", "", "foreign", "load-c", "x.t", "mysql://b"),
]


def test_every_thing_is_one_box_and_no_two_boxes_touch() -> None:
    drawn = graph(WAYS)
    names = [(box.kind, box.name) for box in drawn.boxes if not box.is_missing]
    assert sorted(names) == sorted(set(names))
    assert ("topic", "shop") in names and ("target", "public.items") in names
    for one, other in combinations(drawn.boxes, 2):
        is_beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert is_beside or abs(one.y - other.y) >= one.height
    assert all(
        box.x + box.width <= drawn.width and box.y + box.height <= drawn.height
        for box in drawn.boxes
    )


def test_what_nobody_is_known_for_is_a_dashed_box() -> None:
    missing = [(box.kind, box.under) for box in graph(WAYS).boxes if box.is_missing]
    assert missing == [
        ("task", "writer of foreign"),
        ("task", "reader of stock"),
        ("target", "of stock"),
    ]


def test_the_same_way_twice_draws_nothing_more() -> None:
    assert graph([SHOP, SHOP]) == graph([SHOP])
    assert len(graph([SHOP]).edges) == 4
    assert graph([]).boxes == []


def test_a_long_name_keeps_its_begin_and_end() -> None:
    assert fitted("abcdefghijklmnop", 60) == "abcd…nop"
    assert fitted("short", 60) == "short"
