"""What is kept of what has happened to a task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.task_status import State
from cdcbus.tasks.runtime.occurrences import (
    AGAIN_SECONDS,
    APPLIED,
    DDL,
    ERROR,
    KEPT_OF_A_KIND,
    KEPT_SECONDS,
    RETRYING,
    SENTENCE_CHARACTERS,
    Occurrence,
    Occurrences,
    failure,
    occurrences_path,
    with_occurrences,
)
from cdcbus.tasks.zookeeper.znode import get_node
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

AT = 1_795_281_300
KINDS = st.sampled_from((DDL, APPLIED, ERROR, RETRYING))
SOME = st.builds(Occurrence, st.integers(AT, AT + 100 * 86_400), KINDS, st.sampled_from("abcdefgh"))


@given(st.lists(st.lists(SOME, max_size=4), max_size=40))
def test_the_record_is_in_order_and_bounded_and_has_what_came_last(
    told: list[list[Occurrence]],
) -> None:
    kept: list[Occurrence] = []
    for each in told:
        kept = with_occurrences(kept, each)
    times = [each.at for each in kept]
    assert times == sorted(times)
    newest = max((each.at for each in kept), default=0)
    assert all(newest - each.at < KEPT_SECONDS for each in kept)


def test_a_flood_of_failures_pushes_out_no_definition() -> None:
    first = Occurrence(AT, DDL, "ALTER of shop.orders")
    failures = [Occurrence(AT + 61 * number, RETRYING, f"away {number}") for number in range(500)]
    kept = with_occurrences([first], failures)
    assert (kept[0], kept[1:]) == (first, failures[-KEPT_OF_A_KIND:])


def test_a_task_and_its_node_tell_of_one_failure_and_a_later_one_counts_again() -> None:
    told = [
        *failure(State.RETRYING, "Kafka is away; trying again in 0.5 s", AT),
        *failure(State.RETRYING, "Kafka is away; trying again in 2 s", AT + 1),
        *failure(State.ERROR, "Kafka is away", AT + AGAIN_SECONDS - 1),
        *failure(State.ERROR, "Kafka is away", AT + AGAIN_SECONDS),
        *failure(State.WORKING, "reads", AT),
        *failure(State.ERROR, "", AT),
    ]
    assert with_occurrences([], told) == [
        Occurrence(AT, RETRYING, "Kafka is away"),
        Occurrence(AT + AGAIN_SECONDS, ERROR, "Kafka is away"),
    ]


def test_a_definition_that_is_read_again_after_a_kill_is_one_and_a_table_emptied_twice_is_two() -> (
    None
):
    ddl = Occurrence(AT, DDL, "ALTER of shop.orders before bin.1:400")
    emptied = Occurrence(AT, APPLIED, "TRUNCATE of shop.orders")
    later = [Occurrence(AT + 3600, each.kind, each.sentence) for each in (ddl, emptied)]
    assert with_occurrences([ddl, emptied], later) == [ddl, emptied, later[1]]


def test_a_long_sentence_is_one_line_and_cut() -> None:
    [kept] = with_occurrences([], [Occurrence(AT, ERROR, "a\n" * 1000)])
    assert (len(kept.sentence), kept.sentence[:3], kept.sentence[-1]) == (
        SENTENCE_CHARACTERS,
        "a a",
        "…",
    )


def test_what_is_stored_comes_back_without_what_is_damaged() -> None:
    zookeeper = MemoryZooKeeper()
    occurrences = Occurrences(zookeeper)
    assert occurrences.read("7") == []
    one = Occurrence(AT, ERROR, "Kafka is away")
    occurrences.add("7", [one])
    assert occurrences.read("7") == [one]
    node = get_node(zookeeper, occurrences_path("7"))
    occurrences.add("7", [one])
    again = get_node(zookeeper, occurrences_path("7"))
    assert node is not None and again is not None and again.version == node.version
    zookeeper.put(
        occurrences_path("7"), '{"occurrences":[[1,"ddl","x"],[true,"ddl","x"],["x"],7,[1,2,"x"]]}'
    )
    assert occurrences.read("7") == [Occurrence(1, DDL, "x")]
