"""The picture of lineage: everything once, nothing on top of another."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from cdcbus.ops.web.pages.lineage_graph import TaskState, fitted, graph, text_width
from cdcbus.tasks.lineage.ways import Way

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
    assert graph([]).boxes == ()


ONWARD = replace(
    SHOP,
    load_task="forward",
    target="shop.orders",
    database="topic mid at k:9092",
    onward=Way("shop.orders", "", "forward", "mid", "load-z", "z.orders", "mysql://z"),
)


def test_a_way_through_two_topics_is_one_way_to_its_last_target() -> None:
    drawn = graph([ONWARD, SHOP])
    names = [box.name for box in sorted(drawn.boxes, key=lambda box: (box.x, box.y))]
    assert names.count("forward") == 1 == names.count("shop")
    assert "topic mid at k:9092" not in [box.under for box in drawn.boxes]
    texts = [heading.text for heading in drawn.headings]
    assert texts == [
        "Source",
        "Fetch task",
        "Topic",
        "Consumer task",
        "Topic",
        "Consumer task",
        "Target",
    ]
    # Both targets are in the last column, and the shorter way goes past two columns to it.
    assert len({box.x for box in drawn.boxes if box.kind == "target"}) == 1
    assert sum("H" in edge.path for edge in drawn.edges) == 2
    for one, other in combinations(drawn.boxes, 2):
        is_beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert is_beside or abs(one.y - other.y) >= one.height


def test_a_way_that_comes_back_to_a_topic_ends_there() -> None:
    ring = Way("shop.orders", "", "forward", "mid", "back", "shop.orders", "topic shop")
    ring = replace(ring, onward=Way("shop.orders", "", "back", "shop", "forward", "x", "y"))
    drawn = graph([replace(ONWARD, onward=ring)])
    assert [box.name for box in drawn.boxes].count("shop") == 1
    assert [box.kind for box in drawn.boxes].count("target") == 0


def test_the_lines_at_a_task_have_the_colour_of_its_lag() -> None:
    drawn = graph([SHOP], {"load-a": TaskState("WORKING, lag 2 h", "bad")})
    assert [edge.level for edge in drawn.edges] == ["", "", "bad", "bad"]
    box = next(box for box in drawn.boxes if box.name == "load-a")
    assert (box.level, box.under) == ("bad", "WORKING, lag 2 h")


@pytest.mark.parametrize("name", ["ORDER_CENTER_WAREHOUSE.T_SETTLEMENT_DETAIL_HISTORY", "W" * 80])
def test_long_names_in_upper_case_stay_in_their_boxes(name: str) -> None:
    for box in graph([replace(SHOP, source=name, target=name, load_task=name)]).boxes:
        assert text_width(box.name) <= box.width - 20
        if box.whole == name:
            assert (box.name[0], box.name[-1]) == (name[0], name[-1])


def test_a_long_name_keeps_its_begin_and_end() -> None:
    assert fitted("abcdefghijklmnop", 60) == "abc…nop"
    assert fitted("short", 60) == "short"
