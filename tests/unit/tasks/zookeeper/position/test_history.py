"""What commands make of positions: partition by partition, and no more of them than ZooKeeper
takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.positions import (
    KafkaPosition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.tasks.zookeeper.position.history import (
    HISTORY,
    HISTORY_BYTES,
    Change,
    changed,
    has_moved,
    histories,
    history_path,
    merged,
    positions_of,
    set_positions,
    undone,
    without,
)
from cdcbus.tasks.zookeeper.position.znodes import position_path
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

OFFSETS = st.dictionaries(st.integers(0, 4), st.integers(-1, 9), min_size=1)
BINLOG = '{"batchId":1,"logfileName":"mysql-bin.000501","offset":4}'


def text(offsets: dict[int, int]) -> str:
    return kafka_positions_to_json(
        KafkaPosition("t", partition, offset) for partition, offset in offsets.items()
    )


def offsets(of: str) -> dict[int, int]:
    return (
        {}
        if of == "[]"
        else {position.partition: position.offset for position in kafka_positions_from_json(of)}
    )


@given(OFFSETS, OFFSETS)
def test_an_edit_changes_the_partitions_that_it_names(
    stored: dict[int, int], edit: dict[int, int]
) -> None:
    assert offsets(merged(text(stored), text(edit))) == stored | edit
    assert offsets(merged(text(stored), text(edit), {1})) == stored | {
        p: o for p, o in edit.items() if p == 1
    }
    assert merged(None, text(edit)) == text(edit)
    assert merged(BINLOG, BINLOG) == BINLOG


@given(OFFSETS, OFFSETS)
def test_what_a_command_sets_is_taken_out_of_what_the_task_has_written(
    written: dict[int, int], edit: dict[int, int]
) -> None:
    assert offsets(without(text(written), text(edit))) == {
        p: o for p, o in written.items() if p not in edit
    }
    assert offsets(without(text(written), text(edit), {1})) == {
        p: o for p, o in written.items() if p != 1 or 1 not in edit
    }
    assert without(BINLOG, BINLOG) == BINLOG


@given(OFFSETS, OFFSETS, OFFSETS)
def test_an_undo_sets_back_what_the_change_had_changed_and_leaves_the_rest(
    before: dict[int, int], after: dict[int, int], now: dict[int, int]
) -> None:
    back, partitions = undone(Change("", "", "", text(before), text(after)), text(now))
    of = changed(text(before), text(after))
    assert partitions == of
    assert offsets(back) == {p: o for p, o in now.items() if p not in of} | {
        p: o for p, o in before.items() if p in of
    }


def test_an_unusable_position_is_replaced_as_a_whole() -> None:
    good = text({0: 4})
    for bad in ("4", good[:-1], good.replace("4", '"4"')):
        assert merged(bad, good) == good
        assert undone(Change("", "", "", text({0: 7}), good), bad) == (text({0: 7}), None)
        assert changed(bad, good) == {0}
        assert without(good, bad) == good
    other = kafka_positions_to_json([KafkaPosition("u", 0, 1), KafkaPosition("u", 1, 1)])
    assert merged(other, good) == good


def history_of(zookeeper: MemoryZooKeeper, positions: Iterable[str]) -> bytes:
    """The history of one swimlane whose positions are set one after another."""
    client: Any = zookeeper
    for position in positions:
        before = positions_of(client, "7").get("t")
        set_positions(client, "7", {"t": position}, {"t": before}, "me", "offset set")
    return zookeeper.nodes[history_path("7", "t")]


def test_a_history_is_bounded_by_bytes_and_the_newest_is_kept() -> None:
    zookeeper = MemoryZooKeeper()
    wide = [text(dict.fromkeys(range(150), 10**12 + number)) for number in range(60)]
    data = history_of(zookeeper, wide)
    kept = [change["after"] for change in orjson.loads(data)["changes"]]
    assert len(data) <= HISTORY_BYTES
    assert kept == wide[-len(kept) :]
    assert 1 < len(kept) < HISTORY
    # What was left out was set by command, too.
    assert not has_moved(data)
    data = history_of(zookeeper, ["y" * HISTORY_BYTES])
    assert len(orjson.loads(data)["changes"]) == 1


def test_a_history_of_short_positions_is_bounded_by_their_number() -> None:
    zookeeper = MemoryZooKeeper()
    data = history_of(zookeeper, map(str, range(HISTORY + 9)))
    kept = [change["after"] for change in orjson.loads(data)["changes"]]
    assert kept == [str(number) for number in range(9, HISTORY + 9)]
    assert not has_moved(data)
    zookeeper.put(position_path("7", "t"), "reached by the task")
    assert has_moved(history_of(zookeeper, map(str, range(HISTORY + 9))))


def test_a_history_tells_that_a_task_has_run_where_it_had_got_to_a_place_that_no_command_had_set() -> (
    None
):
    """By one that an earlier version has written."""

    def told(*changes: tuple[str | None, str]) -> bool:
        made = [Change("", "", "", before, after) for before, after in changes]
        return has_moved(orjson.dumps({"changes": [*map(asdict, made)]}))

    assert not told()
    assert not told((None, "a"), ("a", "b"), ("b", ""), ("", "c"), ("b", "a"))
    assert told(("a", "b"))
    assert told((None, "a"), ("b", "c"))
    assert has_moved(b"[]")


def test_what_only_a_newer_cdcbus_says_of_a_change_is_kept() -> None:
    zookeeper: Any = MemoryZooKeeper()
    zookeeper.put(position_path("7", "t"), text({0: 1}).encode())
    made = {"at": "a", "by": "b", "how": "h", "before": None, "after": "x", "ticket": 5}
    zookeeper.put(history_path("7", "t"), {"changes": [made]})
    [change] = histories(zookeeper, "7")["t"]
    assert (change.after, change.to_fields()) == ("x", made)
    set_positions(zookeeper, "7", {"t": text({0: 2})}, {"t": text({0: 1})}, "me", "offset set")
    kept = orjson.loads(zookeeper.nodes[history_path("7", "t")])["changes"]
    assert kept[0] == made
    assert [each["after"] for each in kept] == ["x", text({0: 2})]
