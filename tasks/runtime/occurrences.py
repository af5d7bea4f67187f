"""Events in a task's life that belong on its charts: each failure, and each DDL of its tables that
was published or applied.

/datas/task/<id>/occurrences   {"occurrences":[[1795281300,"ddl","ALTER of shop.orders"],...]}:
                               oldest first; the elements are the fields of `Occurrence`
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import starmap
from typing import Any, Final

from kazoo.client import KazooClient

from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.tasks import without_pause
from cdcbus.tasks.zookeeper.znode import get_node, put_node

# Per kind, so that failures never push out DDL.
KEPT_OF_A_KIND: Final = 100
KEPT_SECONDS: Final = 30 * 86_400
# A failure repeated within this time is the same one.
AGAIN_SECONDS: Final = 60
SENTENCE_CHARACTERS: Final = 300
DDL: Final = "ddl"
APPLIED: Final = "applied"
ERROR: Final = "error"
RETRYING: Final = "retrying"
FAILURES: Final = {State.ERROR: ERROR, State.RETRYING: RETRYING}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event. `at`: epoch seconds. `kind`: DDL, read from a binlog; APPLIED, to a target; ERROR
    or RETRYING. `sentence`: without cell values."""

    at: int
    kind: str
    sentence: str


class Occurrences:
    """The stored occurrences of tasks. Usable while its client is. Calls raise PositionUnavailable
    and PositionError."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def read(self, task_id: str) -> list[Occurrence]:
        """The occurrences of a task, oldest first, without damaged ones."""
        node = get_node(self._client, occurrences_path(task_id))
        if node is None:
            return []
        stored = node.fields.get("occurrences")
        if not isinstance(stored, list):
            return []
        return list(starmap(Occurrence, filter(_is_occurrence, stored)))

    def add(self, task_id: str, new: Sequence[Occurrence]) -> None:
        """Adds occurrences, and writes only if something is new. Of two concurrent calls one may
        be lost: occurrences are for charts, and the log has everything."""
        known = self.read(task_id)
        kept = with_occurrences(known, new)
        if kept != known:
            rows = list(map(astuple, kept))
            put_node(self._client, occurrences_path(task_id), {"occurrences": rows})


def failure(state: State, reason: str, at: float | None = None) -> list[Occurrence]:
    """The occurrence of a failed state; an empty list for any other state."""
    kind = FAILURES.get(state)
    if not kind or not reason:
        return []
    if at is None:
        at = time.time()
    return [Occurrence(int(at), kind, without_pause(reason))]


def with_occurrences(known: Sequence[Occurrence], new: Iterable[Occurrence]) -> list[Occurrence]:
    """The known occurrences and the new ones, in order and bounded. Leaves out recent repetitions,
    and DDL that is already known, as a killed task rereads its binlog."""
    kept = list(known)
    for each in new:
        # One line for a chart's label.
        sentence = " ".join(each.sentence.split())
        if len(sentence) > SENTENCE_CHARACTERS:
            sentence = f"{sentence[: SENTENCE_CHARACTERS - 1]}…"
        each = Occurrence(each.at, each.kind, sentence)
        if not any(_is_again(before, each) for before in kept):
            kept.append(each)
    kept.sort(key=lambda each: each.at)
    return _bounded(kept)


def _bounded(occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    """Without expired ones, and without the oldest of a kind that has too many. `occurrences`:
    oldest first."""
    kept: list[Occurrence] = []
    counts = Counter[str]()
    # From the newest on, as the oldest are left out.
    for each in reversed(occurrences):
        counts[each.kind] += 1
        is_recent = each.at > occurrences[-1].at - KEPT_SECONDS
        if is_recent and counts[each.kind] <= KEPT_OF_A_KIND:
            kept.append(each)
    kept.reverse()
    return kept


def occurrences_path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/occurrences"


def _is_again(before: Occurrence, each: Occurrence) -> bool:
    if before.sentence != each.sentence:
        return False
    # A task and its node both report a failure, perhaps with different states.
    return each.kind == before.kind == DDL or abs(each.at - before.at) < AGAIN_SECONDS


def _is_occurrence(row: Any) -> bool:
    # `type` and not `isinstance`, as a bool would pass for an int.
    return isinstance(row, list) and list(map(type, row)) == [int, str, str]
