"""A table's report as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cdcbus.tasks.verify.report import Example, TableReport

UNHELD_SHOWN: Final = 20
SHOWN_CHARACTERS: Final = 200
"""Of a cell. A key is shown whole."""
SHOWN_BEFORE: Final = 20
"""The characters before the first that differs."""


def lines_of(report: TableReport) -> list[str]:
    """The lines that are printed for a table: its result, indented below it the reasons."""
    heading = f"{report.target}: {report.result}"
    if report.error:
        return [heading, f"  {report.error}"]
    if report.is_gone:
        return [heading, f"  {_gone(report)}"]
    first = (
        f"{heading}, {counted(report.source_rows, 'row')} at the source, "
        f"{report.target_rows:,} at the target, {counted(report.chunks, 'chunk')}, "
        f"{report.seconds:.1f} s"
    )
    return [first, *[f"  {reason}" for reason in _reasons(report)]]


def _gone(report: TableReport) -> str:
    return (
        f"not compared: {counted(report.target_rows, 'row')} "
        f"{'is' if report.target_rows == 1 else 'are'} at the target, and the source shows no "
        f"table for that any more ({', '.join(report.sources)}): if it was dropped or renamed, "
        "empty or drop the target table, or leave it out with consumer.excludes; otherwise GRANT "
        "SELECT on it to the fetch task's user"
    )


def _reasons(report: TableReport) -> Iterator[str]:
    if report.chunks_skipped:
        yield f"{counted(report.chunks_skipped, 'chunk')} skipped (--sample)"
    counts = [f"{count:,} {kind}" for kind, count in report.counts.items() if count]
    if counts:
        yield ", ".join(counts)
    yield from _uncertain(report)
    yield from _repaired(report)
    if report.left_out:
        yield (
            "columns that are not compared, because of their types, because the target lacks them "
            "or fills them in itself, or because not all source tables have them: "
            f"{', '.join(report.left_out)}"
        )
    for example in report.examples:
        yield _shown(example)


def _uncertain(report: TableReport) -> Iterator[str]:
    """Rows that were not compared to the end, and why."""
    if report.is_cut:
        yield "so many rows differ that the rest of the table was not read"
    if report.changing:
        be = "is" if report.changing == 1 else "are"
        yield f"{counted(report.changing, 'row')} kept changing and {be} not known to be equal"
    if report.behind:
        differ = "differs" if report.behind == 1 else "differ"
        yield f"{counted(report.behind, 'row')} {differ}, but {_why_behind(report)}"
    if report.of_others:
        be = "is" if report.of_others == 1 else "are"
        yield (
            f"{counted(report.of_others, 'row')} that only the target has {be} not counted: "
            f"rows of other tasks ({', '.join(report.others)}) go to this table, too"
        )


def _why_behind(report: TableReport) -> str:
    if report.is_partial:
        return (
            "the task reads only some partitions (consumer.source.partition), and whether "
            "changes of the others have arrived is not known: run it again"
        )
    if report.doubt:
        return (
            f"may be newer at the target: {report.doubt}. Stop the writes there, wait until the "
            "source has them, and run it again with --target-at-rest"
        )
    if report.inbound:
        return (
            "the changes up to now have not arrived on both sides, or no time was left to look "
            f"again: start the tasks, also {' and '.join(report.inbound)}, or wait longer with "
            "--patience"
        )
    return (
        "the changes up to now have not arrived, or no time was left to look again: start the "
        "tasks, or wait longer with --patience"
    )


def _repaired(report: TableReport) -> Iterator[str]:
    if report.repaired:
        yield f"{counted(report.repaired, 'row')} published; this is the result after it"
    if report.not_repaired:
        yield f"not repaired: {report.not_repaired}"
    yield from unheld_lines(report)


def unheld_lines(report: TableReport) -> Iterator[str]:
    """What a repair leaves to the operator."""
    for key in report.unheld[:UNHELD_SHOWN]:
        yield f"the source cannot hold this key: delete it at the target: {cells_text(key)}"
    more = len(report.unheld) - UNHELD_SHOWN
    if more > 0:
        yield f"and {more:,} more keys that the source cannot hold"


def _shown(example: Example) -> str:
    text = f"{example.kind} {cells_text(example.key) or 'row ' + example.digest}"
    source, target = example.source, example.target
    if source is None and target is None:  # without --show-values
        if not example.columns:
            return text
        return f"{text}: {', '.join(example.columns)}"
    if source is None or target is None:
        rest = dict(source or target or {})
        for name in example.key:
            rest.pop(name, None)
        if not rest:
            return text
        return f"{text}: {', '.join(f'{name}={_part(cell)}' for name, cell in rest.items())}"
    cells = []
    for name in source:
        own, other = source[name], target[name]
        start = max(0, _alike(own or "", other or "") - SHOWN_BEFORE)
        at_source, at_target = _part(own, start), _part(other, start)
        cells.append(f"{name}: {at_source} at the source, {at_target} at the target")
    return f"{text}: {'; '.join(cells)}"


def counted(number: int, one: str) -> str:
    return f"{number:,} {one}{'s' * (number != 1)}"


def cells_text(cells: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={_cell(cell)}" for name, cell in cells.items())


def _alike(own: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(own, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(own), len(other)))


def _part(cell: str | None, start: int = 0) -> str:
    """The cell, or of a long one a part; `start`: where the part that matters begins."""
    if cell is None or len(cell) <= SHOWN_CHARACTERS:
        return _cell(cell)
    part = cell[start : start + SHOWN_CHARACTERS]
    return f"{part!r} (from character {start + 1:,} of {len(cell):,})"


def _cell(cell: str | None) -> str:
    if cell is None:
        return "NULL"
    return repr(cell)
