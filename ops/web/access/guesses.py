"""Slows down guesses of tokens: each client's, and those of all clients together.

After some wrong tokens a client has to wait, longer with each one, and tokens that it gives
meanwhile are not checked. All clients share one allowance, so that many addresses do not help; a
client that has given a right token before does not depend on it. Memory use is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

# People mistype tokens: this many wrong ones cost nothing.
FREE_GUESSES = 5
LONGEST_SECONDS = 60.0
# A client that has given no wrong token for this long starts again.
FORGET_SECONDS = 900.0
# Kept of each kind, so that many addresses cannot fill the memory.
CLIENTS = 1000
# Guesses of all unknown clients together; one per second is added again.
ALL_GUESSES = 100.0
_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class _Wrong:
    count: int
    at: float
    until: float


class Guesses:
    """The guesses of clients. Times are seconds of one clock. Thread-safe."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, _Wrong] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._left, self._at = ALL_GUESSES, 0.0
        self._lock = Lock()

    def wait_seconds(self, client: str, now: float) -> float:
        """How long the client has to wait before its token is checked; 0: not at all."""
        with self._lock:
            # First its own guesses: a client that once gave a right token waits for its wrong ones,
            # too.
            wrong = self._wrong.get(client)
            if wrong is not None and now < wrong.until:
                return wrong.until - now
            if client in self._known:
                return 0.0
            # Until the shared allowance has a whole guess again.
            return max(0.0, 1.0 - self._allowed(now))

    def note(self, client: str, is_right: bool, now: float) -> None:
        """Records a token that was checked. A right one forgives nothing: others may ask from the
        same address."""
        with self._lock:
            if is_right:
                _put(self._known, client, None)
                return
            self._left, self._at = self._allowed(now) - 1.0, now
            count = 1
            before = self._wrong.get(client)
            if before is not None and now - before.at <= FORGET_SECONDS:
                count += before.count
            until = now
            if count >= FREE_GUESSES:
                # The exponent is limited, as the count is not.
                until += min(LONGEST_SECONDS, 2.0 ** min(count - FREE_GUESSES, 10))
            _put(self._wrong, client, _Wrong(count, now, until))

    def _allowed(self, now: float) -> float:
        return min(ALL_GUESSES, self._left + max(0.0, now - self._at))


def _put(kept: OrderedDict[str, _Entry], client: str, entry: _Entry) -> None:
    """Keeps an entry as the newest of CLIENTS."""
    kept[client] = entry
    kept.move_to_end(client)
    if len(kept) > CLIENTS:
        kept.popitem(last=False)
