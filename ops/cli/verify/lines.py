"""A table's report as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdcbus.tasks.verify.report import Example, TableReport


def lines_of(report: TableReport) -> list[str]:
    """The lines that are printed for a table: its result, indented below it the reasons."""
    heading = f"{report.target}: {report.result}"
    if report.error:
        return [heading, f"  {report.error}"]
    first = (
        f"{heading}, {counted(report.source_rows, 'row')} at the source, "
        f"{report.target_rows:,} at the target, {counted(report.chunks, 'chunk')}, "
        f"{report.seconds:.1f} s"
    )
    return [first, *[f"  {reason}" for reason in _reasons(report)]]


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
    return "the changes up to now have not arrived: start the tasks, or wait longer with --patience"


def _repaired(report: TableReport) -> Iterator[str]:
    if report.repaired:
        yield f"{counted(report.repaired, 'row')} published; this is the result after it"
    if report.not_repaired:
        yield f"not repaired: {report.not_repaired}"


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
        return f"{text}: {cells_text(rest)}"
    cells = []
    for name in source:
        at_source, at_target = _cell(source[name]), _cell(target[name])
        cells.append(f"{name}: {at_source} at the source, {at_target} at the target")
    return f"{text}: {'; '.join(cells)}"


def counted(number: int, one: str) -> str:
    return f"{number:,} {one}{'s' * (number != 1)}"


def cells_text(cells: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={_cell(cell)}" for name, cell in cells.items())


def _cell(cell: str | None) -> str:
    if cell is None:
        return "NULL"
    return repr(cell)
