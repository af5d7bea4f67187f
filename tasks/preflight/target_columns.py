"""Checks that a target table has the columns of the rows, and that the rows have the columns that
it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from cdcbus.consumer.transform.lossy_tables import CELLS_REMEDY, describe_cut_cells
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import ConfigError, ConversionError
from cdcbus.plugins.loaders.add_column import add_columns, column_type
from cdcbus.plugins.loaders.cells.canonical import holds_less
from cdcbus.plugins.loaders.schema_evolution import too_narrow
from cdcbus.plugins.rowchange import Column, Table, Unclear
from cdcbus.plugins.time_zone import puts_clocks_back
from cdcbus.plugins.transform.local_times import local_times
from cdcbus.plugins.transform.route import Route, any_case
from cdcbus.tasks.preflight.records import Sample, Seen
from cdcbus.tasks.preflight.result import CheckResult, error, ok, warning


def describe_columns(
    route: Route, sample: Sample | None, table: TargetTable
) -> Iterator[CheckResult]:
    """Compares a target table with the rows of its source. `sample`: the source table in the newest
    records; None where they hold none of its rows, and only the mapper's columns are compared."""
    subject = f"target table {table.id}"
    yield from _computed(subject, route, table)
    if sample is None:
        yield from _lacking(subject, route, _renamed_to_none(route, table), table)
        return
    yield from _misspelt(subject, route, sample)
    lacking = _not_in_target(route, sample, table)
    # Columns of records that are already applied are worth only a warning.
    ahead = [seen for seen in lacking if seen.is_ahead]
    applied = [seen for seen in lacking if not seen.is_ahead]
    yield from _lacking(subject, route, ahead, table)
    yield from _lacking(subject, route, applied, table)
    if not lacking:
        count = len(sample.columns)
        yield ok(subject, f"has all {count} columns of the newest rows of {route.source}")
    mapped = _mapped(route, sample.source_columns)
    yield from _not_filled(subject, route, sample, mapped, table)
    yield from _key(subject, route, sample, mapped, table)
    source = Table(route.source, tuple(sample.source_columns), ())
    if cut := describe_cut_cells(route.source, table, route.columns(source)):
        yield warning(subject, cut, CELLS_REMEDY)
    yield from _local_times(subject, route, sample, table)


def _renamed(route: Route) -> Mapping[str, str]:
    """The columns that the mapper renames -> their new names."""
    # A rule for any table may name columns that only some tables have.
    if route.rule.table is None:
        return {}
    return route.rule.columns


def _computed(subject: str, route: Route, table: TargetTable) -> Iterator[CheckResult]:
    """An error where the target lacks columns that the mapper computes."""
    present = _lowered(table.columns)
    lacking = [name for name in route.rule.computed if name.lower() not in present]
    if not lacking:
        return
    statement = add_columns(table, list(map(Column, lacking)))
    yield error(
        subject,
        f"has no column{_s(lacking)} {', '.join(lacking)}, which mapper[i] computes",
        f"{statement}; or remove the line{_s(lacking)}.",
    )


def _renamed_to_none(route: Route, table: TargetTable) -> list[Seen]:
    """The columns whose new name the target does not have."""
    present = _lowered(table.columns)
    lacking = []
    for column, name in _renamed(route).items():
        if name.lower() not in present:
            lacking.append(Seen(Column(column), "", True))
    return lacking


def _misspelt(subject: str, route: Route, sample: Sample) -> Iterator[CheckResult]:
    """Warnings about columns of the mapper that rows do not have."""
    known = _lowered(sample.columns)
    for column in _renamed(route):
        if column.lower() not in known:
            yield warning(
                subject,
                f"mapper[i].column.{column}: the newest rows of {route.source} have no such column",
                "Correct the column's name in the task file, or remove the line.",
            )


def _not_in_target(route: Route, sample: Sample, table: TargetTable) -> list[Seen]:
    """The columns of rows that the target does not have."""
    present = _lowered(table.columns)
    lacking = []
    for column, seen in sample.columns.items():
        name = route.wanted(column)
        if name and name.lower() not in present:
            lacking.append(seen)
    return lacking


def _mapped(route: Route, columns: Sequence[Column]) -> list[Column]:
    """The columns under the target's names, without those that the mapper leaves out."""
    mapped = []
    for column in columns:
        if name := route.wanted(column.name):
            mapped.append(replace(column, name=name, unclear=Unclear.NOTHING))
    return mapped


def _not_filled(
    subject: str, route: Route, sample: Sample, mapped: Sequence[Column], table: TargetTable
) -> Iterator[CheckResult]:
    """Results for target columns that rows must fill and do not."""
    filled = _lowered(column.name for column in mapped)
    filled |= _lowered(route.rule.computed)
    for name in table.key:
        if name.lower() not in filled:
            found = f"the newest rows of {route.source} bring no {name}, which is part of its key"
            yield error(subject, found, f"Map a column to it: mapper[i].column.X={name}.")
    if not sample.has_insert:
        # An update need not bring all columns.
        return
    for name, column in table.columns.items():
        if column.is_required and name not in table.key and name.lower() not in filled:
            yield warning(
                subject,
                f"column {name} is NOT NULL without a default, and the newest rows of "
                f"{route.source} bring none: inserts would be refused",
                f"Give column {name} a default, or map a column to it: mapper[i].column.X={name}.",
            )


