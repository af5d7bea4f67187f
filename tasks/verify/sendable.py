"""Which differing rows a repair can send, in which order, and the key of a row that the source
lacks, as its records spell it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from cdcbus.plugins.converters.auto import Auto
from cdcbus.plugins.rowchange import Cell
from cdcbus.producer.schema.cell_texts import cell_text
from cdcbus.tasks.verify.compare import Comparison
from cdcbus.tasks.verify.report import Kind
from cdcbus.tasks.verify.subject import LOSSLESS, Cells, SourceTable, Subject

REPAIRED: Final = (Kind.MISSING, Kind.DIFFERENT, Kind.EXTRA)
PRUNED: Final = (Kind.EXTRA,)


def refusal(comparison: Comparison) -> str:
    """The reason why the rows of a table cannot be repaired; empty where they can."""
    subject = comparison.subject
    # Without one of the target's own, rows are compared by the source's key.
    if not subject.key or not subject.target.key:
        return "it has no key, so a row that is sent again would exist twice"
    if comparison.others:
        return (
            f"rows of other tasks ({', '.join(comparison.others)}) go to it, too, and a row "
            "that only the target has may be theirs"
        )
    if len(subject.sources) > 1:
        return (
            "several source tables go there, and their topics have no order between a row that is "
            "deleted and one that is inserted"
        )
    [source] = subject.sources
    if changing := _changing_format(source):
        return (
            f"its records are in format {changing}, which does not return every cell as the source "
            f"has it, so its rows are not looked up by key: only {' and '.join(sorted(LOSSLESS))} "
            "do (consumer.converter)"
        )
    own = {column.name for column in source.key_columns}
    if not subject.is_found_by_key or own != set(source.mapped.schema.key):
        return (
            "its key is not the source's own, copied unchanged, or has texts of a character set "
            "other than utf8 and latin1, or texts whose last blanks the target drops, by which "
            "rows are not looked up, so they cannot be locked"
        )
    return ""


def _changing_format(source: SourceTable) -> str:
    """The format of one of the tasks that may change cells; empty where there is none."""
    read, written = source.feed.load.converter, source.feed.fetch.publish.converter
    if written not in LOSSLESS:
        return written
    # One that finds out the format by itself reads what is written.
    return "" if read in LOSSLESS | {Auto.NAME} else read


def repairable(comparison: Comparison, kinds: Collection[Kind] = REPAIRED) -> list[Cells]:
    """The keys of rows that can be sent, in order. `kinds`: some of REPAIRED, which leaves out
    MERGED rows, as these would replace each other. Rows that only the target has come first: it may
    take the key of one of them for that of a missing row, if only case differs, and would refuse
    this row while the other one is there."""
    [side] = comparison.sources
    keys = []
    for key in _chosen(comparison, kinds):
        if side.can_spell([key]) and not _is_unheld(comparison, side.table, key):
            keys.append(key)
    return keys


def unheld(comparison: Comparison, kinds: Collection[Kind] = REPAIRED) -> list[dict[str, Cell]]:
    """The keys, by the target's columns, of rows that only the target has, and that no column of
    the source can hold: no record has such a key."""
    [side] = comparison.sources
    found = []
    for key in _chosen(comparison, kinds):
        if _is_unheld(comparison, side.table, key):
            found.append(dict(zip(comparison.subject.key_names, key, strict=True)))
    return found


def _chosen(comparison: Comparison, kinds: Collection[Kind]) -> Iterator[Cells]:
    """The keys of rows of these kinds, in order."""
    different = comparison.different
    chosen = []
    for key, kind in different.items():
        if kind in kinds and not isinstance(key, bytes):
            chosen.append(key)
    yield from sorted(chosen, key=lambda key: (different[key] is not Kind.EXTRA, repr(key)))


def _is_unheld(comparison: Comparison, source: SourceTable, key: Cells) -> bool:
    is_extra = comparison.different[key] is Kind.EXTRA
    return is_extra and source_key(comparison.subject, source, key) is None


def source_key(subject: Subject, source: SourceTable, key: Cells) -> dict[str, Cell] | None:
    """A key of the target by the source's columns, in the text of the source's records, on which
    their keys and so their partitions depend; None where no row of the source becomes a row with
    exactly this key."""
    cells: dict[str, Cell] = {}
    for column, place, cell in zip(source.key_columns, subject.key, key, strict=True):
        text = None if cell is None else cell_text(column, cell)
        if text is None:
            return None
        conversion = source.plan.converted.get(column.name)
        arrives = text if conversion is None else conversion.cell(text)
        # Where the target's type holds more, another row's key may be the nearest to it.
        if subject.forms[place].expected(arrives) != cell:
            return None
        cells[column.name] = text
    return cells
