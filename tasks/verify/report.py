"""The results of a comparison, table by table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from cdcbus.plugins.rowchange import Cell

# The rows of each table that a report shows; all of them are counted.
EXAMPLES: Final = 10


class Kind(StrEnum):
    """What is wrong with a row. MISSING or EXTRA at the target; DIFFERENT; MERGED: several source
    rows share one key at the target, which holds fewer."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    MERGED = "merged"


@dataclass(frozen=True, slots=True)
class Example:
    """A row that is not equal. `key`: by the target's columns; empty where the table has none, and
    `digest` identifies the row. `columns`: those that differ. `source`, `target`: their cells,
    where these may be shown."""

    kind: Kind
    key: dict[str, Cell]
    digest: str = ""
    columns: tuple[str, ...] = ()
    source: dict[str, Cell] | None = None
    target: dict[str, Cell] | None = None

    def of_rows(
        self,
        names: Sequence[str],
        own: Sequence[Cell] | None,
        theirs: Sequence[Cell] | None,
        form: Callable[[Sequence[Cell]], Sequence[Cell]] | None,
    ) -> Example:
        """The example with what differs between the two rows, in the form that is compared; None:
        that side has none. `names`: the compared columns; `form`: makes of a row what people see of
        it; None: they see no values."""
        columns: tuple[str, ...] = ()
        # A row that only one side has is shown whole.
        shown = tuple(names)
        if own is not None and theirs is not None:
            columns = shown = _differing(names, own, theirs)
        if form is None:
            return replace(self, columns=columns)
        source = None if own is None else _cells_of(shown, names, form(own))
        target = None if theirs is None else _cells_of(shown, names, form(theirs))
        return replace(self, columns=columns, source=source, target=target)

    def to_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "key": self.key}
        if self.digest:
            fields["digest"] = self.digest
        if self.columns:
            fields["columns"] = list(self.columns)
        if self.source is not None or self.target is not None:
            fields |= {"source": self.source, "target": self.target}
        return fields


def _differing(
    names: Sequence[str], own: Sequence[Cell], theirs: Sequence[Cell]
) -> tuple[str, ...]:
    found = []
    for name, cell, other in zip(names, own, theirs, strict=True):
        if cell != other:
            found.append(name)
    return tuple(found)


def _cells_of(shown: Sequence[str], names: Sequence[str], row: Sequence[Cell]) -> dict[str, Cell]:
    cells = dict(zip(names, row, strict=True))
    return {name: cells[name] for name in shown}


@dataclass(slots=True)
class TableReport:
    """The result for one target table. `source_rows`, `target_rows`: compared rows. `changing`:
    rows that changed each time they were compared. `behind`: rows that differ, but that the task
    may not have reached yet, or that were not compared often enough. `is_cut`: the comparison was
    cut short. `left_out`: columns that are not compared. `error`: why the table could not be
    compared. `planned`: what a repair sends, or would send; `repaired`: how many rows were sent;
    `not_repaired`: why none, or not all, could be; `unheld`: the keys of rows that only the target
    has, and that the source's columns cannot hold.
    `others`: other tasks that write to the table; `of_others`: rows that only the target has, which
    may be theirs, and do not count as different. `is_partial`: the task reads only some partitions
    of its topics, so rows that differ are only known to be `behind`. `inbound`: the tasks that
    bring changes of other servers to the source; `doubt`: why it is not known whether these have
    arrived, so that rows that differ are only known to be `behind`, too. `is_gone`: the source has
    no such table any more, so all rows are extra."""

    target: str
    sources: list[str]
    way: str = ""
    source_rows: int = 0
    target_rows: int = 0
    chunks: int = 0
    chunks_skipped: int = 0
    chunks_different: int = 0
    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    changing: int = 0
    behind: int = 0
    is_cut: bool = False
    examples: list[Example] = field(default_factory=list)
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""
    planned: list[Any] = field(default_factory=list)
    repaired: int = 0
    not_repaired: str = ""
    unheld: list[dict[str, Cell]] = field(default_factory=list)
    others: tuple[str, ...] = ()
    of_others: int = 0
    is_partial: bool = False
    inbound: tuple[str, ...] = ()
    doubt: str = ""
    is_gone: bool = False

    @property
    def differences(self) -> int:
        return sum(self.counts.values())

    @property
    def is_equal(self) -> bool:
        """Whether all compared rows are certainly equal. Rows that keep changing do not count as
        different."""
        return not (self.error or self.differences or self.behind or self.is_cut)

    @property
    def result(self) -> str:
        if self.error:
            return "error"
        if self.differences:
            return "different"
        if self.behind or self.is_cut:
            return "behind"
        # Last, as rows that keep changing are weaker than any other result.
        return "changing" if self.changing else "equal"

    def to_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "table": self.target,
            "sources": self.sources,
            "result": self.result,
            "way": self.way,
            "sourceRows": self.source_rows,
            "targetRows": self.target_rows,
            "chunks": self.chunks,
            "chunksSkipped": self.chunks_skipped,
            "chunksDifferent": self.chunks_different,
            **{str(kind): count for kind, count in self.counts.items()},
            "changing": self.changing,
            "behind": self.behind,
            "isCut": self.is_cut,
            "isPartial": self.is_partial,
            "examples": [example.to_fields() for example in self.examples],
            "notCompared": list(self.left_out),
        }
        # Only where other tasks write to the table.
        if self.others:
            fields["otherTasks"] = list(self.others)
            fields["ofOthers"] = self.of_others
        if self.inbound:
            fields["inboundTasks"] = list(self.inbound)
        if self.doubt:
            fields["doubt"] = self.doubt
        if self.is_gone:
            fields["isGone"] = True
        # Only with a repair.
        if self.planned:
            fields["planned"] = [each.to_fields() for each in self.planned]
        if self.repaired:
            fields["published"] = self.repaired
        if self.not_repaired:
            fields["notRepaired"] = self.not_repaired
        if self.unheld:
            fields["notHeld"] = self.unheld
        fields["seconds"] = round(self.seconds, 3)
        fields["error"] = self.error
        return fields


def exit_code(reports: list[TableReport]) -> int:
    """The exit code of the command: 0 equal, 1 not equal, 2 unknown."""
    code = 0
    for report in reports:
        if report.error:
            return 2
        if not report.is_equal:
            code = 1
    return code