def _key(
    subject: str, route: Route, sample: Sample, mapped: Sequence[Column], table: TargetTable
) -> Iterator[CheckResult]:
    """Results where the target's key may not distinguish rows that the source's key does."""
    source = route.source
    types = {column.name.lower(): column.own_type for column in mapped}
    wider = too_narrow(table, mapped)
    for name in table.key:
        type_ = types.get(name.lower(), "")
        # Columns that do not round or cut refuse values that do not fit.
        if holds_less(table.columns[name], type_):
            found = (
                f"column {name} of its key keeps less than that of {source}, a {type_}: the second "
                "of two rows that are one there is refused"
            )
            wanted = wider.get(name) or column_type(type_, table.dialect)
            yield warning(subject, found, f"Make column {name} {wanted}.")
    if folding := [name for name in table.key if table.columns[name].is_folding]:
        found = (
            f"column{_s(folding)} {', '.join(folding)} of its key may take different texts "
            "for equal, such as a and A"
        )
        yield ok(subject, f"{found}: if {source} does not, the second such row is refused")
    computed = _lowered(route.rule.computed)
    # Computed columns count on neither side: they may or may not distinguish rows.
    source_key = _lowered(route.wanted(name) or name for name in sample.key)
    target_key = _lowered(table.key)
    if sample.key and table.key and source_key | computed != target_key | computed:
        found = (
            f"its key is {', '.join(table.key)}, that of {source} is {', '.join(sample.key)}; "
            "two rows may become one"
        )
        remedy = (
            "Give both the same key, or let the fetch task's loader.source.partitionKey name "
            "the target's key columns."
        )
        yield warning(subject, found, remedy)


def _local_times(
    subject: str, route: Route, sample: Sample, table: TargetTable
) -> Iterator[CheckResult]:
    """Results where TIMESTAMP columns become local times: whether these still distinguish rows."""
    names = {}
    for column in sample.source_columns:
        if column.name.lower() not in route.rule.masks:
            names[column.name] = any_case(table.columns, route.wanted(column.name) or "")
    source = Table(route.source, tuple(sample.source_columns), ())
    try:
        local = local_times(route.zone, source, table, names)
    except (ConfigError, ConversionError) as unknown:
        yield error(subject, str(unknown), "Until then the task stops at such a record.")
        return
    keys = [column for column, made in local.items() if made.is_key]
    if keys and route.zone and puts_clocks_back(route.zone, datetime.now(UTC).year):
        found = (
            f"TIMESTAMP column{_s(keys)} {', '.join(keys)} of {route.source} goes into its key as "
            f"what clocks of {route.zone} show: the task stops at rows of the hour in which they "
            "are put back, as two of them could become one"
        )
        remedy = "Give that target column a type with a time zone, which stores points in time."
        yield warning(subject, found, remedy)


def _lacking(
    subject: str, route: Route, lacking: Sequence[Seen], table: TargetTable
) -> Iterator[CheckResult]:
    """One result for all lacking columns, which share one `is_ahead`, with the statement that adds
    them."""
    if not lacking:
        return
    columns = [seen.column for seen in lacking]
    sources = [column.name for column in columns]
    names = [route.wanted(source) or source for source in sources]
    records = sorted({seen.record for seen in lacking if seen.record})
    found = (
        f"has no column{_s(names)} {', '.join(names)} for column{_s(sources)} "
        f"{', '.join(sources)} of {route.source}"
    )
    if records:
        verb = _word(records, "has", "have")
        found += f", which record{_s(records)} {', '.join(records)} {verb}"
    alter = _alter(table, columns, names)
    it = _word(lacking, "it", "them")
    if not route.rule.force_matched:
        yield warning(subject, f"{found}; mapper[i].forceMatched=false leaves {it} out", alter)
    elif not lacking[0].is_ahead:
        they_are = _word(records, "that record is", "those records are")
        yield warning(subject, f"{found}; {they_are} before the start", alter)
    else:
        name = _word(lacking, sources[0], "X")
        yield error(
            subject,
            found,
            f"{alter} or rename {it} with mapper[i].column.{name}, or drop {it} with "
            "mapper[i].forceMatched=false.",
        )


def _alter(table: TargetTable, columns: Sequence[Column], names: Sequence[str]) -> str:
    """The ALTER TABLE that adds the source's columns under their target `names`."""
    # By name, as two source columns may go to one.
    added = {}
    for column, name in zip(columns, names, strict=True):
        added[name] = replace(column, name=name)
    statement = add_columns(table, list(added.values())) + ";"
    untyped = [column.name for column in columns if not column.own_type]
    if not untyped:
        return statement
    if len(columns) == 1:
        return f"{statement} with the type that it has at the source;"
    return f"{statement} with the source's types for {', '.join(untyped)};"


def _lowered(names: Iterable[str]) -> set[str]:
    """Names of columns to compare: targets may spell them in another case."""
    return set(map(str.lower, names))


def _s(items: Sequence[object]) -> str:
    """The ending of a plural."""
    return _word(items, "", "s")


def _word(items: Sequence[object], one: str, several: str) -> str:
    if len(items) == 1:
        return one
    return several
