"""Compares one table: chunk by chunk, then row by row, then repeatedly until all differences are
certain.

Rows are summed by key: each row becomes a number made from its digest, which is added for a row of
the source and subtracted for a row of the target. A key whose sum is not zero differs. This also
works for several rows with one key, and for rows without a key, whose digest serves as the key.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from threading import Thread
from typing import Final, TypeVar

from cdcbus.plugins.rowchange import Cell
from cdcbus.tasks.verify.lag import Lag, Moment
from cdcbus.tasks.verify.report import EXAMPLES, Example, Kind, TableReport
from cdcbus.tasks.verify.sides import EVERYTHING, SourceSide, TargetSide
from cdcbus.tasks.verify.sql.checksums import BUCKETS, Sums
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
MOST_SUSPECTS: Final = 100_000
"""The number of suspect keys of a table after which its comparison is cut short."""
KEYS_AT_ONCE: Final = 500
# Between two looks whether the task has caught up.
LOOK_SECONDS: Final = 0.3
ONE: Final = 1 << 160
"""The bits above a digest count rows."""

Key = tuple[Cell, ...] | bytes
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Options:
    """`sample`: the share of chunks to compare. `patience`: how many seconds differing rows are
    compared again. `throttle`: the maximum number of source rows per second, 0: no limit.
    `shows_values`: whether examples hold cell values."""

    sample: float = 1.0
    patience: float = 60.0
    throttle: int = 0
    shows_values: bool = False


@dataclass(slots=True)
class Comparison:
    """The comparison of one table. `told` is called with the number of source rows done so far.
    `others`: the other tasks that may write to the target table, whose rows are not known from
    extra ones."""

    subject: Subject
    sources: Sequence[SourceSide]
    target: TargetSide
    lag: Lag
    options: Options
    told: Callable[[int], None] = lambda rows: None
    others: Sequence[str] = ()
    report: TableReport = field(init=False)
    different: dict[Key, Kind] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _unproved: int = 0
    """The number of successive chunks whose digests differed although their sums did not: one side
    reads its rows in another order, or they are too long."""

    def __post_init__(self) -> None:
        self.report = TableReport(
            self.subject.name,
            [str(each.mapped.source.id) for each in self.subject.sources],
            str(self.subject.way),
            left_out=self.subject.left_out,
            others=tuple(self.others),
        )

    def run(self) -> TableReport:
        self._compare()
        if self.report.is_cut and not (self.report.differences or self.report.behind):
            # All these rows were only in flight, so the rest can be read now.
            self.__post_init__()
            self._compare()
        self.report.seconds = time.monotonic() - self._began
        return self.report

    def _compare(self) -> None:
        self.report.is_partial = self.lag.is_partial
        suspects: set[Key] = set()
        for found in self._suspects():
            suspects |= found
            # Suspects are looked up by key, again and again, so their number is bounded.
            if len(suspects) > MOST_SUSPECTS:
                suspects = set(islice(suspects, MOST_SUSPECTS))
                self.report.is_cut = True
                break
        self._settle(suspects)

    # chunks

    def _beside(self, ask: Callable[[], Answer]) -> Future[Answer]:
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

    def _suspects(self) -> Iterator[set[Key]]:
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
        spare: tuple[Cells | None, Cells | None] = None, None
        is_end = False
        while not is_end:
            bound = self._next_bound(last, most)
            is_end = bound is None
            lower, last = last, bound
            # Skipped after its bound is known, which the next range begins from.
            if choose.random() >= self.options.sample:
                self.report.chunks_skipped += 1
                if not choose.randrange(self.report.chunks_skipped):
                    spare = lower, bound
                continue
            yield self._range(lower, bound, most)
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

    def _range(self, lower: Cells | None, upper: Cells | None, rows: int) -> set[Key]:
        """The suspect keys in a range. `rows`: about how many rows it has."""

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
            if self._is_proved(pairs, where, 2 * rows):
                return set()
            asked = self._beside(lambda: self.target.sums(pairs, where(self.target)))
            own = Sums()
            for side in self.sources:
                own += side.sums(side.table.pairs or (), where(side))
            theirs = asked.result()
            if own.is_equal(theirs):
                # Equal sums after different digests: the digests were in vain for this chunk.
                self._unproved += 1
                self._count(own.rows, theirs.rows)
                return set()
        found = self._rows(
            [side.rows(where(side)) for side in self.sources], self.target.rows(where(self.target))
        )
        self.report.chunks_different += bool(found)
        return found

    def _is_proved(
        self, pairs: Sequence[Pair], where: Callable[[SourceSide | TargetSide], str], most: int
    ) -> bool:
        """Whether one hash of all rows proves that both sides have the same, which takes a third
        less time than sums of one hash per row. Not for several sources, whose rows have no common
        order."""
        if len(self.sources) > 1 or self._unproved >= MOST_UNPROVED:
            return False
        [side] = self.sources
        asked = self._beside(lambda: self.target.digest(pairs, where(self.target), most))
        own = side.digest(side.table.pairs or (), where(side), most)
        theirs = asked.result()
        if not own.is_equal(theirs):
            return False
        self._unproved = 0
        self._count(own.rows, theirs.rows)
        return True

    def _in_buckets(self) -> Iterator[set[Key]]:
        chosen = self._sampled_buckets()

        def where(side: SourceSide | TargetSide) -> str:
            if chosen is None:
                return EVERYTHING
            return side.in_buckets(chosen)

        first = self.subject.sources[0]
        pairs, key = first.pairs or (), first.key_pairs or ()
        asked = self._beside(lambda: dict(self.target.bucket_sums(pairs, key, where(self.target))))
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
                self._count(left.rows, right.rows)
                continue
            group.append(bucket)
            rows += left.rows + right.rows
            if rows >= ROWS_AT_ONCE:
                yield self._bucket_rows(group)
                group, rows = [], 0
        if group:
            yield self._bucket_rows(group)

    def _sampled_buckets(self) -> list[int] | None:
        if self.options.sample >= 1:
            return None
        choose = random.Random()
        count = max(1, round(BUCKETS * self.options.sample))
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
        sample is one of keys."""
        estimate = sum(side.estimate() for side in self.sources)
        share = self.options.sample
        # Each pass reads both tables whole and keeps one part of the keys.
        parts = int(estimate * share) // KEYS_IN_MEMORY + 1
        for part in range(parts):
            self.report.chunks += 1
            low, high = share * part / parts, share * (part + 1) / parts
            is_whole = low == 0 and high == 1
            is_part = None if is_whole else _between(low, high)
            found = self._rows([side.rows() for side in self.sources], self.target.rows(), is_part)
            self.report.chunks_different += bool(found)
            yield found

    # rows

    def _rows(
        self,
        sources: Sequence[Iterable[Cells]],
        target: Iterable[Cells],
        is_part: Callable[[Key], bool] | None = None,
    ) -> set[Key]:
        """The keys whose rows differ between the two sides."""
        left: dict[Key, int] = {}
        own = theirs = 0
        for side, rows in zip(self.sources, sources, strict=True):
            expect = side.table.expect
            for row in rows:
                for cells in expect(row):
                    key, number = self._numbered(cells)
                    if is_part is None or is_part(key):
                        own += 1
                        left[key] = left.get(key, 0) + number
        for cells in target:
            key, number = self._numbered(cells)
            if is_part is None or is_part(key):
                theirs += 1
                # Equal rows cancel out, so that only differing keys stay in memory.
                rest = left.get(key, 0) - number
                if rest:
                    left[key] = rest
                else:
                    del left[key]
        self._count(own, theirs)
        return {key for key, number in left.items() if not self._is_of_others(number)}

    def _is_of_others(self, number: int) -> bool:
        """Whether a key may belong to another task, by what is left of its rows' numbers; counts
        it then. Also keeps such keys from filling up the suspects."""
        surplus = max(0, (ONE // 2 - number) // ONE) if self.others else 0
        self.report.of_others += surplus
        return surplus > 0

    def _numbered(self, cells: Cells) -> tuple[Key, int]:
        """A row's key, and the number that represents the row."""
        # surrogatepass, as decoded cells may hold lone surrogates.
        digest = blake2b(repr(cells).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        number = int.from_bytes(digest, "big") + ONE
        places = self.subject.key
        if not places:
            return digest, number
        return tuple([cells[place] for place in places]), number

    def _count(self, own: int, theirs: int) -> None:
        report = self.report
        report.source_rows += own
        report.target_rows += theirs
        self.told(report.source_rows)
        if self.options.throttle:
            # Measured from the beginning, so that slow chunks make up for fast ones.
            due = report.source_rows / self.options.throttle
            time.sleep(max(0.0, due - (time.monotonic() - self._began)))

    # differing rows, repeatedly

    def look_again(self) -> None:
        """Compares the differing rows once more; the report then holds what still differs."""
        suspects = set(self.different)
        self.different.clear()
        self.report.counts = dict.fromkeys(Kind, 0)
        self.report.changing = self.report.behind = 0
        self.report.examples.clear()
        self._settle(suspects)
        self.report.seconds = time.monotonic() - self._began

    def _settle(self, suspects: set[Key]) -> None:
        """Compares suspect rows until they are equal, certainly differ, or patience ends. A row
        certainly differs if the source's row did not change between two looks, the target has
        received everything from before the first look, and still differs; and once more, unless
        nothing at the source changed, as the row may have changed and changed back."""
        deadline = time.monotonic() + self.options.patience
        # What both sides had at the last look at a row that still differed.
        seen: dict[Key, tuple[int, int]] = {}
        changed: set[Key] = set()
        rest = suspects
        while rest:
            # In this order: between the two looks at the source lies what the target may show.
            before = self._source_numbers(rest)
            moment = self.lag.now()
            has_passed = self._wait(moment, deadline)
            theirs = self._target_numbers(rest)
            after = self._source_numbers(rest)
            # Nothing was committed at the sources, so no row changed and changed back.
            is_still = moment.source_ends == self.lag.now().source_ends
            left: set[Key] = set()
            for key in rest:
                own, other = after.get(key, 0), theirs.get(key, 0)
                # The target equals one of the source's two states: the other is on its way.
                if other in (own, before.get(key, 0)) or self._is_of_others(own - other):
                    continue
                pair = own, other
                is_same = before.get(key, 0) == own
                if has_passed and is_same and (is_still or seen.get(key) == pair):
                    self._found(key, own, other)
                    continue
                left.add(key)
                seen[key] = pair
                if has_passed and not is_same:
                    changed.add(key)
            rest = left
            if time.monotonic() >= deadline or self.lag.is_stuck():
                break
        # Rows that changed at each look are not known to differ; the others may not have arrived.
        self.report.changing = len(rest & changed)
        self.report.behind = len(rest - changed)
        self._show()

    def _wait(self, moment: Moment, deadline: float) -> bool:
        while not self.lag.has_passed(moment):
            if time.monotonic() >= deadline or self.lag.is_stuck():
                self.lag.give_up()
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def _found(self, key: Key, own: int, other: int) -> None:
        # The bits above a digest count rows, see ONE.
        rows, others = own // ONE, other // ONE
        if isinstance(key, bytes):
            # Rows without a key are only counted, so none of them is DIFFERENT.
            kind = Kind.MISSING if rows > others else Kind.EXTRA
            self.report.counts[kind] += abs(rows - others)
        else:
            kind = _kind(rows, others)
            self.report.counts[kind] += 1
        self.different[key] = kind

    def _source_numbers(self, keys: set[Key]) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for side in self.sources:
            expect = side.table.expect
            for row in self._looked_up(side, keys):
                for cells in expect(row):
                    self._add(found, keys, cells)
        return found

    def _target_numbers(self, keys: set[Key]) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for cells in self._looked_up(self.target, keys):
            self._add(found, keys, cells)
        return found

    def _add(self, found: dict[Key, int], keys: set[Key], cells: Cells) -> None:
        key, number = self._numbered(cells)
        # The collation of a column may find more keys than were asked for.
        if key in keys:
            found[key] = found.get(key, 0) + number

    def _looked_up(self, side: SourceSide | TargetSide, keys: set[Key]) -> Iterator[Cells]:
        """The rows with these keys, and perhaps others."""
        if not self.subject.is_found_by_key:
            # Without a lookup by key, each look reads the whole table.
            yield from side.rows(is_narrowed=not self.subject.key)
            return
        for part in key_groups(keys, KEYS_AT_ONCE):
            yield from side.rows(side.among(part), is_narrowed=False)

    # examples

    def _show(self) -> None:
        # Rows were kept as numbers only, so those that are shown are read once more.
        shown = set(islice(self.different, EXAMPLES))
        if not shown:
            return
        own: dict[Key, Cells] = {}
        for side in self.sources:
            for row in self._looked_up(side, shown):
                for cells in side.table.expect(row):
                    own.setdefault(self._numbered(cells)[0], cells)
        theirs: dict[Key, Cells] = {}
        for cells in self._looked_up(self.target, shown):
            theirs.setdefault(self._numbered(cells)[0], cells)
        for key in self.different:
            if key in shown:
                self.report.examples.append(self._example(key, own.get(key), theirs.get(key)))

    def _example(self, key: Key, own: Cells | None, theirs: Cells | None) -> Example:
        known: dict[str, Cell] = {}
        digest = ""
        if isinstance(key, bytes):
            digest = key.hex()
        else:
            known = dict(zip(self.subject.key_names, key, strict=True))
        example = Example(self.different[key], known, digest)
        shows_values = self.options.shows_values
        return example.of_rows(self.subject.columns, own, theirs, shows_values=shows_values)


def key_groups(keys: Iterable[Key], size: int) -> Iterator[list[tuple[Cell, ...]]]:
    """The keys in groups of this size, without digests, by which no row can be looked up."""
    rest = iter([key for key in keys if not isinstance(key, bytes)])
    while part := list(islice(rest, size)):
        yield part


def _kind(rows: int, others: int) -> Kind:
    """What is wrong with a key that differs. `rows`, `others`: how many the two sides have."""
    if not others:
        return Kind.MISSING
    if others > rows:
        return Kind.EXTRA
    return Kind.MERGED if rows > others else Kind.DIFFERENT


def _between(low: float, high: float) -> Callable[[Key], bool]:
    """A test whether a key's place among all, by its hash, is in this part."""
    # Of the 32 bits that `_place` gives, so the parts share no key and leave none out.
    least, most = int(low * 2**32), int(high * 2**32)
    return lambda key: least <= _place(key) < most


def _place(key: Key) -> int:
    if not isinstance(key, bytes):
        key = repr(key).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=4).digest(), "big")
