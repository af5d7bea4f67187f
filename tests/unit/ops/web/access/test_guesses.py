"""Wrong tokens: who waits, for how long, and what is kept of it."""

from __future__ import annotations

from cdcbus.ops.web.access.guesses import (
    ALL_GUESSES,
    CLIENTS,
    FORGET_SECONDS,
    FREE_GUESSES,
    LONGEST_SECONDS,
    Guesses,
)


def wrong(guesses: Guesses, client: str, times: int, now: float) -> float:
    """The client gives wrong tokens; how long it has to wait then."""
    for _ in range(times):
        guesses.note(client, False, now)
    return guesses.wait_seconds(client, now)


def test_a_client_waits_longer_with_each_wrong_token_up_to_a_limit() -> None:
    guesses = Guesses()
    assert wrong(guesses, "a", FREE_GUESSES - 1, 0.0) == 0.0
    waits = [wrong(guesses, "a", 1, 0.0) for _ in range(8)]
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == LONGEST_SECONDS
    assert guesses.wait_seconds("b", 0.0) == 0.0


def test_time_forgives_and_a_right_token_does_not() -> None:
    guesses = Guesses()
    wrong(guesses, "a", FREE_GUESSES, 0.0)
    guesses.note("a", True, 2.0)
    assert wrong(guesses, "a", 1, 2.0) == 2.0
    assert wrong(guesses, "a", 1, 3.0 + FORGET_SECONDS) == 0.0


def test_many_clients_together_are_slowed_down_but_for_those_that_have_been_right() -> None:
    guesses = Guesses()
    guesses.note("prometheus", True, 0.0)
    for number in range(int(ALL_GUESSES)):
        assert guesses.wait_seconds(f"c{number}", 0.0) == 0.0
        guesses.note(f"c{number}", False, 0.0)
    assert guesses.wait_seconds("another", 0.0) == 1.0
    assert guesses.wait_seconds("prometheus", 0.0) == 0.0
    assert guesses.wait_seconds("another", 1.0) == 0.0


def test_what_is_kept_of_clients_is_bounded() -> None:
    guesses = Guesses()
    for number in range(3 * CLIENTS):
        guesses.note(f"w{number}", False, 0.0)
        guesses.note(f"r{number}", True, 0.0)
    assert (len(guesses._wrong), len(guesses._known)) == (CLIENTS, CLIENTS)
