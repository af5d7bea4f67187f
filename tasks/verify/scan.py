"""The first look at a table: finds the keys whose rows may differ, chunk by chunk.

A chunk is compared by checksums where both sides have the same SQL text for the columns, and row by
row where checksums differ or there are none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from threading import Thread
from typing import Final, TypeVar

from cdcbus.tasks.verify.report import TableReport
from cdcbus.tasks.verify.row_numbers import Key, is_between, numbered, surplus_in
from cdcbus.tasks.verify.sides import SourceSide, TargetSide
from cdcbus.tasks.verify.sql.checksums import BUCKETS, Sums
from cdcbus.tasks.verify.sql.keys import EVERYTHING
from cdcbus.tasks.verify.sql.pairs import Pair
from cdcbus.tasks.verify.subject import Cells, Subject, Way

CHUNK_ROWS: Final = 20_000
CHUNK_BYTES: Final = 4 << 20
"""Servers hold the texts of a chunk's rows in memory, limited by the packet size, often 16 MB."""
# Rows of a chunk even where they are very large: each chunk costs some requests.
LEAST_ROWS: Final = 500
# After this many, asking for digests costs more than it saves.
MOST_UNPROVED: Final = 3
ROWS_AT_ONCE: Final = 200_000
"""The number of rows in buckets that are read together."""
KEYS_IN_MEMORY: Final = 500_000

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Scan:
    """One pass over a table. `report`: receives the numbers of chunks. `count`: called with the
    numbers of rows of both sides that are done, after each chunk. `is_of_others`: whether a key can
    belong to another task, by the source's sum of its rows minus the target's. `most`: of the keys
    that only the target has, how many one chunk may have, so that they fit into memory: with one
    more the rest of it is not compared. `sample`: the share of chunks to compare."""

    subject: Subject
    sources: Sequence[SourceSide]
    target: TargetSide
    report: TableReport
    count: Callable[[int, int], None]
    is_of_others: Callable[[int], bool]
    most: int
    sample: float = 1.0
    _unproved: int = 0
    """The number of successive chunks whose digests differed although their sums did not: one side
    reads its rows in another order, or they are too long."""

    def suspects(self) -> Iterator[set[Key]]:
        """The keys whose rows differ, chunk by chunk. Some may only have been in flight."""
        match self.subject.way:
            case Way.RANGES:
                yield from self._in_ranges()
            case Way.BUCKETS:
                yield from self._in_buckets()
            case Way.STREAM:
                yield from self._in_streams()

    def _in_ranges(self) -> Iterator[set[Key]]:
        """Compares ranges from the first key to the last, including rows beyond either end."""
        choose = random.Random()
        most = self._chunk_rows()
        last: Cells | None = None
        known: list[Cells | None] = []  # the next range's end, if it was found ahead
        spare: tuple[Cells | None, Cells | None] = None, None

        def look_ahead() -> None:
            if last is not None:
                known.append(self._next_bound(last, most))

        is_end = False
        while not is_end:
            bound = known.pop() if known else self._next_bound(last, most)
            is_end = bound is None
            lower, last = last, bound
            # Skipped after its bound is known, which the next range begins from.
            if choose.random() >= self.sample:
                self.report.chunks_skipped += 1
                if not choose.randrange(self.report.chunks_skipped):
                    spare = lower, bound
                continue
            yield self._range(lower, bound, most, look_ahead)
        if not self.report.chunks:  # nothing compared would be called equal
            self.report.chunks_skipped -= 1
            yield self._range(*spare, most)

    def _next_bound(self, last: Cells | None, rows: int) -> Cells | None:
        """The end of the range after `last`; None where no source has that many rows left. Any
        bound of any source will do."""
        for side in self.sources:
            bound = side.bound(last, rows)
            if bound is not None:
                return bound
        return None

    def _chunk_rows(self) -> int:
        longest = max(side.row_bytes() for side in self.sources)
        # Statistics of a table that was nearly empty until recently are far too high.
        return min(CHUNK_ROWS, max(LEAST_ROWS, CHUNK_BYTES // max(1, longest)))

    def _range(
        self,
        lower: Cells | None,
        upper: Cells | None,
        rows: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> set[Key]:
        """The suspect keys in a range. `rows`: about how many rows it has. `meanwhile`: what the
        source can do while the target is at work."""

        def where(side: SourceSide | TargetSide) -> str:
            parts = []
            if lower is not None:
                parts.append(side.beyond(lower))
            if upper is not None:
                parts.append(side.up_to(upper))
            return " AND ".join(parts) or EVERYTHING

        self.report.chunks += 1
        if (pairs := self.subject.sources[0].pairs) is not None:
            # Twice the rows, as the target may have more of them in the range.
            if self._is_proved(pairs, where, 2 * rows, meanwhile):
                return set()
            asked = _beside(lambda: self.target.sums(pairs, where(self.target)))
            own = Sums()
            for side in self.sources:
                own += side.sums(side.table.pairs or (), where(side))
            theirs = asked.result()
            if own.is_equal(theirs):
                # Equal sums after different digests: the digests were in vain for this chunk.
                self._unproved += 1
                self.count(own.rows, theirs.rows)
                return set()
        found = self._rows(
            [side.rows(where(side)) for side in self.sources], self.target.rows(where(self.target))
        )
        self.report.chunks_different += bool(found)
        return found

    def _is_proved(
        self,
        pairs: Sequence[Pair],
        where: Callable[[SourceSide | TargetSide], str],
        most: int,
        meanwhile: Callable[[], None],
    ) -> bool:
        """Whether one hash of all rows proves that both sides have the same, which takes a third
        less time than sums of one hash per row. Not for several sources, whose rows have no common
        order."""
        if len(self.sources) > 1 or self._unproved >= MOST_UNPROVED:
            return False
        [side] = self.sources
        asked = _beside(lambda: self.target.digest(pairs, where(self.target), most))
        own = side.digest(side.table.pairs or (), where(side), most)
        meanwhile()
        theirs = asked.result()
        if not own.is_equal(theirs):
            return False
        self._unproved = 0
        self.count(own.rows, theirs.rows)
        return True

    def _in_buckets(self) -> Iterator[set[Key]]:
        chosen = self._sampled_buckets()
        yield from self._of_buckets(chosen)
        if chosen is not None and self._is_nothing_compared():
            yield from self._of_buckets(None)

    def _of_buckets(self, chosen: Sequence[int] | None) -> Iterator[set[Key]]:
        """The suspect keys of these buckets; None: of all."""

        def where(side: SourceSide | TargetSide) -> str:
            if chosen is None:
                return EVERYTHING
            return side.in_buckets(chosen)

        first = self.subject.sources[0]
        pairs, key = first.pairs or (), first.key_pairs or ()
        asked = _beside(lambda: dict(self.target.bucket_sums(pairs, key, where(self.target))))
        own: dict[int, Sums] = {}
        for side in self.sources:
            terms = side.table.pairs or (), side.table.key_pairs or ()
            for bucket, sums in side.bucket_sums(*terms, where(side)):
                own[bucket] = own.get(bucket, Sums()) + sums
        theirs = asked.result()
        self.report.chunks += len(own.keys() | theirs.keys())
        # Buckets have no index: each read scans the table, so different ones are read together.
        group: list[int] = []
        rows = 0
        for bucket in sorted(own.keys() | theirs.keys()):
            left, right = own.get(bucket, Sums()), theirs.get(bucket, Sums())
            if left.is_equal(right):
                self.count(left.rows, right.rows)
                continue
            group.append(bucket)
            rows += left.rows + right.rows
            if rows >= ROWS_AT_ONCE:
                yield self._bucket_rows(group)
                group, rows = [], 0
        if group:
            yield self._bucket_rows(group)

    def _sampled_buckets(self) -> list[int] | None:
        if self.sample >= 1:
            return None
        choose = random.Random()
        count = max(1, round(BUCKETS * self.sample))
        self.report.chunks_skipped = BUCKETS - count
        return choose.sample(range(BUCKETS), count)

    def _bucket_rows(self, buckets: Sequence[int]) -> set[Key]:
        found = self._rows(
            [side.rows(side.in_buckets(buckets)) for side in self.sources],
            self.target.rows(self.target.in_buckets(buckets)),
        )
        self.report.chunks_different += len(buckets)
        return found

    def _in_streams(self) -> Iterator[set[Key]]:
        """Compares all rows, in as many passes as needed for their keys to fit into memory. A
        sample is one of keys, those that follow a random one by their hashes."""
        yield from self._parts(self.sample)
        if self.sample < 1 and self._is_nothing_compared():
            yield from self._parts(1.0)

    def _is_nothing_compared(self) -> bool:
        """Whether the sample has no row, as of a small table, which would be called equal. Then
        nothing counts as done."""
        if self.report.source_rows or self.report.target_rows:
            return False
        self.report.chunks = self.report.chunks_skipped = 0
        return True

    def _parts(self, share: float) -> Iterator[set[Key]]:
        estimate = sum(side.estimate() for side in self.sources)
        # Each pass reads both tables whole and keeps one part of the keys.
        parts = int(estimate * share) // KEYS_IN_MEMORY + 1
        first = 0.0
        if share < 1:
            first = random.random()
            # In parts of that size.
            self.report.chunks_skipped = max(1, round(parts / share) - parts)
        for part in range(parts):
            self.report.chunks += 1
            low, high = first + share * part / parts, first + share * (part + 1) / parts
            is_whole = low == 0 and high == 1
            is_part = None if is_whole else is_between(low, high)
            found = self._rows([side.rows() for side in self.sources], self.target.rows(), is_part)
            self.report.chunks_different += bool(found)
            yield found

    def _rows(
        self,
        sources: Sequence[Iterable[Cells]],
        target: Generator[Cells, None, None],
        is_part: Callable[[Key], bool] | None = None,
    ) -> set[Key]:
        """The keys whose rows differ between the two sides. Where more than `most` are the target's
        alone, only such ones: then it was not compared to its end."""
        left: dict[Key, int] = {}
        own = 0
        places = self.subject.key
        for side, rows in zip(self.sources, sources, strict=True):
            expect = side.table.expect
            for row in rows:
                for cells in expect(row):
                    key, number = numbered(cells, places)
                    if is_part is None or is_part(key):
                        own += 1
                        left[key] = left.get(key, 0) + number
        # Closed at once where it is left before its end, as its connection is needed. MySQL and
        # MariaDB send the rest even so, and the driver drops it, row by row.
        with closing(target):
            theirs, is_whole = self._subtract(left, target, is_part)
        self.count(own, theirs)
        if not is_whole:
            return {key for key, number in left.items() if surplus_in(number)}
        return {key for key, number in left.items() if not self.is_of_others(number)}

    def _subtract(
        self,
        left: dict[Key, int],
        target: Iterable[Cells],
        is_part: Callable[[Key], bool] | None,
    ) -> tuple[int, bool]:
        """Subtracts the target's rows from `left`, the source's. Returns how many these are, and
        False where more than `most` keys are the target's alone, after which it takes no more."""
        places = self.subject.key
        theirs = extra = 0
        for cells in target:
            key, number = numbered(cells, places)
            if is_part is not None and not is_part(key):
                continue
            theirs += 1
            known = left.get(key)
            if known is None:
                # The target may have any number of such rows, so others' are not kept.
                if self.is_of_others(-number):
                    continue
                left[key] = -number
                extra += 1
                if extra > self.most:
                    return theirs, False
            # Equal rows cancel out, so that only differing keys stay in memory.
            elif rest := known - number:
                left[key] = rest
            else:
                del left[key]
        return theirs, True


def _beside(ask: Callable[[], Answer]) -> Future[Answer]:
    """Asks the target while the source is working; one request at a time."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        # `result` raises it on the thread that waits, which would otherwise wait forever.
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
