"""Whether a target table has the columns that rows bring, and whether rows bring those that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from cdcbus.consumer.mapper import Route
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.loaders.add_column import add_column
from cdcbus.plugins.rowchange import Column
from cdcbus.tasks.check_records import Sample, Seen
from cdcbus.tasks.observations import Observation, error, ok, warning


def describe_columns(route: Route, sample: Sample | None, table: TargetTable) -> Iterator[Observation]:
    """`sample`: the source table in the newest records; None where they hold none of its rows: then the mapper's columns are looked for."""
    subject, source, rule = f"target table {table.id}", route.source, route.rule
    there = {name.lower() for name in table.columns}
    renamed = rule.columns if rule.table else {}  # a rule for any table may name columns that only others have
    for name in rule.computed:
        if name.lower() not in there:
            cure = f"{add_column(table, Column(name))}; or remove the line."
            yield error(subject, f"has no column {name}, which mapper[i] computes", cure)
    if sample is None:
        for column, name in renamed.items():
            if name.lower() not in there:
                yield _lacking(subject, route, Seen(Column(column), "", True), table)
        return
    known = {name.lower() for name in sample.columns}
    for column in renamed:
        if column.lower() not in known:
            found = f"mapper[i].column.{column}: the newest rows of {source} have no such column"
            yield warning(subject, found, "Correct the column's name in the task file, or remove the line.")
    lacking = [seen for name, seen in sample.columns.items() if (wanted := route.wanted(name)) and wanted.lower() not in there]
    for seen in lacking:
        yield _lacking(subject, route, seen, table)
    if not lacking:
        yield ok(subject, f"has all {len(sample.columns)} columns of the newest rows of {source}")
    yield from _keys(subject, route, sample, table)


def _keys(subject: str, route: Route, sample: Sample, table: TargetTable) -> Iterator[Observation]:
    """Updates need not bring all columns, so what is not part of the key is looked for only where a row was inserted."""
    source, computed = route.source, {name.lower() for name in route.rule.computed}
    brought = {wanted.lower() for name in sample.columns if (wanted := route.wanted(name))} | computed
    for name in table.key:
        if name.lower() not in brought:
            found = f"the newest rows of {source} bring no {name}, which is part of its key"
            yield error(subject, found, f"Map a column to it: mapper[i].column.X={name}.")
    for name, column in table.columns.items():
        if column.is_required and sample.has_insert and name not in table.key and name.lower() not in brought:
            found = f"column {name} is NOT NULL without a default, and the newest rows of {source} bring none: inserts would be refused"
            yield warning(subject, found, f"Give column {name} a default, or map a column to it: mapper[i].column.X={name}.")
    key = {(route.wanted(name) or name).lower() for name in sample.key} | computed
    if sample.key and table.key and key != {name.lower() for name in table.key} | computed:
        found = f"its key is {', '.join(table.key)}, that of {source} is {', '.join(sample.key)}; two rows may become one"
        cure = "Give both the same key, or let the fetch task's loader.source.partitionKey name the target's key columns."
        yield warning(subject, found, cure)


def _lacking(subject: str, route: Route, seen: Seen, table: TargetTable) -> Observation:
    source, column, name = route.source, seen.column, route.wanted(seen.column.name) or seen.column.name
    alter = add_column(table, Column(name, column.mysql_type, column.sql_type))
    alter += ";" if column.mysql_type else "; with the type that it has at the source;"
    found = f"has no column {name} for column {column.name} of {source}" + (f", which record {seen.record} has" if seen.record else "")
    if not route.rule.force_matched:
        return warning(subject, f"{found}; mapper[i].forceMatched=false leaves it out", alter)
    if not seen.is_ahead:
        return warning(subject, f"{found}; that record is before the start", alter)
    return error(subject, found, f"{alter} or rename it with mapper[i].column.{column.name}, or drop it with mapper[i].forceMatched=false.")
