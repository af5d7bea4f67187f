"""What every PositionStore promises. Mix it into a test class that provides `node`."""

import time
from collections.abc import Callable
from typing import Protocol

import pytest

from cdcbus.plugins.contracts import Mark, PositionStore, SentLog, Written
from cdcbus.plugins.errors import PositionConflict


class SharedNode(Protocol):
    """One node: stores that look at it, and an operator's hand that is not one of them."""

    def store(self) -> PositionStore: ...

    def set(self, text: str) -> None: ...

    def delete(self) -> None: ...

    def text(self) -> str: ...


def eventually(is_so: Callable[[], bool], within_seconds: float = 60.0) -> bool:
    """Whether it becomes so in time: a watch tells a moment later."""
    deadline = time.monotonic() + within_seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    return is_so()


class PositionStoreContract:
    def test_an_absent_node_is_none(self, node: SharedNode) -> None:
        store = node.store()
        assert store.load() is None
        assert store.position_version == 0
        assert not store.is_edited()

    @pytest.mark.parametrize("blank", ["", "  \n"])
    def test_a_blank_node_is_none_and_can_be_saved_to(self, node: SharedNode, blank: str) -> None:
        node.set(blank)
        store = node.store()
        assert store.load() is None
        store.save("first")
        assert node.text() == "first"

    def test_what_is_saved_is_loaded_by_the_next_store(self, node: SharedNode) -> None:
        store = node.store()
        store.load()
        store.save("first")
        store.save("zweite Ü \N{GRINNING FACE}")
        assert node.store().load() == "zweite Ü \N{GRINNING FACE}"

    def test_each_save_has_a_new_change_number_that_the_next_store_sees(
        self, node: SharedNode
    ) -> None:
        store = node.store()
        store.load()
        numbers = []
        for text in ("a", "b", "b"):
            store.save(text)
            numbers.append(store.position_version)
        assert sorted(set(numbers)) == numbers
        after = node.store()
        after.load()
        assert after.position_version == store.position_version

    def test_an_edit_wins_over_a_save(self, node: SharedNode) -> None:
        store = node.store()
        store.load()
        store.save("ours")
        node.set("edited")
        with pytest.raises(PositionConflict, match="position"):
            store.save("ours again")
        assert node.text() == "edited"

    def test_a_conflict_lasts_until_the_edit_is_loaded(self, node: SharedNode) -> None:
        store = node.store()
        store.load()
        node.set("edited")
        for _ in range(2):
            with pytest.raises(PositionConflict):
                store.save("ours")
        assert store.load() == "edited"
        store.save("ours")
        assert node.text() == "ours"

    def test_a_node_made_by_somebody_else_is_a_conflict(self, node: SharedNode) -> None:
        store = node.store()
        assert store.load() is None
        node.set("edited")
        with pytest.raises(PositionConflict):
            store.save("ours")

    def test_a_deleted_node_is_a_conflict_then_none(self, node: SharedNode) -> None:
        store = node.store()
        store.load()
        store.save("ours")
        node.delete()
        with pytest.raises(PositionConflict):
            store.save("ours again")
        assert store.load() is None
        store.save("anew")
        assert node.text() == "anew"

    def test_of_two_stores_the_second_to_save_conflicts(self, node: SharedNode) -> None:
        first, second = node.store(), node.store()
        first.load()
        second.load()
        first.save("first")
        with pytest.raises(PositionConflict):
            second.save("second")

    def test_edits_are_told_without_asking(self, node: SharedNode) -> None:
        store = node.store()
        store.load()
        store.save("ours")
        assert not store.is_edited()
        node.set("edited")
        assert eventually(store.is_edited)
        store.load()
        assert not store.is_edited()
        node.delete()
        assert eventually(store.is_edited)

    def test_a_node_made_while_watching_is_an_edit(self, node: SharedNode) -> None:
        store = node.store()
        store.load()
        node.set("edited")
        assert eventually(store.is_edited)

    def test_own_saves_are_no_edits(self, node: SharedNode) -> None:
        store = node.store()
        store.load()
        for number in range(50):
            store.save(str(number))
            assert not store.is_edited()
        assert not eventually(store.is_edited, within_seconds=0.3)

    def test_a_save_survives_an_edit_to_the_same_text(self, node: SharedNode) -> None:
        store = node.store()
        store.load()
        store.save("same")
        node.set("same")
        with pytest.raises(PositionConflict):
            store.save("next")

    def test_what_the_task_has_written_is_told_from_what_somebody_has_set(
        self, node: SharedNode
    ) -> None:
        store = node.store()
        store.load()
        assert (store.written, store.is_own, store.trace) == (None, False, "")
        store.save("ours", Mark(True, "id"))
        after = node.store()
        assert after.load() == "ours"
        assert (after.written, after.is_own) == (Written("ours", Mark(True, "id")), True)
        for text in ("theirs", "ours"):  # also the same
            node.set(text)
            assert after.load() == text
            assert (after.written, after.is_own) == (Written("ours", Mark(True, "id")), False)
        store = node.store()
        store.load()
        store.save(
            "ours",
            mark := Mark(
                topic_id="id",
                is_committed=False,
                target="kafka",
                rules={"a[i]": "1f"},
                sent={"shop": SentLog("id", 7), "old": SentLog("", 1)},
            ),
        )
        after.load()
        assert after.written == Written("ours", mark)
        after.save("taken over")
        assert (node.store().load(), after.is_own, after.written) == (
            "taken over",
            True,
            after.written,
        )

    def test_a_node_that_is_gone_leaves_a_trace_of_a_task_that_has_run(
        self, node: SharedNode
    ) -> None:
        store = node.store()
        store.load()
        store.save("ours")
        node.delete()
        after = node.store()
        assert after.load() is None
        assert after.trace
        after.save("again")
        assert (node.text(), after.is_own) == ("again", True)
