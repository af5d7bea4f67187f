"""Whether a target table has the columns that rows bring, and whether rows bring those that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from cdcbus.consumer.mapper import Mapper
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.loaders.add_column import add_column
from cdcbus.plugins.rowchange import Column, TableId
from cdcbus.tasks.check_records import Sample, Seen
from cdcbus.tasks.observations import Observation, error, ok, warning


def describe_columns(source: TableId, sample: Sample | None, table: TargetTable, mapper: Mapper) -> Iterator[Observation]:
    """`sample`: the source table in the newest records; None where they hold none of its rows: then the mapper's columns are looked for."""
    subject, rule = f"target table {table.id}", mapper.rule(source)
    there = {name.lower() for name in table.columns}
    renamed = rule.columns if rule.table else {}  # a rule for any table may name columns that only others have
    if sample is None:
        for column, name in renamed.items():
            if name.lower() not in there:
                yield _lacking(subject, source, Seen(Column(column), "", True), table, mapper)
        return
    known = {name.lower() for name in sample.columns}
    for column in renamed:
        if column.lower() not in known:
            found = f"mapper[i].column.{column}: the newest rows of {source} have no such column"
            yield warning(subject, found, "Correct the column's name in the task file, or remove the line.")
    lacking = [seen for name, seen in sample.columns.items() if mapper.wanted(source, name).lower() not in there]
    for seen in lacking:
        yield _lacking(subject, source, seen, table, mapper)
    if not lacking:
        yield ok(subject, f"has all {len(sample.columns)} columns of the newest rows of {source}")
    yield from _keys(subject, source, sample, table, mapper)


def _keys(subject: str, source: TableId, sample: Sample, table: TargetTable, mapper: Mapper) -> Iterator[Observation]:
    """Updates need not bring all columns, so what is not part of the key is looked for only where a row was inserted."""
    brought = {mapper.wanted(source, name).lower() for name in sample.columns}
    for name in table.key:
        if name.lower() not in brought:
            found = f"the newest rows of {source} bring no {name}, which is part of its key"
            yield error(subject, found, f"Map a column to it: mapper[i].column.X={name}.")
    for name, column in table.columns.items():
        if column.is_required and sample.has_insert and name not in table.key and name.lower() not in brought:
            found = f"column {name} is NOT NULL without a default, and the newest rows of {source} bring none: inserts would be refused"
            yield warning(subject, found, f"Give column {name} a default, or map a column to it: mapper[i].column.X={name}.")
    key = {mapper.wanted(source, name).lower() for name in sample.key}
    if key and table.key and key != {name.lower() for name in table.key}:
        found = f"its key is {', '.join(table.key)}, that of {source} is {', '.join(sample.key)}; two rows may become one"
        cure = "Give both the same key, or let the fetch task's loader.source.partitionKey name the target's key columns."
        yield warning(subject, found, cure)


def _lacking(subject: str, source: TableId, seen: Seen, table: TargetTable, mapper: Mapper) -> Observation:
    column, name = seen.column, mapper.wanted(source, seen.column.name)
    alter = add_column(table, Column(name, column.mysql_type, column.sql_type))
    alter += ";" if column.mysql_type else "; with the type that it has at the source;"
    found = f"has no column {name} for column {column.name} of {source}" + (f", which record {seen.record} has" if seen.record else "")
    if not mapper.rule(source).force_matched:
        return warning(subject, f"{found}; mapper[i].forceMatched=false leaves it out", alter)
    if not seen.is_ahead:
        return warning(subject, f"{found}; that record is before the start", alter)
    return error(subject, found, f"{alter} or rename it with mapper[i].column.{column.name}, or drop it with mapper[i].forceMatched=false.")
