"""Compares one table: a scan finds suspect rows, which are looked up again and again until all
differences are certain.

Rows are summed by key: each row becomes a number made from its digest, which is added for a row of
the source and subtracted for a row of the target. A key whose sum is not zero differs. This also
works for several rows with one key, and for rows without a key, whose digest serves as the key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from cdcbus.plugins.rowchange import Cell
from cdcbus.tasks.verify.lag import Ends, Lag, Moment
from cdcbus.tasks.verify.report import EXAMPLES, Example, Kind, TableReport
from cdcbus.tasks.verify.row_numbers import (
    Key,
    key_groups,
    kind_of,
    numbered,
    rows_in,
    surplus_in,
)
from cdcbus.tasks.verify.scan import Scan
from cdcbus.tasks.verify.sides import SourceSide, TargetSide
from cdcbus.tasks.verify.subject import Cells, Subject

MOST_SUSPECTS: Final = 100_000
"""The number of suspect keys of a table after which its comparison is cut short."""
KEYS_AT_ONCE: Final = 500
# Between two looks whether the task has caught up.
LOOK_SECONDS: Final = 0.3
REPAIRED_ROWS: Final = {Kind.MISSING: 1, Kind.EXTRA: -1}
"""How many rows the target has more once such a row is repaired."""


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
    """The comparison of one table. `on_progress` is called with the number of source rows done so
    far. `others`: the other tasks that may write to the target table, whose rows are not known from
    extra ones. `is_narrowed`: only some rows are compared; each side may find others of them.
    `inbound`: by task, of the tasks that bring changes of other servers, the target's own among
    them, to the sources. `doubt`: why it is not known whether these have arrived; empty where it is
    known."""

    subject: Subject
    sources: Sequence[SourceSide]
    target: TargetSide
    lag: Lag
    options: Options
    on_progress: Callable[[int], None] = lambda rows: None
    others: Sequence[str] = ()
    is_narrowed: bool = False
    inbound: Mapping[str, Lag] = field(default_factory=dict)
    doubt: str = ""
    report: TableReport = field(init=False)
    different: dict[Key, Kind] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.report = TableReport(
            self.subject.name,
            [str(each.mapped.source.id) for each in self.subject.sources],
            str(self.subject.way),
            left_out=self.subject.left_out,
            others=tuple(self.others),
            inbound=tuple(self.inbound),
            doubt=self.doubt,
        )

    def run(self) -> TableReport:
        begun = self._ends()
        self._compare()
        if self.report.is_cut and not (self.report.differences or self.report.behind):
            # All these rows were only in flight, so the rest can be read now.
            self.__post_init__()
            self._compare()
        if self._is_off_since(begun):
            self.__post_init__()
            self._compare()
            if self._is_off_since(begun):
                self.report.error = (
                    f"{self.report.source_rows:,} rows at the source, "
                    f"{self.report.target_rows:,} at the target, and none of them is found to "
                    "differ, although nothing has changed meanwhile: compare the keys on both sides"
                )
        self.report.seconds = time.monotonic() - self._began
        return self.report

    def _is_off_since(self, begun: Sequence[Ends]) -> bool:
        """Whether one side has more rows, though no row differs, and nothing has changed that could
        be the reason: the source stands where it stood, and the target has all of that. What was on
        its way during a first pass has then arrived before a second."""
        report = self.report
        if report.result != "equal" or report.source_rows == report.target_rows:
            return False
        if self.others or self.is_narrowed or self.doubt:
            return False
        if self._ends() != begun:
            return False
        return self._wait(list(map(Moment, begun)), time.monotonic() + self.options.patience)

    @property
    def _lags(self) -> list[Lag]:
        return [self.lag, *self.inbound.values()]

    def _ends(self) -> list[Ends]:
        return [lag.ends() for lag in self._lags]

    def _now(self) -> list[Moment]:
        return [lag.now() for lag in self._lags]

    def _compare(self) -> None:
        self.report.is_partial = self.lag.is_partial
        suspects: set[Key] = set()
        for found in self._scan().suspects():
            suspects |= found
            # Suspects are looked up by key, again and again, so their number is bounded.
            if len(suspects) > MOST_SUSPECTS:
                suspects = set(islice(suspects, MOST_SUSPECTS))
                self.report.is_cut = True
                break
        self._settle(suspects)

    def _scan(self) -> Scan:
        return Scan(
            self.subject,
            self.sources,
            self.target,
            self.report,
            self._count,
            self._is_of_others,
            MOST_SUSPECTS,
            self.options.sample,
        )

    def _is_of_others(self, difference: int) -> bool:
        """Whether a key can belong to another task, by the source's sum of its rows minus the
        target's; then counts its rows. Also keeps such keys from filling up the suspects."""
        surplus = surplus_in(difference) if self.others else 0
        self.report.of_others += surplus
        return surplus > 0

    def _count(self, own: int, theirs: int) -> None:
        report = self.report
        report.source_rows += own
        report.target_rows += theirs
        self.on_progress(report.source_rows)
        if self.options.throttle:
            # Measured from the beginning, so that slow chunks make up for fast ones.
            due = report.source_rows / self.options.throttle
            time.sleep(max(0.0, due - (time.monotonic() - self._began)))

    # differing rows, repeatedly

    def look_again(self) -> None:
        """Compares the differing rows once more; the report then holds what still differs."""
        before = dict(self.different)
        self.different.clear()
        self.report.counts = dict.fromkeys(Kind, 0)
        self.report.changing = self.report.behind = 0
        self.report.examples.clear()
        self._settle(set(before))
        # Counted when all rows were read, before the repair.
        for key, kind in before.items():
            if key not in self.different:
                self.report.target_rows += REPAIRED_ROWS.get(kind, 0)
        self.report.seconds = time.monotonic() - self._began

    def _settle(self, suspects: set[Key]) -> None:
        """Compares suspect rows until they are equal, certainly differ, or patience ends. A row
        certainly differs if the source's row did not change between two looks, the target has
        received everything from before the first look, and still differs; and once more, unless
        nothing at the source changed, as the row may have changed and changed back. Where changes
        of the target come back to the source, the same holds for the target's row."""
        deadline = time.monotonic() + self.options.patience
        # What both sides had at the last look at a row that still differed.
        seen: dict[Key, tuple[int, int]] = {}
        # Rows that differed though nothing was on its way.
        stood: set[Key] = set()
        doubted: set[Key] = set()
        has_passed = False
        rest = suspects
        while rest:
            # In this order: between the two looks at the source lies what the target may show.
            before = self._source_numbers(rest)
            theirs_before = self._target_numbers(rest) if self.inbound else {}
            moments = self._now()
            # Patience would cut the last look, and then a row that keeps changing is not told from
            # one whose task stands still. So a look that has begun gets all of it.
            has_passed = self._wait(moments, time.monotonic() + self.options.patience)
            theirs = self._target_numbers(rest)
            after = self._source_numbers(rest)
            # Nothing was committed at the sources, so no row changed and changed back.
            is_still = _ends_of(moments) == _ends_of(self._now())
            left: set[Key] = set()
            for key in rest:
                own, other = after.get(key, 0), theirs.get(key, 0)
                # The target equals one of the source's two states: the other is on its way.
                if other in (own, before.get(key, 0)) or self._is_of_others(own - other):
                    continue
                pair = own, other
                is_same = before.get(key, 0) == own
                if self.inbound:
                    is_same &= theirs_before.get(key, 0) == other
                if has_passed and is_same:
                    stood.add(key)
                    if is_still or seen.get(key) == pair:
                        if self.doubt:
                            doubted.add(key)
                        else:
                            self._found(key, own, other)
                        continue
                left.add(key)
                seen[key] = pair
            rest = left
            if time.monotonic() >= deadline or self._is_stuck():
                break
        # Rows that changed at each look are not known to differ; the others may not have arrived.
        self.report.changing = len(rest - stood) if has_passed else 0
        self.report.behind = len(rest) - self.report.changing + len(doubted)
        self._show()

    def _wait(self, moments: Sequence[Moment], deadline: float) -> bool:
        for lag, moment in zip(self._lags, moments, strict=True):
            while not lag.has_passed(moment):
                if time.monotonic() >= deadline or lag.is_stuck():
                    lag.give_up()
                    return False
                time.sleep(LOOK_SECONDS)
        return True

    def _is_stuck(self) -> bool:
        return any(lag.is_stuck() for lag in self._lags)

    def _found(self, key: Key, own: int, other: int) -> None:
        rows, others = rows_in(own), rows_in(other)
        if isinstance(key, bytes):
            # Rows without a key are only counted, so none of them is DIFFERENT.
            kind = Kind.MISSING if rows > others else Kind.EXTRA
            self.report.counts[kind] += abs(rows - others)
        else:
            kind = kind_of(rows, others)
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
        key, number = numbered(cells, self.subject.key)
        # The collation of a column may find more keys than were asked for.
        if key in keys:
            found[key] = found.get(key, 0) + number

    def _looked_up(self, side: SourceSide | TargetSide, keys: set[Key]) -> Iterator[Cells]:
        """The rows with these keys, and perhaps others."""
        parts = list(key_groups(keys, KEYS_AT_ONCE))
        # The source can spell all of its own keys: those that it cannot are not there.
        is_spelt = side is not self.target or all(map(self.target.can_spell, parts))
        if not (self.subject.is_found_by_key and is_spelt):
            # Without a lookup by key, each look reads the whole table.
            yield from side.rows(is_narrowed=not self.subject.key)
            return
        for part in parts:
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
                    self._pick(own, shown, cells)
        theirs: dict[Key, Cells] = {}
        for cells in self._looked_up(self.target, shown):
            self._pick(theirs, shown, cells)
        for key in self.different:
            if key in shown:
                self.report.examples.append(self._example(key, own.get(key), theirs.get(key)))
        # Rows that differ are found in another order each time.
        self.report.examples.sort(key=_order)

    def _pick(self, found: dict[Key, Cells], shown: set[Key], cells: Cells) -> None:
        # Only these, as the whole table may have been read for them.
        key, _ = numbered(cells, self.subject.key)
        if key in shown:
            found.setdefault(key, cells)

    def _example(self, key: Key, own: Cells | None, theirs: Cells | None) -> Example:
        known: dict[str, Cell] = {}
        digest = ""
        if isinstance(key, bytes):
            digest = key.hex()
        else:
            known = dict(zip(self.subject.key_names, key, strict=True))
        example = Example(self.different[key], known, digest)
        shown = self.subject.shown if self.options.shows_values else None
        return example.of_rows(self.subject.columns, own, theirs, shown)


def _ends_of(moments: Sequence[Moment]) -> list[Ends]:
    return [moment.source_ends for moment in moments]


def _order(example: Example) -> tuple[object, ...]:
    """Sorts whole numbers by their size, and other keys by their length first."""
    cells = [(len(cell or ""), cell or "") for cell in example.key.values()]
    return cells, example.digest
