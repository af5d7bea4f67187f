"""Letters of one row, and looks at targets that others hold up."""

from __future__ import annotations

from threading import Event

import pytest

from cdcbus.consumer.records.dead_letters import DeadLetter, OpenDeadLetter
from cdcbus.ops.services import target_rows as looks
from cdcbus.ops.web.records.letter_row import of_same_row
from cdcbus.plugins.errors import TargetUnavailable
from tests.support.processes.no_threads import without_threads


def letter(offset: int, key: bytes | None, partition: int = 0) -> OpenDeadLetter:
    return OpenDeadLetter(DeadLetter("t", partition, offset, "x"), "", key, b"", [], offset)


def test_letters_of_one_row_have_its_key_in_its_partition() -> None:
    letters = [letter(1, b"a"), letter(2, b"a"), letter(3, b"b"), letter(4, b"a", 1)]
    assert of_same_row(letters, letters[1]) == letters[:2]
    alone = [letter(1, None), letter(2, None)]
    assert of_same_row(alone, alone[1]) == [alone[1]]


def test_a_look_that_hangs_is_given_up_and_holds_a_place_until_it_ends() -> None:
    """All places: what comes then is refused at once, and served again once they are free."""
    held = Event()

    def hang() -> list[looks.TargetRow]:
        held.wait(60)
        return []

    for _ in range(looks.LOOKS_AT_ONCE):
        with pytest.raises(TargetUnavailable, match="has not answered within"):
            looks.within(0.01, hang)
    with pytest.raises(TargetUnavailable, match="others are looking"):
        looks.within(60, hang)
    held.set()
    found = None
    while found is None:
        try:
            found = looks.within(60, lambda: [looks.TargetRow("t", "INSERT")])
        except TargetUnavailable:
            continue
    assert found == [looks.TargetRow("t", "INSERT")]


def test_what_a_look_raises_is_raised() -> None:
    def fail() -> list[looks.TargetRow]:
        raise TargetUnavailable("away")

    with pytest.raises(TargetUnavailable, match="away"):
        looks.within(60, fail)


def test_looks_that_no_thread_could_be_started_for_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as full:
        without_threads(full, "target-row")
        for _ in range(looks.LOOKS_AT_ONCE):
            with pytest.raises(TargetUnavailable, match="may start no more threads"):
                looks.within(60, list)
    assert looks.within(60, list) == []
